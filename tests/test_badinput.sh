#!/bin/bash
# test_badinput.sh - what the program says and returns when something is wrong: options, prompts, model files, streams, disks.
# Prints what failed and a closing line.
#     KVTILE=build/asan/kvtile MUTATIONS=5000 tests/test_badinput.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh

# ---- Bad input: exit 1, one line that names what is wrong.
refused "no such model" no-such.gguf "No such file" -- "$kvtile" run -m no-such.gguf -p x
refused "a folder as the model" "$dir" folder -- "$kvtile" run -m "$dir" -p x
for n in 0 3 20 1000 200000; do
    head -c $n "$tiny" >"$dir/cut.gguf"
    refused "model cut at $n bytes" cut.gguf -- "$kvtile" run -m "$dir/cut.gguf" -p x
    refused "inspect of a model cut at $n bytes" cut.gguf -- "$kvtile" inspect -m "$dir/cut.gguf"
done
head -c 4096 /dev/urandom >"$dir/noise.gguf"
refused "noise as a model" noise.gguf -- "$kvtile" run -m "$dir/noise.gguf" -p x
refused "no such prompt file" no-such-prompt "No such file" -- tiny_run -f no-such-prompt
refused "a folder as the prompt" "directory" -- tiny_run -f "$dir"
refused "a prompt longer than the context" 8 -- tiny_run -p "$(printf 'word %.0s' $(seq 200))" --ctx 8
refused "a prompt longer than the model's context" 512 -- tiny_run -p "$(printf 'word %.0s' $(seq 600))"
refused "a cache too small for one sequence" "--cache-size 1.0 kB (1,024 bytes) is too small: one sequence of 129 tokens takes 20 kB (20,480 bytes)" -- tiny_run -p x --cache-size 1K
refused "a cache larger than the machine" -- tiny_run -p x --ctx 16000000 --samples 1000 --cache contiguous
refused "an answer that cannot be written" logits "No such file" -- tiny_run -p x --logits "$dir/none/logits"
status 1 "logits on a full device" tiny_run -p x --logits /dev/full
check "and says so" grep -q "/dev/full: No space" "$dir/err"
status 1 "stdout on a full device" bash -c "'$kvtile' run -m '$tiny' -p x -n 3 >/dev/full"
check "and says so" grep -q "No space" "$dir/err"
check "/dev/full is still a device" test -c /dev/full

# ---- Odd input that is not bad.
status 0 "an empty prompt begins at the start token" tiny_run -p "" -n 3 --json
says "o['prompt_tokens'] == 1" "the start token"
printf 'a\xff\xfe\x80b' >"$dir/bytes"
status 0 "a prompt that is not UTF-8" tiny_run -f "$dir/bytes" -n 3 --json
says "o['completion_tokens'] >= 1" "bytes"
printf 'a\0b\0\0' >"$dir/nul"
status 0 "NUL bytes in a prompt" tiny_run -f "$dir/nul" -n 3 --json
says "o['prompt_tokens'] >= 4" "NUL bytes are characters"
status 0 "generation to the end of the context" tiny_run -p "a b c" --ctx 24 -n 1000 --temp 1 --seed 1 --json
says "o['finish_reason'] == 'length' and o['positions_computed'] <= 24" "context edge"

# ---- Names that say nothing, or more than a line.
status 2 "no name behind -f" tiny_run -f ""
status 2 "no name behind --logits" tiny_run -p x --logits ""
status 2 "an empty argument" "$kvtile" inspect ""
refused "a name of two lines" "two?lines" -- "$kvtile" run -m $'two\nlines' -p x
refused "no HOME" HOME -- env -u HOME -u KVTILE_MODELS "$kvtile" run -p x
refused "a logits file with too long a name" "too long" -- tiny_run -p x --logits "$(printf 'd/%.0s' $(seq 2046))x"

