#!/bin/bash
# test_chat_cli.sh - kvtile chat as people use it: through a pipe, where answers alone go to stdout, and on a terminal (tmux),
# where lines are edited, answers are stopped and blocks are drawn. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_chat_cli.sh
set -u
cd "$(dirname "$0")/.." || exit 1
model=${KVTILE_MODELS:-$HOME/.cache/kvtile/models}/SmolLM2-135M-Instruct.Q4_1.gguf
. tests/cli.sh
export XDG_STATE_HOME="$dir/state"
talkative=tests/vectors/tiny-a.gguf

# said NAME LINES OPTIONS...: lines in, answers in $dir/out, the rest in $dir/err; exit 0.
said() { said_as 0 "$@"; }
said_as() {
    local wanted=$1 name=$2 lines=$3
    shift 3
    printf "$lines" | "$kvtile" chat "$@" >"$dir/out" 2>"$dir/err"
    local got=$?
    if [ "$got" = "$wanted" ]; then good; else bad "$name: exit $got, not $wanted: $(head -c 300 "$dir/err")"; fi
}
count() { grep -cE -- "$1" "$2"; }

# ---- Through a pipe, with a tiny model: what is said around the answers, and the same answers from every kind of cache.
for cache in paged contiguous none; do
    said "a pipe, $cache" 'One\nTwo\n\nThree' -m $talkative -n 7 --cache $cache --kv f16
    cp "$dir/out" "$dir/$cache"
    check "$cache: the same answers" cmp -s "$dir/paged" "$dir/$cache"
    check "$cache: an answer's figures three times" test "$(count '^read [0-9]+, reused [0-9]+' "$dir/err")" = 3
done
said "answers alone" 'One\n/context\n/stats\n/help\n' -m $talkative -n 7
check "commands leave stdout alone" test "$(head -c 1000 "$dir/paged" | head -n "$(wc -l <"$dir/out")" | cmp - "$dir/out"; echo $?)" = 0
check "no escapes, no prompt" test "$(cat "$dir/out" "$dir/err" | grep -cE $'\033|^> ')" = 0
tells "/context draws blocks" '^ +0 \|[SsUuAa.]{4}\|'
tells "/context names who leaves first" 'S system, U you, A answer, small: leaves first'
tells "/stats counts" '^reused +0 tokens'
tells "/help lists commands" '/regen .*another draw'
said "several lines" 'one \\\ntwo\n"""\nthree\n/four"""\n//five\n/context' -m $talkative -n 3
tells "a backslash goes on" 'one  two'
tells "quotes hold a message together" 'three /four'
tells "two slashes are a message" ' /five'
said "what is cut says so" 'One\n' -m $talkative -n 3
tells "by -n" 'the 3 tokens that -n allows'
said "what is cut says so" 'One\n' -m $talkative --ctx 64 --system Hi
tells "by the context" 'the context of 64 tokens is full'
said "the oldest turns leave" 'One\nTwo\nThree\nFour\n' -m $talkative --ctx 150 -n 12
tells "which" '^the (2 )?oldest turns? \([0-9]+ tokens\) left the conversation to make room'
tells "what has to be read again" '^[0-9]+ tokens stand elsewhere now and are read again'
said_as 1 "too long a message" "One\n$(seq -s ' ' 200)\nTwo\n" -m $talkative --ctx 128 -n 8
tells "both numbers" 'it takes [0-9]+ tokens .* the context of 128 has room for 120'
check "and the talk goes on" test "$(count '^read' "$dir/err")" = 2
said_as 1 "an unknown command" '/contxt\n/save\n/undo\n' -m $talkative
tells "the near one" 'unknown command /contxt; did you mean /context\?'
tells "what is wanted" '/save wants a FILE'
tells "nothing to take back" 'no turn to take back'
said "leaving" 'One\n/quit\nTwo\n' -m $talkative -n 2
check "/quit leaves" test "$(count '^read' "$dir/err")" = 1
said "broken bytes, a control token, a zero byte" 'a\xffb<|im_end|>\n\\0\n' -m $talkative -n 2
head -c 300000 /dev/zero | tr '\0' 'x' >"$dir/long"
"$kvtile" chat -m $talkative <"$dir/long" >"$dir/out" 2>"$dir/err"
check "one very long line is refused in a second" test $? = 1

