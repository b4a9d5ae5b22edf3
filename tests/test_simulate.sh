#!/bin/bash
# test_simulate.sh - kvtile simulate as its users call it: whose bytes count, which policies there are, what is not used.
# The numbers of the replay are test_simulate.c's. Prints what failed and a closing line.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
for t in 0 1; do echo "{\"timestamp\": $t, \"input_length\": 1100, \"output_length\": 5, \"hash_ids\": [7, 8, 9]}"; done >"$dir/t.jsonl"
printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\n2023-11-16 18:15:50.9,396,109\n' >"$dir/t.csv"
simulate() { "$kvtile" simulate "$@"; }

# ---- A memory holds blocks of the model that was named, by file or by name, else of the default model.
status 0 "a name" simulate "$dir/t.jsonl" --memory 1GiB --name llama-3-8b --json
says "o['capacity_blocks'] == (1 << 30) // (512 * 131072) and o['bytes_saved'] == 3 * 512 * 131072" "a name"
per_token=$("$kvtile" plan -m "$tiny" --bandwidth 1T --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["bytes_per_token"])')
status 0 "a file" simulate "$dir/t.jsonl" --memory 1GiB -m "$tiny" --json
says "o['capacity_blocks'] == (1 << 30) // (512 * $per_token)" "a file"
mkdir "$dir/models" && cp "$tiny" "$dir/models/SmolLM2-135M-Instruct.Q4_1.gguf"
status 0 "the default model" env KVTILE_MODELS="$dir/models" "$kvtile" simulate "$dir/t.jsonl" --memory 1GiB --json
says "o['capacity_blocks'] == (1 << 30) // (512 * $per_token)" "the default model"
status 0 "wide elements" simulate "$dir/t.jsonl" --memory 1GiB --name llama-3-8b --kv f32 --json
says "o['capacity_blocks'] == 8" "wide elements, fewer blocks"
refused "no default model" nowhere -- env KVTILE_MODELS="$dir/nowhere" "$kvtile" simulate "$dir/t.jsonl" --memory 1GiB
status 0 "without a memory no model is looked for" env KVTILE_MODELS="$dir/nowhere" "$kvtile" simulate "$dir/t.jsonl" --json

# ---- Wrong usage.
wrong() {
    local word=$1
    shift
    status 2 "$*" simulate "$@"
    check "$*: \"$word\"" grep -qF -- "$word" "$dir/err"
}
wrong "known are: default lru s3-fifo frequency optimum all" "$dir/t.jsonl" --policy foo
wrong "did you mean lru?" "$dir/t.jsonl" --policy lrv
wrong "known are: default" "$dir/t.csv" --policy foo
wrong "did you mean llama-3-8b?" "$dir/t.jsonl" --name lama-3-8b
wrong "one of -m and --name" "$dir/t.jsonl" --name gpt2 -m x.gguf
wrong "--policy wants a value: NAME; known are: default" "$dir/t.jsonl" --policy

# ---- A trace of lengths has nothing to evict.
status 0 "lengths" simulate "$dir/t.csv" --policy all
check "--policy is not used, it says" grep -q "no block ids.*--policy is not used" "$dir/err"
status 0 "lengths, no policy asked for" simulate "$dir/t.csv"
check "nothing to say" test ! -s "$dir/err"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