# ---- Prompts that come as lines.
printf 'one\r\n\r\n\ntwo\r\nlast' >"$dir/lines"
status 0 "lines that end in \\r\\n" tiny_run --prompts "$dir/lines" -n 2 --json
says "len(o['samples']) == 3" "an empty line is no prompt"
cp "$dir/out" "$dir/first"
printf 'one\ntwo\nlast\n' >"$dir/lines"
status 0 "lines that end in \\n" tiny_run --prompts "$dir/lines" -n 2 --json
says "o['samples'] == json.load(open('$dir/first'))['samples']" "\\r is part of the line's end"
printf '\n\r\n\n' >"$dir/lines"
refused "lines without a prompt" "holds no prompt" -- tiny_run --prompts "$dir/lines"

# ---- The edge of the context: a prompt that fills it has one token as its answer.
edge="Once upon a time" # 12 tokens
refused "a prompt one token longer than the context" "12 tokens" 11 -- tiny_run -p "$edge" --ctx 11
for kind in paged contiguous none; do
    for room in 0 1 2; do
        status 0 "a prompt $room tokens shorter than the context, $kind" tiny_run -p "$edge" -n 9 --ctx $((12 + room)) --cache $kind --json
        says "o['finish_reason'] == 'length' and o['completion_tokens'] == $room + 1" "context edge, $room left, $kind"
        says "o['positions_computed'] == $([ $kind = none ] && echo "sum(range(12, 13 + $room))" || echo "12 + $room")" "positions at the edge, $kind"
    done
done
status 0 "a limit that nobody can fill" tiny_run -p x -n 2 --cache-size 9999TiB --json
says "o['cache']['blocks_used'] == 1" "a limit is no wish for more"
status 0 "a typed end token is text" tiny_run -p "a <|im_end|>" -n 1 --chat --json
says "o['prompt_tokens'] > json.loads(__import__('subprocess').run(['$kvtile', 'run', '-m', '$tiny', '-p', 'a', '-n', '1', '--chat', '--json'], capture_output=True).stdout)['prompt_tokens'] + 5" "ten characters, not one token"

# ---- A chat template that nobody knows, and none: plain text, with one warning for all prompts.
printf 'a\nb\n' >"$dir/two"
for edit in "put('tokenizer.chat_template', '{{ nobody }}')" "del keys['tokenizer.chat_template']" \
    "put('tokenizer.chat_template', 7, U32)"; do
    python3 tests/gguf_edit.py "$tiny" "$dir/plain.gguf" "$edit" || bad "$edit: the edit failed"
    status 0 "plain text: $edit" "$kvtile" run -m "$dir/plain.gguf" --chat --prompts "$dir/two" -n 1
    check "one warning: $edit" test "$(grep -c 'plain.gguf: .*chat.template' "$dir/err")" = 1
    status 0 "no chat: $edit" "$kvtile" run -m "$dir/plain.gguf" -p a -n 1
    check "no warning: $edit" test "$(grep -c 'chat.template' "$dir/err")" = 0
done

