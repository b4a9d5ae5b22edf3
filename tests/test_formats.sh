#!/bin/bash
# test_formats.sh - formats of the cache from the command line: what they take in inspect and plan, bench formats, and
# looking for a key. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_formats.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
rows="bf16 f16 f32 e4m3 e5m2 k8v8 k8v4 k4v4 k4v2 k3v3 k3v2 k2v2"

# ---- What they take: 128 elements of a head in blocks of 32, everything counted.
plan() { "$kvtile" plan --name llama-3-8b --bandwidth 1T --memory 80GB "$@" --json; }
status 0 "plan" plan
says "[f['format'] for f in o['formats']] == '$rows'.split()" "a row of each"
says "all(b[0] <= b[1] for b in ((f['bits_per_element'], {'k8v8': 8.5, 'k8v4': 6.5, 'k4v4': 4.5, 'k2v2': 2.5}.get(f['format'], 32)) for f in o['formats']))" "bits at most"
says "all(f['bytes_per_token'] == f['bits_per_element'] * 32 * 2 * 8 * 128 / 8 for f in o['formats'])" "bits and bytes"
says "[f['max_tokens'] for f in o['formats'] if f['format'] in ('k8v8', 'k4v4', 'k2v2')] == sorted(f['max_tokens'] for f in o['formats'] if f['format'] in ('k8v8', 'k4v4', 'k2v2'))" "fewer bits, longer contexts"
bf16=$(json "$dir/out" "print(o['decode_bytes_read'] - o['weights_bytes'])")
status 0 "plan --kv k4v4" plan --kv k4v4
says "(o['k_format'], o['v_format']) == ('int4', 'int4') and o['bytes_per_token'] == 35840 and o['decode_bytes_read'] - o['weights_bytes'] < $bf16 - 0.6 * (1 << 30)" "floors read codes"
status 0 "inspect" "$kvtile" inspect -m "$tiny" --json
says "[f['format'] for f in o['cache_formats']] == '$rows'.split()" "inspect has each"

head -c 200 LICENSE >"$dir/text"

# ---- Side by side.
bench() { "$kvtile" bench formats -m "$tiny" --depth 40 --tokens 20 --steps 1 "$@"; }
status 0 "bench formats" bench --formats bf16,f32 --json
says "[r['format'] for r in o['rows']] == ['bf16', 'f32'] and o['bandwidth_read'] > 0" "bench formats"
says "set(o['rows'][0]) == set('format k_format v_format bits_per_element bytes_per_token depth ms_per_token attend_ms attend_gb_per_s bandwidth_share prefill_tokens prefill_tokens_per_s k_path v_path'.split())" "bench formats row"
says "[r['bytes_per_token'] for r in o['rows']] == [128, 256]" "bench formats bytes"
status 0 "every format" bench --json
says "[r['format'] for r in o['rows']] == '$rows'.split() and all(r['ms_per_token'] > 0 for r in o['rows'])" "every format is measured"
status 0 "one path" env KVTILE_CPU=scalar "$kvtile" bench formats -m "$tiny" --depth 40 --tokens 20 --steps 1 --formats bf16,f16 --json
says "all(r['k_path'].startswith('scalar') for r in o['rows'])" "the path is told"
status 0 "on a text" bench --formats f32,bf16 -f LICENSE --ctx 64 --json
says "o['rows'][0]['kl_mean'] == 0 and o['rows'][1]['kl_mean'] > 0 and o['rows'][0]['top1_agree'] == 1" "against float32"
status 0 "for people" bench --formats bf16
check "a line of it" grep -q "^bf16 *16.00" "$dir/out"
status 2 "an unknown format" bench --formats bf16,k8v5
tells "and the near one" "does not know \"k8v5\"; did you mean k8v8"

# ---- Answers over codes do not depend on how they are computed.
for kv in k8v8 k4v4 e4m3; do
    status 0 "$kv" tiny_run -f "$dir/text" --kv $kv -n 40 --json
    cp "$dir/out" "$dir/first"
    for how in "--chunk 1" "--chunk 7" "--threads 1" "--cache contiguous" "--cache none" "--samples 2"; do
        # shellcheck disable=SC2086
        status 0 "$kv $how" tiny_run -f "$dir/text" --kv $kv -n 40 --json $how
        says "o['tokens'] == json.load(open('$dir/first'))['tokens']" "$kv $how: the same tokens"
    done
done

# ---- A key in a text. A tiny model finds none; what is asked, and that it is the same again, is what counts.
needle() { "$kvtile" bench formats --needle -m "$tiny" --lengths 300,200 --depths 3 "$@"; }
status 0 "needle" needle --formats bf16,f32 --json
says "[(r['format'], r['tokens'], r['asked'], len(r['by_depth'])) for r in o['rows']] == [(f, n, 3, 3) for f in ('bf16', 'f32') for n in (300, 200)]" "needle rows"
says "all(r['found'] == sum(r['by_depth']) for r in o['rows']) and [c['format'] for c in o['counted']] == ['bf16', 'f32']" "needle counts"
refused "beyond the model" "600" -- "$kvtile" bench formats --needle -m "$tiny" --formats bf16 --lengths 600
printf 'Short.' >"$dir/short"
refused "a short text" "short" -- needle --formats bf16 -f "$dir/short"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
