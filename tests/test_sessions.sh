#!/bin/bash
# test_sessions.sh - kvtile chat --store and --session: a conversation goes on after a restart, in the same bytes, and its
# beginning is not read again. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_sessions.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
export XDG_CACHE_HOME="$dir/cache" XDG_STATE_HOME="$dir/state" HOME="$dir/home" COLUMNS=200
unset KVTILE_STORE
mkdir "$HOME"
talkative=tests/vectors/tiny-a.gguf
# said WANTED NAME LINES OPTIONS...: lines in, answers in $dir/out, the rest in $dir/err; that exit status.
said() {
    printf "$3" | "$kvtile" chat -m $talkative -n 7 "${@:4}" >"$dir/out" 2>"$dir/err"
    local got=$?
    if [ "$got" = "$1" ]; then good; else bad "$2: exit $got, not $1: $(head -c 300 "$dir/err")"; fi
}
tells() { if grep -qE -- "$2" "$dir/err"; then good; else bad "$1: \"$2\" is missing in: $(head -c 600 "$dir/err")"; fi; }
store="$dir/store"
kept="$store/sessions/trip.json"

# ---- A conversation of four messages in one process, and in three, in every kind of format.
for kv in bf16 f32 k8v4; do
    store="$dir/$kv" kept="$dir/$kv/sessions/trip.json"
    said 0 "$kv in one go" 'One\nTwo\nThree\nFour\n' --kv $kv --temp 1 --seed 4
    cp "$dir/out" "$dir/whole"
    said 0 "$kv, first" 'One\nTwo\n' --kv $kv --temp 1 --seed 4 --store "$store" --session trip
    check "$kv, first: nothing has come back" test "$(grep -c '^session' "$dir/err")" = 0
    cp "$dir/out" "$dir/parts"
    said 0 "$kv, second" 'Three\n' --kv $kv --temp 1 --seed 4 --store "$store" --session trip
    tells "$kv, second: turns come back" '^session trip: 2 turns came back, [0-9]+ tokens$'
    tells "$kv, second: blocks come from the store" '^read [0-9]+, reused ([0-9]+) \(\1 from the store\) '
    cat "$dir/out" >>"$dir/parts"
    said 0 "$kv, third" 'Four\n/context\n' --kv $kv --temp 1 --seed 4 --store "$store" --session trip
    tells "$kv, third: turns come back" '^session trip: 3 turns came back'
    read -r read reused <<<"$(sed -nE 's/^read ([0-9]+), reused ([0-9]+) .*/\1 \2/p' "$dir/err" | head -n 1)"
    check "$kv, third: less than half is read" test "$read" -lt "$reused"
    cat "$dir/out" >>"$dir/parts"
    check "$kv: the same answers" cmp -s "$dir/parts" "$dir/whole"
    check "$kv: four turns are kept" json "$kept" "[m['role'] for m in o['messages']].count('assistant') == 4"
    check "$kv: nothing else is left there" test "$(ls -A "$store/sessions")" = trip.json
done

# ---- Whatever changes the conversation is kept; looking at it changes nothing.
said 0 "taken back" '/undo\n' --store "$store" --session trip
check "a turn less" json "$kept" "[m['role'] for m in o['messages']].count('assistant') == 3"
said 0 "another system message" '/system Speak.\n' --store "$store" --session trip
check "a system message" json "$kept" "o['messages'][0] == {'role': 'system', 'content': 'Speak.'}"
said 0 "nothing said" '/context\n/quit\n' --store "$store" --session new
check "no file for nothing" test ! -e "$store/sessions/new.json"
said 0 "another name is another session" 'Hi\n/save '"$dir"'/saved.json\n' --store "$store" --session other-1.b
check "which is kept" test -s "$store/sessions/other-1.b.json"
check "in the form of /save" cmp -s "$dir/saved.json" "$store/sessions/other-1.b.json"
said 0 "loaded into it" "/load $dir/bf16/sessions/trip.json\n" --store "$store" --session other-1.b
check "is kept too" json "$store/sessions/other-1.b.json" "[m['role'] for m in o['messages']].count('assistant') == 4"
check "folders are their owner's" test "$(stat -c %a "$store" "$store/sessions" | tr '\n' ' ')" = "700 700 "