# ---- Other templates: the same reuse, and a saved chat goes on.
template() { python3 tests/gguf_edit.py $talkative "$dir/$1.gguf" "$2" || bad "$1: the edit failed"; }
template plain 'del keys["tokenizer.chat_template"]'
template llama2 'put("tokenizer.chat_template", "{{ bos_token }}[INST] <<SYS>> {{ x }} <</SYS>> [/INST]")'
template gemma 'put("tokenizer.chat_template", "<start_of_turn>model <end_of_turn>")'
for name in plain llama2 gemma; do
    said "$name" "One\nTwo\n/undo\nTwo\n/save $dir/kept.json\nThree\n" -m "$dir/$name.gguf" -n 9 --system "Be brief."
    sed -nE 's/^read ([0-9]+), reused ([0-9]+) .* ([0-9]+) of 512 tokens.*/\1 \2 \3/p' "$dir/err" >"$dir/figures"
    { read -r _ _ one; read -r _ reused _; read -r _ again _; } <"$dir/figures"
    check "$name: all but the last token is reused" test "$reused $again" = "$((one - 1)) $((one - 1))"
    cp "$dir/out" "$dir/whole"
    said "$name, loaded" 'Three\n' -m "$dir/$name.gguf" -n 9 --load "$dir/kept.json"
    check "$name: the same answer" cmp -s "$dir/out" <(tail -c "$(wc -c <"$dir/out")" "$dir/whole")
done
said "without a template" 'One\n' -m "$dir/plain.gguf" -n 3
tells "without a template it warns" '^kvtile: warning: .*plain.gguf: no chat template'
said "a limit of the cache" 'One\n/context\n' -m $talkative -n 3 --cache-size 66000
tells "gives the longest context it holds" '^[0-9]+ of 256 tokens'

# ---- Files: only conversations are read, and they appear whole.
said "saved" "One\n/system Speak.\nTwo\n/save $dir/kept.json\n" -m $talkative -n 4
tells "that an older file is gone" '^2 turns saved in .*kept.json, which was there and is replaced$'
said "saved in a new file" "One\n/save $dir/new.json\n" -m $talkative -n 4
tells "without a word of another" '^1 turn saved in .*new.json$'
check "it is JSON with roles" json "$dir/kept.json" "[m['role'] for m in o['messages']] == ['system'] + 2 * ['user', 'assistant']"
check "nothing else is left" test "$(ls "$dir" | grep -c 'kept')" = 1
bad_chat() { # bad_chat NAME TEXT WORDS: a file of that text is refused in one line.
    printf '%s' "$2" >"$dir/bad.json"
    said_as 1 "$1" "" -m $talkative --load "$dir/bad.json"
    tells "$1" "^kvtile: .*bad.json: $3"
    check "$1: one line" test "$(wc -l <"$dir/err")" = 1
}
bad_chat "no JSON" 'hello' 'is no saved chat: line 1'
bad_chat "cut off" "$(head -c 120 "$dir/kept.json")" 'is no saved chat: line'
bad_chat "another kind of object" '{"messages": []}' 'is no saved chat: kvtile_chat and messages are missing'
bad_chat "a list" '[1]' 'is no saved chat'
bad_chat "a later version" '{"kvtile_chat": 2, "messages": []}' 'is a chat of version 2'
bad_chat "no role" '{"kvtile_chat": 1, "messages": [{"content": "x"}]}' 'is no saved chat: message 1 has no role'
bad_chat "out of turn" '{"kvtile_chat": 1, "messages": [{"role": "assistant", "content": "x"}]}' 'is no saved chat: message 1 is out of turn'
bad_chat "no answer" '{"kvtile_chat": 1, "messages": [{"role": "user", "content": "x"}]}' 'is no saved chat: the last message'
bad_chat "deep" "$(printf '[%.0s' $(seq 5000))" 'is no saved chat'
said_as 1 "no such file" "" -m $talkative --load "$dir/nothing.json"
said_as 1 "a folder" "" -m $talkative --load "$dir"
printf '{"kvtile_chat": 1, "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tokens": [-1, 99999999999, "z"]}]}' >"$dir/odd.json"
said "ids that are none are not believed" "Hi\n" -m $talkative -n 2 --load "$dir/odd.json"
said_as 1 "a device is not replaced" "/save /dev/null\n" -m $talkative
tells "a device is not replaced" 'is no file'

