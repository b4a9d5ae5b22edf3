#!/bin/bash
# test_plan.sh - kvtile plan as its users call it: the JSON it promises, the same bytes as a run reserves, the line it says
# fits, its pictures, and what it makes of bad input. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_plan.sh
set -u
cd "$(dirname "$0")/.." || exit 1
model=${KVTILE_MODELS:-$HOME/.cache/kvtile/models}/SmolLM2-135M-Instruct.Q4_1.gguf
. tests/cli.sh
plan() { "$kvtile" plan --bandwidth 1T --memory 80GB "$@"; }

# ---- The JSON.
fields="model source n_layers context_train as layers k_format v_format block_tokens tokens sequences bytes_per_token
bytes_per_token_beyond_window bytes_state bytes_per_sequence bytes_total bytes_reserved weights_bytes weights_estimated scratch_bytes
bytes_needed memory memory_from fits bytes_spare max_sequences max_tokens tokens_outweigh command answer positions_cached
positions_recomputed bandwidth bandwidth_from decode_bytes_read decode_ms_per_token_floor flops prefill_flop prefill_ms_floor formats
kinds"
status 0 "json" plan --name llama-3-8b --sequences 16 --tokens 8192 --json
says "set(o) == set('''$fields'''.split())" "fields"
says "set(o['layers'][0]) == set('kind n_layers n_heads n_heads_kv dim_k dim_v window dim_index state_bytes tokens_kept bytes_per_token bytes_total bytes_reserved'.split())" "fields of layers"
says "set(o['formats'][0]) == set('format bits_per_element bytes_per_token bytes_total bytes_reserved fits max_sequences max_tokens decode_ms_per_token_floor share_of_mha k_format v_format'.split())" "fields of formats"
says "o['bytes_per_token'] == 131072 and o['bytes_total'] == o['bytes_reserved'] == 16 << 30" "sixteen of 8K"
says "o['memory'] == 80 * 10**9 and o['memory_from'] == 'given' and o['bandwidth'] == 1e12" "what was given"
says "o['bytes_needed'] == o['weights_bytes'] + o['scratch_bytes'] + o['bytes_reserved'] and o['fits'] and o['bytes_spare'] == o['memory'] - o['bytes_needed']" "the sum"
says "[f['format'] for f in o['formats']][:3] == ['bf16', 'f16', 'f32'] and [f['bits_per_element'] for f in o['formats']][:3] == [16, 16, 32]" "formats"
says "abs(o['decode_ms_per_token_floor'] - o['decode_bytes_read'] / 1e9) < 1e-6 and o['prefill_ms_floor'] is None" "floors"
most=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["max_sequences"])' "$dir/out")
status 0 "the most sequences" plan --name llama-3-8b --sequences "$most" --tokens 8192 --json
says "o['fits']" "the most sequences fit"
status 0 "one more" plan --name llama-3-8b --sequences $((most + 1)) --tokens 8192 --json
says "not o['fits'] and o['bytes_spare'] < 0 and o['max_sequences'] == $most" "one more does not fit"
status 0 "two formats" plan --name llama-3-8b --k f32 --v bf16 --tokens 1000 --block 64 --flops 1T --json
says "(o['k_format'], o['v_format'], o['block_tokens']) == ('f32', 'bf16', 64)" "two formats, named"
says "o['bytes_per_token'] == 32 * 8 * 128 * 6 and o['bytes_total'] == 1000 * o['bytes_per_token'] and o['bytes_reserved'] == 1024 * o['bytes_per_token']" "two formats, bytes"
says "abs(o['prefill_ms_floor'] - o['prefill_flop'] / 1e9) < 1e-6" "prefill floor"
status 0 "recomputation" plan --name gpt2 --tokens 2000 --answer 1000 --json
says "(o['positions_cached'], o['positions_recomputed']) == (1999, 1499500)" "recomputation avoided"
status 0 "mixed layers" plan --name gemma-3-27b --tokens 131072 --json
says "[(l['kind'], l['n_layers'], l['tokens_kept']) for l in o['layers']] == [('window', 52, 1024), ('full', 10, 131072)]" "mixed layers"
says "sum(l['bytes_total'] for l in o['layers']) == o['bytes_total'] and sum(l['bytes_per_token'] for l in o['layers']) == o['bytes_per_token']" "groups add up"
says "o['bytes_per_token_beyond_window'] == 10 * 2 * 16 * 128 * 2" "beyond the window"
status 0 "states" plan --name jamba-v0.1 --tokens 262144 --json
says "o['bytes_total'] - o['bytes_state'] == 4 << 30 and o['bytes_state'] == 28 * 573440" "states on top"

