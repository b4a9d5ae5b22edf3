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
says "set(o['cache']) == set('kind k_format v_format bits_per_element bytes_hot block_tokens bytes_per_token bytes_used bytes_reserved blocks_used blocks_shared'.split())" "cache fields"
says "set(o['samples'][0]) == {'text', 'tokens', 'finish_reason'} and o['samples'][0]['tokens'] == o['tokens']" "samples"
says "o['positions_computed'] == o['prompt_tokens'] + o['completion_tokens'] - 1" "positions with a cache"
says "o['completion_tokens'] == len(o['tokens']) and o['finish_reason'] in ('length', 'stop')" "counts"
says "o['cache']['bytes_per_token'] == 2 * 1 * (16 + 16) * 2 and o['cache']['bytes_used'] == o['positions_computed'] * 128" "bytes"
says "abs(o['decode_tokens_per_s'] * o['tpot_ms'] / 1e3 - 1) < 1e-6" "one clock for tokens per second and milliseconds per token"
for math in fast accurate exact; do
    status 0 "json, $math" tiny_run -p "Once upon a time" -n 1 --math $math --json
    says "o['math'] == '$math'" "json, $math"
done
status 0 "json, no cache" tiny_run -p "Once upon a time" -n 9 --cache none --json
says "o['positions_computed'] == sum(o['prompt_tokens'] + i for i in range(o['completion_tokens']))" "positions without a cache"
status 0 "samples" tiny_run -p "Once upon a time there was a cache" -n 6 --samples 3 --temp 1 --seed 4 --block 16 --json
says "len(o['samples']) == 3 and o['cache']['blocks_shared'] >= 1" "samples share blocks"
says "o['positions_computed'] == o['prompt_tokens'] + o['completion_tokens'] - 3" "one prefill for three samples"
says "0 < o['decode_tokens_per_s'] * o['tpot_ms'] <= 3.0001e3" "three samples at once, on the same clock"
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
says "o['name'] and o['n_weights'] * 4 >= o['weights_bytes'] > 0 and 'F32' in o['weight_types'] and o['rope_dim'] == 16 and o['rope_base'] > 1" "inspect, weights and rope"
says "[o['cache_bytes_per_token'][f] for f in ('bf16', 'f16', 'f32')] == [128, 128, 256]" "inspect, bytes of a token"
says "{f['format']: f['bits_per_element'] for f in o['cache_formats'][:3]} == {'bf16': 16, 'f16': 16, 'f32': 32}" "inspect, formats"
says "all(f['bytes_per_token'] == 2 * 2 * 16 * f['bits_per_element'] / 8 for f in o['cache_formats'])" "inspect, bits and bytes"
status 0 "inspect of many types" "$kvtile" inspect tests/vectors/family-llama-blocks.gguf
for type in Q2_K Q3_K Q4_K Q5_K Q6_K Q5_0 Q5_1 IQ4_NL IQ4_XS F32; do check "inspect counts $type" grep -q "$type [13]" "$dir/out"; done

# ---- Benches: the rows they promise, and the figures that do not depend on the machine.
common="set(o) == {'command', 'cpu', 'threads', 'bandwidth_read', 'rows'} and o['bandwidth_read'] > 0"
status 0 "bench decode" "$kvtile" bench decode -m "$tiny" --depths 0,100 --steps 3 --json
says "$common and [r['depth'] for r in o['rows']] == [0, 100]" "bench decode"
says "set(o['rows'][1]) == set('depth ms_per_token tokens_per_s attend_bytes attend_gb_per_s bandwidth_share'.split())" "bench decode row"
says "o['rows'][1]['attend_bytes'] == 101 * 128 and o['rows'][1]['ms_per_token'] > 0" "bench decode bytes"
status 0 "bench decode with a picture" "$kvtile" bench decode -m "$tiny" --depths 0,100 --steps 1 --chunk 8 --json --plot "$dir/roof.svg"
says "$common and len(o['rows']) == 2" "bench decode with a picture"
says "'memory, measured: %.1f GB/s<' % (o['bandwidth_read'] / 1e9) in open('$dir/roof.svg').read().replace('\\n', '<')" "the roof is the bandwidth"
check "the picture is well-formed" python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$dir/roof.svg"
for word in "Roofline of decoding" "memory, measured" "prefill attention, measured" "attention of one token" "whole step"; do
    check "the picture says \"$word\"" grep -q "$word" "$dir/roof.svg"