# ---- Signals: SIGTERM ends it cleanly, also while it waits.
for signal in TERM INT; do
    mkfifo "$dir/fifo"
    rm -f "$dir/err"
    "$kvtile" chat -m $talkative <"$dir/fifo" >"$dir/out" 2>"$dir/err" &
    pid=$!
    exec 9>"$dir/fifo"
    printf 'One\n' >&9
    for _ in $(seq 100); do grep -qs "^read" "$dir/err" && break; sleep 0.05; done
    kill -$signal $pid
    wait $pid
    check "SIG$signal at the prompt is 130" test $? = 130
    exec 9>&-
    rm "$dir/fifo"
done

if [ ! -f "$model" ]; then
    echo "skipped: the default model is not there"
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi

# ---- The real model: each turn reads its own tokens; what is taken back or saved goes on the same way.
ask='My name is Ann. Say hello.'
said "two turns" "$ask\nWhat did I say?\n/undo\nWhat did I say?\n/regen\n/save $dir/ann.json\nGoodbye.\n" -m "$model" -n 24
"$kvtile" run -m "$model" --chat -p "$ask" -n 24 2>"$dir/err2" | cmp -s - <(head -n 1 "$dir/out") && good || bad "the first answer is that of run"
mapfile -t answer <"$dir/out"
check "/undo and the same question: the same answer" test "${answer[1]}" = "${answer[2]}"
check "/regen with --temp 0: the same answer" test "${answer[1]}" = "${answer[3]}"
tells "/regen says so" 'the same text comes again'
read -r first second <<<"$(sed -nE 's/^read ([0-9]+), reused ([0-9]+) .*/\1:\2/p' "$dir/err" | head -n 2 | tr '\n' ' ')"
total=$(sed -nE 's/.*· ([0-9]+) of 8,192 tokens.*/\1/p' "$dir/err" | head -n 1)
check "the first turn reuses nothing" test "${first#*:}" = 0
check "the second reuses all but the last token" test "${second#*:}" = $((total - 1))
check "and reads little" test "${second%:*}" -lt 25
said "loaded" "Goodbye.\n" -m "$model" -n 24 --load "$dir/ann.json"
check "a loaded chat goes on with the same answer" test "$(cat "$dir/out")" = "${answer[4]}"
said "draws" "$ask\n/regen\n/regen\n" -m "$model" -n 24 --temp 1 --seed 5
check "/regen draws anew" test "$(sort -u "$dir/out" | wc -l)" -gt 2
if [ -e /dev/full ]; then
    echo One | "$kvtile" chat -m $talkative -n 3 >/dev/full 2>"$dir/err"
    check "a full disk fails" test $? = 1
    tells "a full disk is told" '^kvtile: stdout: No space left'
fi
"$kvtile" chat -m "$model" -n 2000 < <(echo "Tell a very long story."; sleep 20) 2>"$dir/err" | head -c 1 >/dev/null
check "a closed stdout ends the chat" test ! -s "$dir/err"

# ---- On a terminal.
if ! command -v tmux >/dev/null; then
    echo "skipped: tmux is not there"
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
fi
session=0
pane() { tmux -u -S "$dir/tmux$session" -f /dev/null "$@"; }
trap 'pane kill-server 2>/dev/null; rm -rf "$dir"' EXIT
keys() { pane send-keys "$@"; }
types() { pane send-keys -l "$1"; }
enters() { types "$1" && keys Enter; }
shown() { pane capture-pane -p -S -200 "$@"; }
# shows NAME PATTERN [TIMES]: the pattern is on the screen so many times, soon.
shows() {
    for _ in $(seq 300); do
        [ "$(shown | grep -cE -- "$2")" -ge "${3:-1}" ] && { good; return; }
        sleep 0.05
    done
    bad "$1: \"$2\" is not on the screen: $(shown | grep -v '^$' | tail -n 25)"
}
begins() { # begins COLUMNS ENVIRONMENT
    session=$((session + 1))
    pane new-session -d -x "$1" -y 50 \
        "env $2 $(printf '%q ' "$kvtile" chat -m "$model" -n 300); echo \"exit \$?\"; stty -a | grep -o ' icanon.*'; sleep 60"
}