# ---- Model files: each has one thing changed.
source=$tiny
bad_file() { # bad_file NAME EDIT WORDS...: refused by run in one line that holds the words
    python3 tests/gguf_edit.py "$source" "$dir/$1.gguf" "$2" || bad "$1: the edit failed"
    refused "$1" "$1.gguf" "${@:3}" -- timeout 10 "$kvtile" run -m "$dir/$1.gguf" -p "Once upon a time" -n 3 --json
    rm -f "$dir/$1.gguf"
}
good_file() { # good_file NAME EDIT: odd, but it runs
    python3 tests/gguf_edit.py "$source" "$dir/$1.gguf" "$2" || bad "$1: the edit failed"
    status 0 "$1" timeout 10 "$kvtile" run -m "$dir/$1.gguf" -p "Once upon a time" -n 3 --json
}
bad_file heads-3 'put("llama.attention.head_count", 3)' "width 128" "3 heads"
bad_file heads-0 'put("llama.attention.head_count", 0)' "head_count is 0"
bad_file heads-negative 'put("llama.attention.head_count", -1, I32)' "negative"
bad_file heads-kv-3 'put("llama.attention.head_count_kv", 3)' "8 query heads" "3 key/value heads"
bad_file layers-0 'put("llama.block_count", 0)' "block_count is 0"
bad_file layers-1 'put("llama.block_count", 1)' "blk.1." "is not one"
bad_file layers-3 'put("llama.block_count", 3)' "blk.2." "is missing"
bad_file context-0 'put("llama.context_length", 0)' "context_length is 0"
bad_file context-huge 'put("llama.context_length", 2**32 - 1)' "context_length is 4294967295"
bad_file eps-0 'put("llama.attention.layer_norm_rms_epsilon", 0.0)' "epsilon is 0"
bad_file eps-nan 'put("llama.attention.layer_norm_rms_epsilon", float("nan"))' "epsilon is nan"
bad_file rope-odd 'put("llama.rope.dimension_count", 15)' "15" "odd"
bad_file rope-wide 'put("llama.rope.dimension_count", 18)' "18" "2 .. 16"
bad_file experts 'put("llama.expert_count", 8, U32)' "expert_count is 8"
bad_file no-embedding 'del tensors["token_embd.weight"]' "token_embd.weight is missing"
bad_file embedding-cube 'tensors["token_embd.weight"][0] = [128, 160, 2]' "the embedding has 3 dimensions"
bad_file embedding-turned 'tensors["token_embd.weight"][0] = [320, 128]' 320 128
bad_file no-query 'del tensors["blk.1.attn_q.weight"]' "blk.1.attn_q.weight is missing"
bad_file query-short 'tensors["blk.0.attn_q.weight"][0] = [128, 64]' "64 x 128, the keys say 128 x 128"
bad_file query-cube 'tensors["blk.0.attn_q.weight"][0] = [128, 64, 2]' "3 dimensions"
bad_file query-bias 'tensors["blk.0.attn_q.bias"] = [[64], 0, bytes(256)]' "attn_q.bias is 1 x 64, the keys say 1 x 128"
bad_file query-norm 'tensors["blk.0.attn_q_norm.weight"] = [[16], 0, bytes(64)]' "attn_q_norm.weight is not one"
bad_file output-bias 'tensors["output.bias"] = [[320], 0, bytes(1280)]' "output.bias is not one"
bad_file norm-nan 'tensors["output_norm.weight"][2] = struct.pack("<f", float("nan")) * 128' "not numbers"
bad_file no-tokens 'put("tokenizer.ggml.tokens", [])' "0 entries"
bad_file one-token 'put("tokenizer.ggml.tokens", ["a"]); put("tokenizer.ggml.merges", []); del keys["tokenizer.ggml.token_type"]' ""
bad_file tokens-short 'put("tokenizer.ggml.merges", []); keys["tokenizer.ggml.tokens"][1].pop(); keys["tokenizer.ggml.token_type"][1].pop()' 319
bad_file types-short 'put("tokenizer.ggml.token_type", [1, 2])' "2 entries for 320 tokens"
bad_file types-real 'put("tokenizer.ggml.token_type", [3.0] * 320, (ARRAY, F32))' "no integers"
bad_file merge-unknown 'keys["tokenizer.ggml.merges"][1][0] = "nope nada"' "nope nada"
bad_file merge-half 'keys["tokenizer.ggml.merges"][1][0] = "x"' "entry 0"
bad_file start-outside 'put("tokenizer.ggml.bos_token_id", 320, U32)' 320
bad_file words 'put("tokenizer.ggml.model", "bert")' '"bert"'
bad_file words-without-scores 'put("tokenizer.ggml.model", "llama")' "tokenizer.ggml.scores is missing"
bad_file escapes 'put("general.architecture", "\x1b[31m\nx")' '"?[31m?x"'
good_file types-missing 'del keys["tokenizer.ggml.token_type"]'
good_file context-long 'put("llama.context_length", 1 << 24)'
good_file rope-unscaled 'put("llama.rope.scaling.type", "none", STRING); put("llama.rope.scaling.factor", 4.0, F32)'
good_file query-flat 'tensors["blk.0.attn_q.weight"][0] = [128, 128, 1, 1]'
good_file name-escapes 'put("general.name", "\x1b]0;name\x07\x9b31m")'
status 0 "inspect of a name with escapes" "$kvtile" inspect "$dir/name-escapes.gguf"
check "no escape reaches the terminal" bash -c "! grep -q $'\x1b' '$dir/out'"
check "nor one of a single character" bash -c "! LC_ALL=C grep -q $'\xc2\x9b' '$dir/out'"