done
status 0 "bench decode with a PNG" "$kvtile" bench decode -m "$tiny" --depths 5 --steps 1 --plot "$dir/roof.png"
check "a PNG is one" cmp -s -n 4 "$dir/roof.png" <(printf '\211PNG')
status 2 "a picture of no known kind" "$kvtile" bench decode -m "$dir/no-such-model.gguf" --plot "$dir/roof.jpg"
check "it names the kinds" grep -qF "ends in .svg or .png" "$dir/err"
status 1 "a picture in no folder" "$kvtile" bench decode -m "$tiny" --depths 5 --steps 1 --plot "$dir/nowhere/roof.svg"
check "it names the file" grep -qF "nowhere/roof.svg: No such file or directory" "$dir/err"
status 0 "bench prefill" "$kvtile" bench prefill -m "$tiny" --tokens 7,100 --chunk 16 --steps 1 --json
says "$common and [set(r) for r in o['rows']] == 2 * [{'tokens', 'ms', 'tokens_per_s'}]" "bench prefill"
status 0 "bench attend" "$kvtile" bench attend -m "$tiny" --depths 64 --rows 16 --json
says "$common and [r['phase'] for r in o['rows']] == ['decode', 'prefill']" "bench attend"
says "set(o['rows'][0]) == set('phase depth rows n_heads n_heads_kv dim us_per_layer gb_per_s gflop_per_s bandwidth_share'.split())" "bench attend row"
says "[(r['n_heads'], r['n_heads_kv'], r['dim']) for r in o['rows']] == 2 * [(8, 1, 16)]" "bench attend, the model's heads"
status 0 "bench attend, other heads" "$kvtile" bench attend -m "$tiny" --depths 64 --rows 16 --dim 128 --heads 6,2 --json
says "[(r['n_heads'], r['n_heads_kv'], r['dim']) for r in o['rows']] == 2 * [(6, 2, 128)]" "bench attend, other heads"
says "all(abs(r['gb_per_s'] * r['us_per_layer'] * 1e3 / ((64 + r['rows']) * 2 * 2 * 128 * 2) - 1) < 1e-6 for r in o['rows'])" "bench attend bytes"
says "all(abs(r['gflop_per_s'] * r['us_per_layer'] * 1e3 / (2 * n * 6 * 2 * 128) - 1) < 1e-6 for r, n in zip(o['rows'], (65, 16 * 64 + 136)))" "bench attend operations"
for heads in 8 8,3 8,2,1 0,1 8,0 8,16; do status 2 "bench attend --heads $heads" "$kvtile" bench attend -m "$tiny" --heads $heads; done
status 2 "bench attend --dim 513" "$kvtile" bench attend -m "$tiny" --dim 513
status 0 "bench attend, a table" "$kvtile" bench attend -m "$tiny" --depths 64 --rows 16
check "bench attend, per thread" grep -q "per thread" "$dir/out"

# 45 tokens are 3 blocks of 16. Forks have the first two in common, and the third, which the prefix of 40 reaches into, each its
# own; private ones have all three. A token of this model is 128 bytes.
status 0 "bench share" "$kvtile" bench share -m "$tiny" --sequences 4 --prefix 40 --own 5 --block 16 --steps 2 --json
says "$common and [r['mode'] for r in o['rows']] == ['shared', 'apart', 'private']" "bench share"
says "all(set(r) == set('mode sequences prefix own ms_per_step attend_ms tokens_per_s cache_bytes'.split()) for r in o['rows'])" "bench share row"
says "all((r['sequences'], r['prefix'], r['own']) == (4, 40, 5) for r in o['rows'])" "bench share, what was asked for"
says "[r['cache_bytes'] / 16 / 128 for r in o['rows']] == [2 + 4, 2 + 4, 3 * 4]" "bench share bytes"
says "all(r['ms_per_step'] > r['attend_ms'] > 0 and abs(r['tokens_per_s'] * r['ms_per_step'] / 4e3 - 1) < 1e-6 for r in o['rows'])" "bench share times"
status 0 "bench share, nothing of its own" "$kvtile" bench share -m "$tiny" --sequences 4 --prefix 32 --own 0 --block 16 --steps 1 --json
says "[r['cache_bytes'] / 16 / 128 for r in o['rows']] == [2, 2, 2 * 4]" "bench share bytes, nothing of its own"
status 0 "bench share, a table" "$kvtile" bench share -m "$tiny" --sequences 2 --prefix 20 --steps 1
check "bench share, three modes" test "$(grep -cE '^(shared|apart|private) .* x ' "$dir/out")" = 3
for arg in "--sequences 0" "--sequences 257" "--prefix 0" "--own -1" "--steps 33" "--kv int9" "--cache none"; do
    # shellcheck disable=SC2086
    status 2 "bench share $arg" "$kvtile" bench share -m "$tiny" $arg