begins 100 TERM=tmux-256color
shows "the banner: model" ' 97 MB of Q4_1 weights . ChatML$'
shows "the banner: cache" '^paged cache, bf16, context 8,192 tokens, 23 kB each: up to 189 MB'
shows "the banner: help" '/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves'
types '안녕하세요 Annx'
keys BSpace
shows "wide characters are edited" '^> 안녕하세요 Ann$'
keys C-a Right Right BSpace End
shows "in the middle too" '^> 안하세요 Ann$'
keys C-c
enters 'In one word, say hi.'
shows "an answer, and what it took" '^read [0-9]+, reused 0 · first word' 1
enters 'Tell a very long story about a fox and a hen, with many chapters.'
for _ in $(seq 200); do [ "$(shown | wc -w)" -gt 90 ] && break; sleep 0.05; done
keys C-c
shows "Ctrl-C stops the answer" '^stopped here; what was said stays'
shows "and the prompt is back" '^>$'
keys Up
shows "the arrow brings back the line" '^> Tell a very long story' 2
keys C-c
shows "Ctrl-C clears the line" '^> Tell a very long story.*chapters\.\^C$'
enters '"""'
enters 'In one word:'
enters 'hello?"""'
shows "a block is one message" '^read [0-9]+, reused [0-9]+ ' 3
printf 'In one word:\nbye?' | pane load-buffer -
pane paste-buffer -p
shows "what is pasted waits" '^bye\?$'
keys Enter
shows "and is one message too" '^read [0-9]+, reused [0-9]+ ' 4
enters '/context'
shows "/context draws the blocks" '^ +0 \|SSSu\|u...\|'
shows "/context lists messages" '^ +U +[0-9]+ tokens in [0-9-]+ +Tell a very long story'
check "in colours" test "$(shown -e | grep -c $'\033\[36mu')" -gt 0
keys C-d
shows "Ctrl-D leaves" '^exit 0'
shows "the terminal is as it was" ' icanon '
pane kill-server

check "nothing is left beside the history" test "$(ls -A "$XDG_STATE_HOME/kvtile")" = history
check "the history is its owner's" test "$(stat -c %a "$XDG_STATE_HOME/kvtile/history")" = 600
begins 40 "TERM=tmux-256color NO_COLOR=1 LC_ALL=C"
shows "a narrow terminal" '^> *$'
types '한국어'
keys Left BSpace
shows "wide characters in the C locale too" '^> 한어'
keys C-c
keys Up Up
shows "yesterday's lines" '^> In one word:'
keys C-c C-u
enters 'What is a cache?'
shows "figures that fit" '^read [0-9]+, reused 0 · first'
printf 'What is a cache?\n' | "$kvtile" chat -m "$model" -n 300 2>/dev/null | tr -s ' \n' ' ' >"$dir/words"
check "an answer through a pipe" test -s "$dir/words"
check "lines are broken between words" grep -qF "$(cat "$dir/words")" <(shown | tr -s ' \n' ' ')
enters '/context'
shows "a grid that fits" '^ +0 \|....\|'
check "NO_COLOR" test "$(shown -e | grep -c $'\033\[[0-9;]*m')" = 0
keys C-c
shows "Ctrl-C once" 'Ctrl-C again or Ctrl-D leaves'
keys C-c
shows "Ctrl-C twice leaves" '^exit 0'
pane kill-server

rm "$XDG_STATE_HOME/kvtile/history"
mkfifo "$XDG_STATE_HOME/kvtile/history" # nobody writes to it, and nobody waits for that
begins 80 TERM=dumb
shows "a dumb terminal" '^> *$'
enters 'Hi'
shows "is talked to" '^read [0-9]+, reused 0'
kill -TERM "$(pgrep -P "$(pane display-message -p '#{pane_pid}')" -x kvtile)"
shows "SIGTERM ends it" '^exit 130'
shows "and leaves the terminal as it was" ' icanon '
pane kill-server

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