# ---- Position encoding, and where contexts end.
for factor in 0.0 -4.0 'float("nan")' 'float("inf")'; do
    bad_file "rope-factor" "put('llama.rope.scaling.factor', $factor, F32)" "rope.scaling.factor is" "not a positive number"
    bad_file "rope-once" "put('llama.rope.scale_linear', $factor, F32)" "rope.scale_linear is" "not a positive number"
    bad_file "rope-magnitude" "put('llama.rope.scaling.attn_factor', $factor, F32)" "attn_factor is"
    bad_file "rope-factors" "tensors['rope_freqs.weight'] = [[8], 0, struct.pack('<8f', *[1] * 7, $factor)]" "rope factor 7 is"
done
bad_file rope-type 'put("llama.rope.scaling.type", "dynamic", STRING)' 'rope.scaling.type "dynamic" is not offered'
bad_file rope-type-number 'put("llama.rope.scaling.type", 4, U32)' "rope.scaling.type"
bad_file rope-long-without 'put("llama.rope.scaling.type", "longrope", STRING)' "no rope_factors tensors"
bad_file rope-long-alone 'tensors["rope_factors_long.weight"] = [[8], 0, struct.pack("<8f", *[1] * 8)]' "rope_factors_short.weight is missing"
bad_file rope-short-alone 'tensors["rope_factors_short.weight"] = [[8], 0, struct.pack("<8f", *[1] * 8)]' "rope_factors_short.weight is not one"
bad_file rope-factors-wide 'tensors["rope_freqs.weight"] = [[16], 0, bytes(64)]' "1 x 16, the keys say 1 x 8"
bad_file rope-factors-half 'tensors["rope_freqs.weight"] = [[8], 1, bytes(16)]' "F16" "it has to be F32"
bad_file rope-factors-least 'tensors["rope_freqs.weight"] = [[8], 0, struct.pack("<8f", *[1e-45] * 8)]' "rope frequency 0 is not a number"
yarn='put("llama.rope.scaling.type", "yarn", STRING); put("llama.rope.scaling.factor", 4.0, F32); '
bad_file yarn-original "$yarn"'put("llama.rope.scaling.original_context_length", 0, U32)' "original_context_length is 0"
bad_file yarn-betas "$yarn"'put("llama.rope.scaling.yarn_beta_fast", 0.5, F32)' "yarn_beta_fast 0.5 is below"
bad_file yarn-beta-nan "$yarn"'put("llama.rope.scaling.yarn_beta_slow", float("nan"), F32)' "yarn_beta_slow is nan"
bad_file yarn-base "$yarn"'put("llama.rope.freq_base", 1.0)' "freq_base is 1"
bad_file yarn-extent "$yarn"'put("llama.rope.scaling.yarn_ext_factor", 0.5, F32)' "yarn_ext_factor is 0.5"
bad_file yarn-log "$yarn"'put("llama.rope.scaling.yarn_log_multiplier", float("nan"), F32)' "yarn_log_multiplier is nan"
for most in 1e30 1e-30; do
    bad_file yarn-magnitude "$yarn"'put("llama.rope.scaling.attn_factor", '$most', F32); put("llama.rope.scaling.yarn_attn_factor", '$most', F32)' "times yarn_attn_factor is"