done
refused "caches larger than the machine" bytes -- bash -c "ulimit -v 4000000; '$kvtile' bench share -m '$tiny' --sequences 256 --prefix 1048576"

status 0 "bench step" "$kvtile" bench step -m "$tiny" --depths 0,40 --steps 2 --threads 2 --json
says "$common and [r['depth'] for r in o['rows']] == [0, 40]" "bench step"
says "all(set(r) == set('depth ms_per_token reserve_us commit_us pool_runs empty_run_us overhead_share meeting_run_us overhead_share_meeting'.split()) for r in o['rows'])" "bench step row"
says "all(r['pool_runs'] > 0 and r['reserve_us'] > 0 and r['commit_us'] > 0 and r['meeting_run_us'] > r['empty_run_us'] > 0 for r in o['rows'])" "bench step, what it counts"
for run in "empty_run_us overhead_share" "meeting_run_us overhead_share_meeting"; do
    says "all(abs((r['reserve_us'] + r['commit_us'] + r['pool_runs'] * r['${run% *}']) / (r['${run#* }'] * r['ms_per_token'] * 1e3) - 1) < 1e-6 for r in o['rows'])" "bench step, ${run#* }"
done
status 0 "bench step alone" "$kvtile" bench step -m "$tiny" --steps 1 --threads 1 --json
says "[(r['depth'], r['pool_runs']) for r in o['rows']] == [(0, 0), (1024, 0)]" "one thread hands nothing to others"
status 0 "bench step, a table" "$kvtile" bench step -m "$tiny" --depths 7 --steps 1
check "bench step, a row" grep -qE '^ +7 .* %$' "$dir/out"
for arg in "--depths -1" "--depths 1,,2" "--steps 0" "--steps 33" "--threads 0"; do
    # shellcheck disable=SC2086
    status 2 "bench step $arg" "$kvtile" bench step -m "$tiny" $arg
done