# ---- As another kind of attention.
for row in mha:3997696:1 gqa:8:249856:0.0625 mqa:31232:0.0078125 mla:70272:0.01757813; do
    as=${row%:*:*}; rest=${row#"$as":}
    status 0 "as $as" plan --name deepseek-v3 --as "$as" --json
    says "o['bytes_per_token'] == ${rest%:*} and o['as'] == '$as' and o['kinds'] == []" "as $as"
done
status 0 "as all" plan --name deepseek-v3 --as all --json
says "[(k['as'], k['bytes_per_token'], round(k['share_of_mha'], 4)) for k in o['kinds']] == [('mha', 3997696, 1), ('gqa:8', 249856, 0.0625), ('mqa', 31232, 0.0078), ('mla', 70272, 0.0176)]" "as all"
says "o['bytes_per_token'] == 70272 and o['as'] is None" "the plan itself stays"
status 0 "as two" plan --name llama-3-8b --as mqa --as gqa:4 --json
says "[k['as'] for k in o['kinds']] == ['mqa', 'gqa:4']" "as two"
status 0 "as all, nine heads" plan --name smollm2-135m --as all --json
says "[k['as'] for k in o['kinds']] == ['mha', 'mqa', 'mla']" "as all, what divides"

status 0 "as mla, windows" plan --name gemma-3-27b --as mla
check "a window has no latent, it says" grep -q "as mla, the layers with a window stay" "$dir/out"
check "and they are there" grep -q "52 window .* 1,024 tokens kept" "$dir/out"
status 0 "as mla, no windows" plan --name llama-3-8b --as all
check "nothing to say of windows" test "$(grep -c "stay as they are" "$dir/out")" = 0
status 0 "as all, windows alone" plan --name mistral-7b --as all --json
says "[k['as'] for k in o['kinds']] == ['mha', 'gqa:8', 'mqa']" "as all, without a latent for windows"

# ---- Plain numbers, configurations.
status 0 "numbers" plan --layers 80 --heads 64 --kv-heads 8 --head-dim 128 --tokens 4096 --weights 141GB --json
says "o['bytes_total'] == 1342177280 and o['weights_bytes'] == 141 * 10**9 and not o['fits']" "numbers"
status 0 "numbers, a window" plan --layers 32 --heads 32 --kv-heads 8 --head-dim 128 --window 4096 --tokens 32768 --json
says "o['bytes_total'] == 1 << 29 and o['layers'][0]['window'] == 4096 and o['tokens_outweigh'] is None" "numbers, a window"
status 0 "heads of one kind" plan --layers 1 --heads 8 --head-dim 16 --json
says "o['layers'][0]['n_heads_kv'] == 8 and o['tokens'] == 8192" "key/value heads as query heads"
status 0 "padding" plan --layers 1 --heads 1 --head-dim 40 --json
says "o['bytes_per_token'] == 2 * 48 * 2 and abs(o['formats'][0]['bits_per_element'] - 16 * 48 / 40) < 1e-6" "padding counts"
status 0 "a configuration" plan --config tests/vectors/configs/mixtral-8x7b.json --tokens 262144 --json
says "o['bytes_total'] == 32 << 30 and o['weights_estimated']" "a configuration"
mkdir "$dir/model"
cp tests/vectors/configs/llama-3-8b.json "$dir/model/config.json"
printf '{"metadata": {"total_size": 16060522496}}' >"$dir/model/model.safetensors.index.json"
for option in --config -m; do
    status 0 "a folder, $option" plan $option "$dir/model" --json
    says "o['bytes_per_token'] == 131072 and o['weights_bytes'] == 16060522496 and not o['weights_estimated']" "a folder, $option"
done
status 0 "-m config.json" plan -m tests/vectors/configs/llama-3-8b.json --json

# ---- The estimate is the allocator: what a run reserves and uses, to the byte, and the line that fits runs.
matches() {
    local name=$1
    shift
    status 0 "$name: run" "$kvtile" run "$@" -p "Once upon a time there was a cache" -n 9 --json
    read -r tokens used reserved per_token < <(python3 -c 'import json,sys; o=json.load(open(sys.argv[1])); c=o["cache"]; print(o["prompt_tokens"]+o["completion_tokens"]-1, c["bytes_used"], c["bytes_reserved"], c["bytes_per_token"])' "$dir/out")
    status 0 "$name: plan" plan "$@" --tokens "$tokens" --json
    says "(o['bytes_total'], o['bytes_reserved'], o['bytes_per_token']) == ($used, $reserved, $per_token)" "$name: the plan is the run"
    check "$name: it offers a line" python3 -c 'import json,sys; open(sys.argv[2],"w").write(json.load(open(sys.argv[1]))["command"])' "$dir/out" "$dir/line"
    status 0 "$name: the line runs" bash -c "$(sed -e "s|^kvtile|'$kvtile'|" -e 's|TEXT$|Once -n 1|' "$dir/line")"
}
cp "$tiny" "$dir/a model's file.gguf"
matches tiny -m "$tiny"
matches "tiny, f32 and f16, blocks of 16" -m "$tiny" --k f32 --v f16 --block 16
matches "a path with spaces" -m "$dir/a model's file.gguf"
matches qwen3 -m tests/vectors/family-qwen3.gguf
[ -f "$model" ] && matches "default model" -m "$model"
needed() { "$kvtile" plan -m "$tiny" --tokens 512 --bandwidth 1T "$@" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["bytes_needed"])'; }
status 0 "tight" "$kvtile" plan -m "$tiny" --tokens 512 --memory $(($(needed) - 1)) --bandwidth 1T --json
says "not o['fits'] and o['bytes_spare'] == -1 and 400 < o['max_tokens'] < 512 and '--ctx %d ' % o['max_tokens'] in o['command']" "the longest context that fits is offered"
status 0 "a wide format" "$kvtile" plan -m "$tiny" --kv f32 --tokens 512 --memory $(($(needed --kv f32) - 1)) --bandwidth 1T --json
says "not o['fits'] and '--ctx 512 --kv bf16' in o['command']" "where the format does not fit a narrower one is offered"
status 0 "no room at all" "$kvtile" plan -m "$tiny" --memory 10 --bandwidth 1T --json
says "o['command'] is None and o['max_sequences'] == o['max_tokens'] == 0" "nothing is offered where nothing fits"

# ---- Without --memory and --bandwidth the machine is asked.
status 0 "this machine" "$kvtile" plan -m "$tiny" --json
says "o['memory_from'] == 'free' and o['memory'] > 0 and (o['bandwidth'] or 1) > 0 and o['bandwidth_from'] == 'measured'" "this machine"

# ---- For people.
status 0 "a table" plan --name llama-3-8b --explain
for words in "131,072 B (128 KiB) a token" "2 x 32 layers x 8 heads x 128 x 2 B" "1,073,741,824 B" "fits, with" "at most" "outweighs" \
    "8,191 positions" "bits/element" "f32" "weights     16.1 GB"; do
    check "the table says \"$words\"" grep -qF "$words" "$dir/out"
done
status 0 "without --explain" plan --name llama-3-8b
check "no formulas unasked" test "$(grep -c ' = ' "$dir/out")" = 0
status 0 "too much" plan --name llama-3-70b
check "it says how much is missing" grep -q "does not fit, .* are missing" "$dir/out"
status 0 "beyond the training" plan --name llama-3-8b --tokens 9000
check "it says what the model was trained on" grep -q "9,000 tokens are more than the 8,192" "$dir/out"
status 0 "sparse" plan --name deepseek-v3.2 --explain
check "an index key" grep -qF "61 layers x (512 + 64 + 128) x 2 B = 85,888 B a token" "$dir/out"

# ---- Pictures.
status 0 "pictures" plan --name llama-3-8b --as all --plot "$dir/cache.svg" --plot-decode "$dir/decode.svg"
for picture in cache decode; do
    check "$picture.svg is well-formed" python3 -c 'import sys, xml.etree.ElementTree as e; e.parse(sys.argv[1])' "$dir/$picture.svg"
    for word in mha gqa:8 mqa mla llama-3-8b "tokens of a sequence"; do
        check "$picture.svg says \"$word\"" grep -qF "$word" "$dir/$picture.svg"
    done
done
check "the weights are a line" grep -qF "weights: 16.1 GB" "$dir/cache.svg"
check "where gqa:8 crosses it" grep -qF "123 k tokens" "$dir/cache.svg"
check "the weights alone" grep -qF "weights alone: 15 ms" "$dir/decode.svg"
check "times have their unit" grep -qF "time of a token" "$dir/decode.svg"
status 0 "a slow machine" "$kvtile" plan --name llama-3-70b --bandwidth 10G --plot-decode "$dir/slow.svg"
check "the weights alone in seconds" grep -qE "weights alone: 13\.9 s" "$dir/slow.svg"
status 0 "formats" plan --name mistral-7b --json --plot "$dir/formats.png"
check "a PNG is one" cmp -s -n 4 "$dir/formats.png" <(printf '\211PNG')
refused "a picture in no folder" "nowhere/x.svg: No such file or directory" -- bash -c "'$kvtile' plan --name gpt2 --bandwidth 1T --plot '$dir/nowhere/x.svg' >/dev/null"

# ---- Bad input: status 2 for the command line, 1 for what it names; a sentence that says which.
wrong() {
    local wanted=$1 word=$2
    shift 2
    status "$wanted" "$*" plan "$@"
    check "$*: \"$word\"" grep -qF -- "$word" "$dir/err"
    check "$*: nothing on stdout" test ! -s "$dir/out"
}
wrong 2 "smollm2-135m"
wrong 2 "did you mean llama-3-8b?" --name lama-3-8b
wrong 2 "known are: llama-3-8b" --name nothing-like-it
wrong 2 "--name wants a value: NAME; known are: llama-3-8b" --name
wrong 2 "--as \"mla\": each layer" --name mistral-7b --as mla
wrong 2 "not several" --name gpt2 --config x.json
wrong 2 "--heads is missing" --layers 4
wrong 2 "--layers is missing" --heads 4 --head-dim 16
wrong 2 "--head-dim is missing" --layers 4 --heads 4
wrong 2 "no multiple of --kv-heads, 3" --layers 4 --heads 4 --kv-heads 3 --head-dim 16
for option in --layers --heads --kv-heads --head-dim --window --tokens --sequences; do
    for value in 0 -1 1000000000000; do wrong 2 "$option wants" --name gpt2 $option "$value"; done
done
for value in 0 -1 nan 1e40; do
    wrong 2 "--weights wants" --name gpt2 --weights $value
    wrong 2 "--flops wants" --name gpt2 --flops $value
done
wrong 2 "--as \"gqa:5\"" --name gpt2 --as gqa:5
wrong 2 "--as \"mhaa\"" --name gpt2 --as mhaa
wrong 2 "give it alone" --name gpt2 --as mha --as all
wrong 2 "--answer is 7 of 7" --name gpt2 --tokens 7 --answer 7
wrong 2 "ends in .svg or .png" --name gpt2 --plot x.jpg
wrong 2 "one argument too many" gpt2
wrong 1 "more than 2^63 bytes" --name llama-3-8b --tokens 1073741824 --sequences 1073741824
wrong 1 "No such file" -m /nowhere/model.gguf
wrong 1 "no-config/config.json: No such file" --config "$(mkdir -p "$dir/no-config" && echo "$dir/no-config")"
printf '{"model_type": "llama", "num_hidden_layers": -3}' >"$dir/bad.json"
refused "a bad configuration" bad.json "num_hidden_layers is -3" -- "$kvtile" plan --config "$dir/bad.json"
: >"$dir/empty.json"
refused "an empty configuration" empty.json -- "$kvtile" plan --config "$dir/empty.json"
refused "weights instead of a configuration" tiny -- "$kvtile" plan --config "$tiny"
head -c 3000 "$tiny" >"$dir/cut.gguf"
refused "a cut model" cut.gguf -- "$kvtile" plan -m "$dir/cut.gguf"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
