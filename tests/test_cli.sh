#!/bin/bash
# test_cli.sh - the program as its users call it: the same bits on every CPU path and kind of cache, the JSON it promises,
# Ctrl-C. What it makes of bad input is test_badinput.sh's. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_cli.sh
set -u
cd "$(dirname "$0")/.." || exit 1
model=${KVTILE_MODELS:-$HOME/.cache/kvtile/models}/SmolLM2-135M-Instruct.Q4_1.gguf
. tests/cli.sh

# ---- The same bits on every CPU path, in every kind of cache.
paths() {
    local name=$1 prompt=$2 file first="" cpus=scalar
    shift 2
    grep -qw avx2 /proc/cpuinfo 2>/dev/null && cpus="$cpus avx2"
    grep -qw avx512_vnni /proc/cpuinfo 2>/dev/null && cpus="$cpus avx512"
    for cpu in $cpus; do
        for cache in paged contiguous none; do
            file="$dir/$name-$cpu-$cache"
            KVTILE_CPU=$cpu status 0 "$name on $cpu, $cache" "$kvtile" run "$@" -p "$prompt" --cache "$cache" --logits "$file" --json
            says "o['cpu'] == '$cpu' and o['cache']['kind'] == '$cache'" "$name on $cpu, $cache"
            check "$name on $cpu, $cache: logits are there" test -s "$file"
            [ -n "$first" ] || first=$file
            check "$name on $cpu, $cache: same bits as $(basename "$first")" cmp -s "$first" "$file"
        done
    done
}
paths tiny "The same bits, wherever they are computed." -m "$tiny" -n 12
paths tiny-accurate "The same bits, wherever they are computed." -m "$tiny" -n 4 --math accurate
for math in fast accurate exact; do [ -f "$model" ] && paths "default-$math" "The capital of France is" -m "$model" -n 4 --math $math; done
[ -f "$model" ] || echo "skipped: the default model is not there"

# ---- JSON.
status 0 "json" tiny_run -p "Once upon a time" -n 9 --json
says "set(o) == set('model arch math load_ms text tokens samples finish_reason prompt_tokens cached_tokens completion_tokens positions_computed ttft_ms tpot_ms prefill_tokens_per_s decode_tokens_per_s threads cpu cache'.split())" "fields"
says "set(o['cache']) == set('kind k_format v_format block_tokens bytes_per_token bytes_used bytes_reserved blocks_used blocks_shared'.split())" "cache fields"
says "set(o['samples'][0]) == {'text', 'tokens', 'finish_reason'} and o['samples'][0]['tokens'] == o['tokens']" "samples"
says "o['positions_computed'] == o['prompt_tokens'] + o['completion_tokens'] - 1" "positions with a cache"
says "o['completion_tokens'] == len(o['tokens']) and o['finish_reason'] in ('length', 'stop')" "counts"
says "o['cache']['bytes_per_token'] == 2 * 1 * (16 + 16) * 2 and o['cache']['bytes_used'] == o['positions_computed'] * 128" "bytes"
for math in fast accurate exact; do
    status 0 "json, $math" tiny_run -p "Once upon a time" -n 1 --math $math --json
    says "o['math'] == '$math'" "json, $math"
done
status 0 "json, no cache" tiny_run -p "Once upon a time" -n 9 --cache none --json
says "o['positions_computed'] == sum(o['prompt_tokens'] + i for i in range(o['completion_tokens']))" "positions without a cache"
status 0 "samples" tiny_run -p "Once upon a time there was a cache" -n 6 --samples 3 --temp 1 --seed 4 --block 16 --json
says "len(o['samples']) == 3 and o['cache']['blocks_shared'] >= 1" "samples share blocks"
says "o['positions_computed'] == o['prompt_tokens'] + o['completion_tokens'] - 3" "one prefill for three samples"
cp "$dir/out" "$dir/first"
status 0 "samples again, other threads and chunks" tiny_run -p "Once upon a time there was a cache" -n 6 --samples 3 --temp 1 --seed 4 --threads 1 --chunk 3 --json
says "o['samples'] == json.load(open('$dir/first'))['samples']" "same seed, same text"
printf 'first prompt\n\nsecond one, a little longer\nthird' >"$dir/prompts"
status 0 "prompts" tiny_run --prompts "$dir/prompts" -n 5 --json
says "len(o['samples']) == 3" "a sample for each line that is not empty"
cp "$dir/out" "$dir/first"
status 0 "one of the prompts alone" tiny_run -p "second one, a little longer" -n 5 --json
says "o['tokens'] == json.load(open('$dir/first'))['samples'][1]['tokens']" "alone and in a batch"
status 0 "inspect" "$kvtile" inspect -m "$tiny" --json
says "o['arch'] == 'llama' and o['n_layers'] == 2 == len(o['layers']) and o['n_vocab'] == 320 and o['context_train'] == 512" "inspect"
says "o['layers'][0] == {'kind': 'full', 'n_heads': 8, 'n_heads_kv': 1, 'dim_k': 16, 'dim_v': 16, 'window': 0}" "inspect layers"