done
bad_file sections 'put("llama.rope.dimension_sections", [1, 2, 3], (ARRAY, I32))' "dimension_sections"
good_file yarn "$yarn"
good_file yarn-least "$yarn"'put("llama.rope.scaling.original_context_length", 1, U32)'
good_file yarn-factor-below-1 'put("llama.rope.scaling.type", "yarn", STRING); put("llama.rope.scaling.factor", 0.5, F32)'
good_file rope-linear 'put("llama.rope.scaling.factor", 4.0, F32)'
good_file window-wide 'put("llama.attention.sliding_window", 512, U32)'
good_file window-none 'put("llama.attention.sliding_window", 0, U32)'
good_file window 'put("llama.attention.sliding_window", 20, U32)'
refused "a context beyond the window" 21 20 sliding_window -- "$kvtile" run -m "$dir/window.gguf" -p "Once upon a time" --ctx 21
refused "a prompt beyond the window" "the context holds 20" -- "$kvtile" run -m "$dir/window.gguf" -p "$(printf 'word %.0s' $(seq 40))"
status 0 "a context of the window" "$kvtile" run -m "$dir/window.gguf" -p "Once upon a time" --ctx 20 -n 100 --temp 1 --json
says "o['finish_reason'] == 'length' and o['positions_computed'] <= 20" "contexts end at the window"
status 0 "inspect of a window" "$kvtile" inspect "$dir/window.gguf"
check "and says where contexts end" grep -q "up to 20 (attention.sliding_window)" "$dir/out"
bad_file window-stretched "$yarn"'put("llama.attention.sliding_window", 20, U32)' "sliding_window is 20 beside rope.scaling"

# ---- Factors that this architecture has not, and keys that change the arithmetic.
bad_file scaled-logits 'put("llama.logit_scale", 8.0, F32)' "logit_scale is 8"
bad_file capped-logits 'put("llama.final_logit_softcapping", 30.0, F32)' "softcapping is 30"
bad_file not-causal 'put("llama.attention.causal", False, 7)' "attention.causal is false"
bad_file attention-scale-0 'put("llama.attention.scale", 0.0, F32)' "attention.scale is 0"
bad_file attention-scale-least 'put("llama.attention.scale", 1e-45, F32)' "attention.scale is"
good_file attention-scale 'put("llama.attention.scale", 0.125, F32)'

# ---- Fused tensors, norms of heads, scaled rows: the tensors that only some architectures have.
source=tests/vectors/family-phi3-partial.gguf
bad_file qkv-rows 'tensors["blk.0.attn_qkv.weight"][0][1] -= 1' "191 x 64, the keys say 192 x 64"
bad_file qkv-twice 'tensors["blk.0.attn_q.weight"] = [[64, 64], 0, bytes(4 * 64 * 64)]' "attn_q.weight is not one"
bad_file no-qkv 'del tensors["blk.1.attn_qkv.weight"]' "blk.1.attn_q.weight is missing"
bad_file up-rows 'tensors["blk.0.ffn_up.weight"][0][1] = 64' "64 x 64, the keys say 128 x 64"
bad_file up-and-gate 'tensors["blk.0.ffn_gate.weight"] = tensors["blk.0.ffn_up.weight"]' "ffn_gate.weight is not one"
source=tests/vectors/family-qwen3.gguf
bad_file head-norm-short 'tensors["blk.0.attn_q_norm.weight"] = [[31], 0, bytes(124)]' "1 x 31, the keys say 1 x 128"
bad_file head-norm-square 'tensors["blk.0.attn_k_norm.weight"] = [[32, 32], 0, bytes(4096)]' "32 x 32, the keys say 1 x 64"
bad_file head-norm-half 'tensors["blk.0.attn_q_norm.weight"] = [[32], 1, bytes(64)]' "it has to be F32"
bad_file no-head-norm 'del tensors["blk.1.attn_k_norm.weight"]' "blk.1.attn_k_norm.weight is missing"
source=tests/vectors/family-olmo2.gguf
bad_file no-norm-behind 'del tensors["blk.1.post_ffw_norm.weight"]' "blk.1.post_ffw_norm.weight is missing"
bad_file norm-before 'tensors["blk.1.ffn_norm.weight"] = [[64], 0, bytes(256)]' "blk.1.ffn_norm.weight is not one"
source=tests/vectors/family-granite.gguf
bad_file logits-by-0 'put("granite.logit_scale", 0.0)' "logit_scale is 0"
bad_file logits-by-least 'put("granite.logit_scale", 1e-40)' "logit_scale is"
bad_file rows-by-nan 'put("granite.residual_scale", float("nan"))' "residual_scale is nan"
bad_file embedding-negative 'put("granite.embedding_scale", -1.0)' "embedding_scale is -1"
good_file no-rope 'put("granite.rope.scaling.finetuned", False, 7)'
source=$tiny

