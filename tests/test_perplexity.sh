#!/bin/bash
# test_perplexity.sh - kvtile perplexity from the command line: every token once whatever the windows, a format against itself
# and against another, and what is refused. The numbers themselves are test_score.c's.
#     KVTILE=./kvtile tests/test_perplexity.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
for i in 1 2 3 4 5 6 7 8; do echo "The cache keeps what was read, line $i, so that nobody has to read it twice."; done >"$dir/text"
foresee() { "$kvtile" perplexity -m "$tiny" -f "$dir/text" "$@"; }

status 0 "whole windows" foresee --ctx 64 --json
says "o['ctx'] == 64 and o['stride'] == 64 and o['k_format'] == 'bf16' and o['bits_per_element'] == 16 and o['ppl'] > 1" "its fields"
windows=$(json "$dir/out" "print(o['tokens'])")
status 0 "windows that overlap" foresee --ctx 64 --stride 16 --json
says "o['tokens'] >= $windows + 1" "each token but the first is counted once"
overlapping=$(json "$dir/out" "print(o['tokens'])")
status 0 "one window" foresee --ctx 512 --json
says "o['tokens'] == $overlapping" "the same tokens"
status 0 "a stride of one" foresee --ctx 16 --stride 1 --chunks 40 --json
says "o['tokens'] == 15 + 39" "the first window's, then one from each"
status 0 "a format against itself" foresee --kv f32 --kl --json
says "o['kl_mean'] < 1e-12 and o['kl_p999'] < 1e-12 and o['top1_agree'] == 1 and o['bits_per_element'] == 32" "no distance"
status 0 "bf16 against float32" foresee --kl --json
says "1e-12 < o['kl_mean'] <= o['kl_p999'] < 0.1" "some distance"
status 0 "for people" foresee --kl
check "its sentences" grep -q "^perplexity .* KL divergence\|^against float32" "$dir/out"
foresee --json --threads 1 >"$dir/one"
status 0 "two threads" foresee --json --threads 2
check "threads change nothing" cmp -s "$dir/out" "$dir/one"

python3 tests/gguf_edit.py "$tiny" "$dir/window.gguf" 'put("llama.attention.sliding_window", 20, U32)' || bad "the edit failed"
refused "a window of tokens beyond the model's" 21 20 sliding_window -- "$kvtile" perplexity -m "$dir/window.gguf" -f "$dir/text" --ctx 21
status 0 "as many as the model's window" "$kvtile" perplexity -m "$dir/window.gguf" -f "$dir/text"
nan='tensors["output_norm.weight"][2] = struct.pack("<f", float("nan")) * 128'
python3 tests/gguf_edit.py "$tiny" "$dir/nan.gguf" "$nan" || bad "the edit failed"
refused "logits that are no numbers" "not numbers" -- "$kvtile" perplexity -m "$dir/nan.gguf" -f "$dir/text" --json

status 2 "no text" "$kvtile" perplexity -m "$tiny"
status 2 "gaps between windows" foresee --ctx 32 --stride 33
printf x >"$dir/text"
refused "one token" "no token to foresee" -- foresee
refused "no such file" "nowhere" -- "$kvtile" perplexity -m "$tiny" -f /nowhere
echo "test_perplexity: $passed passed, $failed failed"
[ "$failed" = 0 ]