# ---- Benches: the rows they promise, and the figures that do not depend on the machine.
common="set(o) == {'command', 'cpu', 'threads', 'bandwidth_read', 'rows'} and o['bandwidth_read'] > 0"
status 0 "bench decode" "$kvtile" bench decode -m "$tiny" --depths 0,100 --steps 3 --json
says "$common and [r['depth'] for r in o['rows']] == [0, 100]" "bench decode"
says "set(o['rows'][1]) == set('depth ms_per_token tokens_per_s attend_bytes attend_gb_per_s bandwidth_share'.split())" "bench decode row"
says "o['rows'][1]['attend_bytes'] == 101 * 128 and o['rows'][1]['ms_per_token'] > 0" "bench decode bytes"
status 0 "bench prefill" "$kvtile" bench prefill -m "$tiny" --tokens 7,100 --chunk 16 --steps 1 --json
says "$common and [set(r) for r in o['rows']] == 2 * [{'tokens', 'ms', 'tokens_per_s'}]" "bench prefill"
status 0 "bench attend" "$kvtile" bench attend -m "$tiny" --depths 64 --rows 16 --json
says "$common and [r['phase'] for r in o['rows']] == ['decode', 'prefill']" "bench attend"
status 0 "bench reuse" "$kvtile" bench reuse -m "$tiny" --tokens 50 -n 4 --json
says "$common and [r['cache'] for r in o['rows']] == ['none', 'contiguous', 'paged'] and all(r['same_answer'] for r in o['rows'])" "bench reuse"
says "[r['positions_computed'] for r in o['rows']] == [50 + 51 + 52 + 53, 53, 53]" "bench reuse positions"
says "o['rows'][2]['bytes_reserved'] == 64 * 128 and o['rows'][1]['bytes_reserved'] == 512 * 128" "bench reuse bytes"
{
    echo TIMESTAMP,ContextTokens,GeneratedTokens
    for i in $(seq 300); do echo "2023-11-16 18:15:46.6805900,$((i * 7919 % 2500 + 1)),$((i * 104729 % 400 + 1))"; done
} >"$dir/trace.csv"
status 0 "bench memory" "$kvtile" bench memory "$dir/trace.csv" --alive 16 --json
says "$common and [r['block_tokens'] for r in o['rows'][:3]] == [16, 32, 64]" "bench memory"
says "o['rows'][0]['use_share'] >= 0.963 and o['rows'][0]['use_share'] > o['rows'][1]['use_share'] > o['rows'][2]['use_share'] > 0.9" "paged blocks are in use"
says "o['rows'][3]['cache'] == 'contiguous' and 0.3 < o['rows'][3]['use_share'] < 0.6" "a contiguous cache waits"
if [ -n "${KVTILE_DATA:-}" ]; then
    status 0 "bench memory on recorded requests" "$kvtile" bench memory --requests 1000 --json
    says "o['rows'][0]['use_share'] >= 0.963" "recorded requests"
fi
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\nx,5,five\n' >"$dir/bad.csv"
refused "a trace with a bad line" bad.csv "line 2" -- "$kvtile" bench memory "$dir/bad.csv"
status 2 "no trace" env -u KVTILE_DATA "$kvtile" bench memory
status 2 "no such measurement" "$kvtile" bench frobnicate

# ---- Text: stdout holds the answer alone, the table is on stderr.
status 0 "text" tiny_run -p "Once" -n 5
check "the table is on stderr" grep -q "positions computed" "$dir/err"
if grep -q "positions computed" "$dir/out"; then bad "the table is on stdout"; else good; fi
printf 'Once' | tiny_run - -n 5 2>/dev/null | cmp -s - "$dir/out" && good || bad "stdin gives the same as -p"
printf 'Once' >"$dir/prompt"
status 0 "-f" tiny_run -f "$dir/prompt" -n 5
printf 'Once' | tiny_run - -n 5 2>/dev/null | cmp -s - "$dir/out" && good || bad "-f gives the same as -p"

# ---- Ctrl-C between two steps of a long prompt: 130, and the table all the same.
yes 'a b c d e f g h' | head -c 400000 >"$dir/long"
"$kvtile" run -m "$tiny" -f "$dir/long" --ctx 1000000 >"$dir/out" 2>"$dir/err" </dev/null &
pid=$!
sleep 2
kill -INT $pid
wait $pid
check "Ctrl-C in a prompt is 130" test $? = 130
check "Ctrl-C in a prompt prints the table" grep -q "positions computed" "$dir/err"

# ---- The same within an answer; and a reader that goes away ends it without a word.
if [ -f "$model" ]; then
    "$kvtile" run -m "$model" -p "Count: 1, 2, 3," -n 5000 --logits "$dir/interrupted" >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    for _ in $(seq 200); do [ "$(wc -c <"$dir/out")" -gt 20 ] && break; sleep 0.05; done
    kill -INT $pid
    wait $pid
    check "Ctrl-C in an answer is 130" test $? = 130
    check "Ctrl-C in an answer prints the table" grep -q "positions computed" "$dir/err"
    check "Ctrl-C keeps the logits so far" test -s "$dir/interrupted"
    timeout 20 "$kvtile" run -m "$model" -p "Count: 1, 2, 3," -n 8000 2>"$dir/err" </dev/null | head -c 1 >/dev/null
    check "a closed stdout ends the run" test "${PIPESTATUS[0]}" = 0
    check "a closed stdout is not an error" test ! -s "$dir/err"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