# A stranger among 36,000 tensors is found in no time. (Layers of width 2, so that the file stays small.)
bad_file stranger '
for key, v in {"block_count": 4000, "embedding_length": 2, "feed_forward_length": 2, "attention.head_count": 1, "rope.dimension_count": 2}.items():
    put("llama." + key, v)
old = dict(tensors)
tensors.clear()
tensors["token_embd.weight"] = [[2, 320], 0, bytes(320 * 2 * 4)]
tensors["output_norm.weight"] = [[2], 0, bytes(8)]
for name in old:
    if name.startswith("blk.0."):
        for i in range(4000):
            tensors[name.replace("0", str(i), 1)] = [[2], 0, bytes(8)] if "norm" in name else [[2, 2], 0, bytes(16)]
tensors["zzz"] = [[2], 0, bytes(8)]' "zzz is not one"

# ---- Model files with bytes changed at random: refused in one line, or one line of JSON; no crash, no hang.
mutate() {
    python3 - "$kvtile" "$dir/mutated.gguf" "${MUTATIONS:-250}" tests/vectors/tiny-a.gguf tests/vectors/family-*.gguf <<'PY'
import random, struct, subprocess, sys
program, path, n, *sources = sys.argv[1:]
originals = [open(source, "rb").read() for source in sources]
odd = [0, 1, 7, 31, 255, 256, 65535, 2**31, 2**32 - 1]
faults = 0
for seed in range(int(n)):
    r = random.Random(seed)
    data, kind = bytearray(r.choice(originals)), r.randrange(4)
    head = data.rfind(b"blk.") + 100  # keys and entries of tensors end about here
    for _ in range(r.choice([1, 1, 2, 3])):
        if kind == 0:
            data[r.randrange(head)] = r.randrange(256)
        elif kind == 1:
            struct.pack_into("<I", data, r.randrange(head - 4), r.choice(odd))
        elif kind == 2:
            struct.pack_into("<f", data, r.randrange(head, len(data) - 4), r.choice([float("nan"), float("inf"), -3e38]))
        else:
            del data[r.randrange(r.choice([head, len(data)])) + 1 :]
            break
    open(path, "wb").write(data)
    command = [program, "run", "-m", path, "-p", "Once", "-n", "2", "--threads", str(seed % 2 + 1), "--json"]
    try:
        done = subprocess.run(command + ["--chat"] * (seed % 8 == 0 and b"chat_template" in data), capture_output=True, timeout=20)
    except subprocess.TimeoutExpired:
        done = None
    fine = done and (
        done.returncode == 0 and done.stdout.count(b"\n") == 1
        or done.returncode == 1 and not done.stdout and done.stderr.count(b"\n") == 1
        and (path.encode() in done.stderr or b"the context holds" in done.stderr)
    )
    if not fine:
        faults += 1
        print("mutation", seed, done and (done.returncode, done.stderr[:500]))
sys.exit(faults > 0)
PY
}
check "mutated files" mutate