said 0 "a system message on the command line" '/context\n' --store "$store" --session trip --system 'Be brief.'
tells "it goes before the one that was kept" '^from here on with the system message of --system$'
check "it is kept" json "$kept" "o['messages'][0] == {'role': 'system', 'content': 'Be brief.'}"
said 0 "the same one again" '/context\n' --store "$store" --session trip --system 'Be brief.'
check "the same one again: nothing to say" test "$(grep -c 'from here on' "$dir/err")" = 0
said 0 "a saved chat, too" '/save '"$dir"'/brief.json\n' --load "$dir/saved.json" --system 'Be brief.'
check "a saved chat, too" json "$dir/brief.json" "o['messages'][0] == {'role': 'system', 'content': 'Be brief.'}"

# ---- Two chats with one name: what the other one said does not go silently.
said 0 "nobody else" 'One\nTwo\n' --store "$store" --session both
check "nobody else: nothing to say" test "$(grep -c 'another chat' "$dir/err")" = 0
{ echo One; while [ ! -e "$dir/meanwhile" ]; do sleep 0.02; done; echo Two; echo Three; } |
    "$kvtile" chat -m $talkative -n 7 --store "$store" --session both >"$dir/out" 2>"$dir/first" &
while [ "$(grep -c '^read' "$dir/first" 2>/dev/null)" != 1 ]; do sleep 0.02; done
said 0 "another chat" 'Four\n' --store "$store" --session both
touch "$dir/meanwhile"
wait $!
check "another chat is told, once" test "$(grep -c '^kvtile: warning: another chat has kept session both' "$dir/first")" = 1

# ---- A store without a session: messages that were said before, of another process.
said 0 "a store alone" 'Tell me of the sea, and of ships on it.\n' --store "$dir/alone"
cp "$dir/out" "$dir/whole"
said 0 "again" 'Tell me of the sea, and of ships on it.\n/stats\n' --store "$dir/alone"
tells "again: found" '^read [0-9]+, reused [0-9]+ \([0-9]+ from the store\)'
tells "/stats" '^store +[0-9]+ tokens came from it; 0 blocks are written$'
check "again: the same answer" cmp -s "$dir/out" "$dir/whole"
check "nothing is kept of what was said" test ! -e "$dir/alone/sessions"

# ---- Where it is kept without --store.
KVTILE_STORE="$dir/named" said 0 "KVTILE_STORE" 'Hi\n' --session a
check "KVTILE_STORE" test -s "$dir/named/sessions/a.json"
said 0 "the user's own" 'Hi\n' --session a
check "the user's own" test -s "$HOME/.cache/kvtile/store/sessions/a.json"
HOME='' said 1 "nowhere" 'Hi\n' --session a
tells "nowhere" '^kvtile: no folder for a session'

# ---- Killed in the middle of a turn: what was kept is whole, and the chat goes on.
said 0 "before" 'One\n' --store "$dir/killed" --session a
for _ in 1 2 3 4 5; do
    yes 'More words' | head -n 400 | "$kvtile" chat -m $talkative -n 7 --store "$dir/killed" --session a >/dev/null 2>&1 &
    pid=$!
    sleep 0.2
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    check "killed: the file is whole" json "$dir/killed/sessions/a.json" "o['kvtile_chat'] == 1"
done
said 0 "after" 'Two\n' --store "$dir/killed" --session a
tells "after" '^session a: [0-9]+ turns? came back'

# ---- What is refused.
for name in '' .hidden ../up a/b 'a b' 'é' "$(head -c 101 /dev/zero | tr '\0' a)"; do
    said 2 "the name \"$name\"" 'Hi\n' --store "$store" --session "$name"
    tells "the name \"$name\"" 'is no name for a session'
done
said 2 "--load too" 'Hi\n' --store "$store" --session a --load "$dir/saved.json"
said 2 "no blocks" 'Hi\n' --store "$store" --session a --cache none
said 2 "no blocks" 'Hi\n' --store "$store" --cache contiguous
echo '{"kvtile_chat": 1' >"$store/sessions/broken.json"
said 1 "a broken file" 'Hi\n' --store "$store" --session broken
tells "a broken file" '^kvtile: .*broken.json: is no saved chat'
check "stays as it is" test "$(cat "$store/sessions/broken.json")" = '{"kvtile_chat": 1'
echo text >"$dir/file"
said 1 "a file for a store" 'Hi\n' --store "$dir/file" --session a
check "a file for a store: one line" test "$(wc -l <"$dir/err")" = 1
mkdir "$store/sessions/folder.json"
said 1 "a folder in its place" 'Hi\n' --store "$store" --session folder

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