# ---- bench modes: digits are a token each, so that run can give what each mode makes of every position.
digits=314159265358
printf %s $digits >"$dir/digits"
for math in fast accurate exact; do
    for i in $(seq ${#digits}); do tiny_run -p "${digits:0:$i}" -n 1 --math $math --logits "$dir/row" >"$dir/out" 2>"$dir/err" && cat "$dir/row"; done >"$dir/rows-$math"
done
status 0 "bench modes" "$kvtile" bench modes -m "$tiny" -f "$dir/digits" --chunk 5 --json
says "$common and [(r['math'], r['tokens']) for r in o['rows']] == [('fast', 12), ('accurate', 12), ('exact', 12)]" "bench modes"
says "all(r['prefill_tokens_per_s'] > 0 and r['decode_tokens_per_s'] > 0 for r in o['rows'])" "bench modes, rates"
check "bench modes, as run has it" python3 - "$dir" $digits <<'EOF'
import array, json, math, sys
folder, digits = sys.argv[1:]
rows = {}
for name in "fast", "accurate", "exact":
    x = array.array("f", open(f"{folder}/rows-{name}", "rb").read())
    rows[name] = [x[i : i + 320] for i in range(0, len(x), 320)]
    rows[name] = [[v - math.log(math.fsum(map(math.exp, row))) for v in row] for row in rows[name]]
for r in json.load(open(folder + "/out"))["rows"]:
    mine, exact = rows[r["math"]], rows["exact"]
    away = [math.fsum(math.exp(p) * (p - q) for p, q in zip(*both)) for both in zip(exact, mine)]
    same = [p.index(max(p)) == q.index(max(q)) for p, q in zip(exact, mine)]
    loss = [-row[3 + ord(d) - 33] for row, d in zip(mine, digits[1:])]  # three special tokens, then bytes from "!" on
    want = [sum(away) / 12, max(away), sum(same) / 12, math.exp(sum(loss) / 11)]
    have = [r[k] for k in ("kl_mean", "kl_p999", "top1_agree", "ppl")]
    assert all(abs(a - b) <= 1e-6 * b + 1e-13 for a, b in zip(have, want)), (r["math"], have, want)
    assert len(mine) == 12 and (r["math"] == "exact") == (want[0] == 0)
EOF
status 0 "bench modes, a table" "$kvtile" bench modes -m "$tiny" -f "$dir/digits" --ctx 11
check "bench modes, three rows" test "$(grep -cE '^(fast|accurate|exact) .* %' "$dir/out")" = 3
status 2 "bench modes without a text" "$kvtile" bench modes -m "$tiny"
refused "a text that is not there" no-such-text -- "$kvtile" bench modes -m "$tiny" -f "$dir/no-such-text"
printf 1 >"$dir/digit"
refused "a text of one token" "one token" -- "$kvtile" bench modes -m "$tiny" -f "$dir/digit"
refused "more than the model was trained on" "--ctx 513" 512 -- "$kvtile" bench modes -m "$tiny" -f "$dir/digits" --ctx 513

status 0 "bench reuse" "$kvtile" bench reuse -m "$tiny" --tokens 50 -n 4 --prompts 3 --prefix 64 --own 5 --json
says "$common and [r['cache'] for r in o['rows'][:3]] == ['none', 'contiguous', 'paged'] and all(r['same_answer'] for r in o['rows'])" "bench reuse"
says "[r['batch'] for r in o['rows'][3:]] == ['apart', 'shared']" "bench reuse: a batch"
says "[r['positions_computed'] for r in o['rows'][3:]] == [3 * (69 + 3), 64 + 3 * (5 + 3)]" "bench reuse: positions of a batch"
says "[r['positions_computed'] for r in o['rows'][:3]] == [50 + 51 + 52 + 53, 53, 53]" "bench reuse positions"
says "o['rows'][2]['bytes_reserved'] == 64 * 128 and o['rows'][1]['bytes_reserved'] == 512 * 128" "bench reuse bytes"
status 0 "bench tier" "$kvtile" bench tier -m "$tiny" --tokens 96 --runs 1 --json
says "$common and [r['from'] for r in o['rows'][:5]] == ['computed', 'cache', 'memory tier', 'disk', 'disk, cold']" "bench tier"
says "[r['positions_computed'] for r in o['rows'][:5]] == [96, 1, 1, 1, 1]" "bench tier: positions"
says "[r['bytes_read'] > 3 * 32 * 128 for r in o['rows'][:5]] == [False, False, True, True, True]" "bench tier: bytes"
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
printf '1,5,5\n1,5,0\n' >"$dir/bad.csv"
refused "a request without an answer" bad.csv "request 2" -- "$kvtile" bench memory "$dir/bad.csv"
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

printf 'Once' | tiny_run -f - -n 5 2>/dev/null | cmp -s - "$dir/out" && good || bad "-f - is stdin"
status 0 "perplexity" "$kvtile" perplexity -m "$tiny" -f "$dir/digits"
"$kvtile" perplexity -m "$tiny" -f - <"$dir/digits" 2>&1 | cmp -s - "$dir/out" && good || bad "perplexity -f - is stdin"

# ---- What people read: one of a thing is no plural, and a warning is no error.
status 0 "one token" tiny_run -p "Once" -n 1
tells "one token" '^  answer   1 token \(length\)$'
tells "one block" 'in 1 block of 32$'
status 0 "the same three times" tiny_run -p "Once" -n 2 --samples 3
tells "samples of the likeliest token" '^kvtile: warning: all 3 samples will be the same'
status 0 "samples" tiny_run -p "Once" -n 2 --samples 3 --temp 1
check "no warning where they differ" test "$(grep -c warning "$dir/err")" = 0
KVTILE_CPU=avx9 status 0 "an unknown instruction set" "$kvtile" --version
tells "an unknown instruction set" '^kvtile: warning: KVTILE_CPU=avx9 is not scalar, avx2, avx512 or avx512bf16'
for cpu in scalar avx2 avx512 avx512bf16 ""; do
    KVTILE_CPU=$cpu status 0 "KVTILE_CPU=$cpu" "$kvtile" --version
    check "KVTILE_CPU=$cpu is known" test ! -s "$dir/err"
done

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
