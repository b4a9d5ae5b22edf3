#!/bin/bash
# test_answers.sh - how answers are chosen and where they end, from the command line: sampling rules, stop texts,
# log-probabilities, and the options that are refused. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_answers.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
story() { tiny_run -p "Once upon a time" -n 20 "$@"; }

# ---- Each rule does something, and all together say the same again.
story --temp 1.5 --seed 3 >"$dir/plain" 2>"$dir/err"
for rule in "--top-k 3" "--top-p 0.2" "--min-p 0.3" "--typical 0.2" "--repeat-penalty 3" "--frequency-penalty 20" "--presence-penalty 20" \
    "--logit-bias 40:90"; do
    status 0 "$rule" story --temp 1.5 --seed 3 $rule
    check "$rule changes the text" test "$(cmp -s "$dir/out" "$dir/plain"; echo $?)" = 1
done
all="--temp 1.2 --top-k 90 --top-p 0.95 --min-p 0.01 --typical 0.9 --repeat-penalty 1.2 --repeat-last 0 --frequency-penalty 0.3 --presence-penalty 0.2"
status 0 "all rules" story $all --logit-bias 5:2,6:-3 --logit-bias 7:-inf --samples 2 --json
cp "$dir/out" "$dir/first"
status 0 "all rules again" story $all --logit-bias 5:2,6:-3 --logit-bias 7:-inf --samples 2 --json --threads 1 --cache contiguous
says "o['samples'] == json.load(open('$dir/first'))['samples']" "the same answers"
says "all(7 not in s['tokens'] for s in o['samples'])" "never is never"
status 0 "a bias" story --logit-bias 40:100 --json
says "set(o['tokens']) == {40}" "a bias of 100 decides"

# ---- Stop texts.
tiny_run -p "stop" -n 12 --json --logit-bias 75:100 >"$dir/out" 2>"$dir/err" # a letter again and again
letter=$(json "$dir/out" "print(o['text'][0])")
status 0 "a stop text" tiny_run -p "stop" -n 12 --logit-bias 75:100 --stop zzz --stop "$letter$letter$letter" --json
says "o['text'] == '' and o['finish_reason'] == 'stop' and len(o['tokens']) == 3" "the answer ends before it"
status 0 "a stop text that is not there" tiny_run -p "stop" -n 12 --logit-bias 75:100 --stop "${letter}z" --json
says "o['text'] == '$letter' * 12 and o['finish_reason'] == 'length'" "nothing is lost"
status 0 "text comes out to the end" tiny_run -p "stop" -n 12 --logit-bias 75:100 --stop "${letter}z"
check "what was held back is shown" test "$(cat "$dir/out")" = "$(printf "$letter%.0s" 1 2 3 4 5 6 7 8 9 10 11 12)"

# ---- The same in a chat.
for args in "" "--logit-bias 75:100" "--logit-bias 75:100 --stop ${letter}${letter}"; do
    echo "Hello" | "$kvtile" chat -m "$tiny" -n 6 $args >"$dir/chat" 2>"$dir/err"
    check "chat $args" test "${PIPESTATUS[1]}" = 0
    case $args in
    *stop*) check "chat ends before a stop text" test -z "$(tr -d '\n' <"$dir/chat")" ;;
    *bias*) check "chat has biases" test "$(tr -d '\n' <"$dir/chat")" = "$letter$letter$letter$letter$letter$letter" ;;
    esac
done
status 2 "chat with no bias" "$kvtile" chat -m "$tiny" --logit-bias x

# ---- Log-probabilities.
status 0 "log-probabilities" story --temp 1 --seed 2 --logprobs 3 --samples 2 --json
says "all(len(s['logprobs']) == len(s['tokens']) for s in o['samples'])" "one for each token"
says "all(p['token'] == t for s in o['samples'] for p, t in zip(s['logprobs'], s['tokens']))" "of that token"
says "set(o['samples'][0]['logprobs'][0]) == {'token', 'text', 'bytes', 'logprob', 'top'}" "fields"
says "all(len(p['top']) == 3 and p['logprob'] <= p['top'][0]['logprob'] <= 0 for s in o['samples'] for p in s['logprobs'])" "the likeliest first"
says "b''.join(bytes(p['bytes']) for p in o['samples'][0]['logprobs']).decode('utf-8', 'replace') == o['samples'][0]['text']" "bytes make the text"
status 0 "of the tokens alone" story --logprobs 0 --json
says "o['samples'][0]['logprobs'][0]['top'] == []" "none of others"
status 0 "not asked for" story --json
says "'logprobs' not in o['samples'][0]" "none"

# ---- What is refused.
for bias in 5 5: :5 5:x 5:101 5:-100.5 5:inf 5:nan 5:1, ,5:1 x:1 -1:1 99999999999:1 "5:1 6:1"; do
    status 2 "--logit-bias $bias" story --logit-bias "$bias"
    check "it says how" grep -qF "ID:VALUE" "$dir/err"
done
refused "a bias for no token" "320" "999" -- tiny_run -p x --logit-bias 999:1
status 2 "too many biases" story --logit-bias "$(seq -s, 1 1025 | sed 's/,/:1,/g'):1"
check "it names the limit" grep -qF "1024" "$dir/err"
status 2 "an empty stop text" story --stop ""
status 2 "too many stop texts" story $(for i in $(seq 17); do echo "--stop $i"; done)
status 2 "log-probabilities without JSON" story --logprobs 3
for arg in "--logprobs 21 --json" "--logprobs -1 --json" "--typical 1.5" "--typical nan" "--repeat-penalty 0" "--repeat-last -1" \
    "--frequency-penalty 101" "--presence-penalty x"; do
    status 2 "$arg" story $arg
done

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