# ---- Streams and disks: an answer never ends in a file it does not belong to, and no half file stays.
tiny_run -p x -n 5 --logits "$dir/logits" >/dev/null 2>&1
cp "$dir/logits" "$dir/right"
bash -c "'$kvtile' run -m '$tiny' -p x -n 5 --logits '$dir/logits' >&-" 2>"$dir/err" </dev/null
check "a closed stdout is a failure" test $? = 1
bash -c "'$kvtile' run -m '$tiny' -p x -n 5 --logits '$dir/logits' 2>&-" >/dev/null </dev/null
check "a closed stderr is not" test $? = 0
check "and the table is not in the logits" cmp -s "$dir/logits" "$dir/right"
refused "a closed stdin" stdin -- bash -c "'$kvtile' run -m '$tiny' - <&-"
rm -f "$dir"/logits*
status 1 "a limit on the size of files" bash -c "ulimit -f 8; '$kvtile' run -m '$tiny' -p x -n 100 --logits '$dir/logits'"
check "and says so" grep -q "logits: File too large" "$dir/err"
check "and leaves nothing" bash -c "! ls '$dir'/logits* 2>/dev/null"
yes 'a b c d e f g h' | head -c 400000 >"$dir/long"
for signal in TERM KILL; do
    "$kvtile" run -m "$tiny" -f "$dir/long" --ctx 1000000 --logits "$dir/logits" >"$dir/out" 2>"$dir/err" </dev/null &
    pid=$!
    for _ in $(seq 100); do ls "$dir"/logits.*.part >/dev/null 2>&1 && break; sleep 0.05; done
    kill -$signal $pid
    wait $pid 2>/dev/null
    got=$?
    if [ $signal = KILL ]; then
        check "SIGKILL leaves no half file under the name" test ! -e "$dir/logits"
    else
        check "SIGTERM is an interrupt" test $got = 130
        check "SIGTERM leaves no part of a file" bash -c "! ls '$dir'/logits.* 2>/dev/null"
    fi
    rm -f "$dir"/logits*
done

# ---- The default model: a damaged one is not used, and without a network what is there stays. (A python3 that fails
# stands for the network.)
mkdir -p "$dir/none" "$dir/models"
printf '#!/bin/sh\nexit 1\n' >"$dir/none/python3"
chmod +x "$dir/none/python3"
name=SmolLM2-135M-Instruct.Q4_1.gguf
truncate -s 98362432 "$dir/models/$name" # the right size
status 1 "a damaged default model" env PATH="$dir/none:$PATH" KVTILE_MODELS="$dir/models" sh scripts/model.sh
check "and says so" grep -q "is damaged" "$dir/err"
check "and leaves no work behind" test "$(ls -A "$dir/models")" = "$name"
rm "$dir/models/$name"
mkdir "$dir/models/.fetch.killed"
touch -d '2 hours ago' "$dir/models/.fetch.killed"
status 1 "no network, no model" env PATH="$dir/none:$PATH" KVTILE_MODELS="$dir/models" sh scripts/model.sh
check "what a killed fetch left is gone" test -z "$(ls -A "$dir/models")"
status 2 "no folder for the model" env -u HOME -u KVTILE_MODELS sh scripts/model.sh

# ---- Usage: exit 2.
status 2 "no command" "$kvtile"
status 2 "unknown command" "$kvtile" frobnicate
status 2 "unknown option" tiny_run -p x --frobnicate
check "and names it" grep -q -- "--frobnicate" "$dir/err"
status 2 "no prompt" tiny_run
status 2 "two prompts" tiny_run -p a -f "$dir/bytes"
status 2 "a word that is no option" tiny_run -p a b
status 2 "an option without its value" tiny_run -p
for arg in "-n 0" "-n x" "-n 1.5" "--temp -1" "--temp nan" "--top-p 2" "--cache x" "--kv int9" "--block 17" "--cache-size 5Q" "--cache-size 0" "--threads 0" "--seed x"; do
    # shellcheck disable=SC2086
    status 2 "run $arg" tiny_run -p x $arg
done
for list in "" 1,,2 1, x "$(seq -s, 17)"; do
    status 2 "bench decode --depths $list" "$kvtile" bench decode -m "$tiny" --depths "$list"
done
status 0 "a list as long as it may be" "$kvtile" bench decode -m "$tiny" --depths "$(seq -s, 16)" --steps 1 --json
says "len(o['rows']) == 16" "a row for each depth"
status 2 "bench alone" "$kvtile" bench
check "the help of a mistake is no output" test ! -s "$dir/out"
for command in run inspect bench; do
    status 0 "$command --help" "$kvtile" $command --help
    check "$command --help says how" grep -q "usage: kvtile $command" "$dir/out"
done
status 0 "--version" "$kvtile" --version
check "--version says which" grep -qE '^kvtile [0-9]+\.[0-9]+\.[0-9]+' "$dir/out"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
