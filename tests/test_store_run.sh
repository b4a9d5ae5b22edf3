#!/bin/bash
# test_store_run.sh - kvtile run --store: what one process has computed the next one finds, with the same bytes; what is
# in a store and of no use, and stores that cannot be used. Prints what failed and a closing line.
#     KVTILE=./kvtile tests/test_store_run.sh
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
export XDG_CACHE_HOME="$dir/cache"
talkative=tests/vectors/tiny-a.gguf
text=$(seq -s ' ' 60) # 170 tokens
says() { if json "$dir/out" "$1"; then good; else bad "$2: $1: $(head -c 600 "$dir/out")"; fi; }
# asks NAME OPTIONS...: exit 0, the JSON in $dir/out, nothing on stderr, the logits in $dir/logits.
asks() {
    status 0 "$1" "$kvtile" run -m $talkative -n 6 --json --logits "$dir/logits" "${@:2}"
    check "$1: nothing is complained of: $(head -c 300 "$dir/err")" test ! -s "$dir/err"
}
records() { find "$1/v1" -type f -size +511c; }

# ---- The same prompt in a new process, in every kind of format.
for kv in bf16 f16 f32 e4m3 k8v8 k8v4 k4v4 k2v2; do
    asks "$kv without a store" --kv $kv -p "$text"
    mv "$dir/logits" "$dir/cold"
    says "'store' not in o and o['cached_tokens'] == 0" "$kv without a store"
    asks "$kv, first" --kv $kv -p "$text" --store "$dir/$kv"
    check "$kv, first: the same bits" cmp -s "$dir/logits" "$dir/cold"
    says "o['cached_tokens'] == 0 and o['positions_computed'] == o['prompt_tokens'] + 5" "$kv, first"
    says "o['store']['found'] == 0 and o['store']['fetched'] == 0 and o['store']['written'] == 5" "$kv, first"
    says "o['store']['folder'] == '$dir/$kv' and o['store']['bytes'] > 5 * 32 * o['cache']['bytes_per_token']" "$kv, first"
    asks "$kv, again" --kv $kv -p "$text" --store "$dir/$kv"
    check "$kv, again: the same bits" cmp -s "$dir/logits" "$dir/cold"
    says "o['cached_tokens'] == 160 and o['positions_computed'] == o['prompt_tokens'] - 160 + 5" "$kv, again"
    says "o['store']['found'] == 160 and o['store']['fetched'] == 5 and o['store']['written'] == 0" "$kv, again"
done

# ---- A longer prompt begins with what is there; other blocks, chunks and threads do not change it.
asks "longer" -p "$text $text"
mv "$dir/logits" "$dir/cold"
asks "longer, with a store" -p "$text $text" --store "$dir/bf16" --chunk 7 --threads 1
check "longer: the same bits" cmp -s "$dir/logits" "$dir/cold"
says "o['cached_tokens'] == 160 and o['store']['written'] == o['prompt_tokens'] // 32 - 5" "longer"
asks "longer, again" -p "$text $text" --store "$dir/bf16"
says "o['cached_tokens'] == o['prompt_tokens'] // 32 * 32" "longer, again"

# ---- What is of another model, other arithmetic, other blocks or another format is not found.
other() { # other NAME OPTIONS...
    asks "$1, cold" "${@:2}"
    mv "$dir/logits" "$dir/cold"
    asks "$1" "${@:2}" --store "$dir/bf16"
    check "$1: the same bits" cmp -s "$dir/logits" "$dir/cold"
    says "o['cached_tokens'] == 0" "$1"
}
other "other weights" -m tests/vectors/tiny-b.gguf -p "$text"
other "other arithmetic" --math exact -p "$text"
other "other blocks" --block 16 -p "$text"
other "another format" --kv k8v8 -p "$text"
other "another value format" --v f16 -p "$text"
python3 tests/gguf_edit.py $talkative "$dir/rope.gguf" 'put("llama.rope.freq_base", 5000.0)' || bad "the edit failed"
other "another rope" -m "$dir/rope.gguf" -p "$text"

# ---- Prompts of a batch, and answers to one, share what they have in common.
printf '%s one\n%s two, and more\n%s\n' "$text" "$text" "$text" >"$dir/prompts"
status 0 "prompts" "$kvtile" run -m $talkative -n 4 --json --prompts "$dir/prompts"
says "o['cached_tokens'] == 2 * 160" "prompts share their beginning"
says "o['positions_computed'] == o['prompt_tokens'] - 320 + o['completion_tokens'] - 3" "prompts compute it once"
cp "$dir/out" "$dir/first"
asks "one of them" -p "$text two, and more" -n 4
says "o['tokens'] == json.load(open('$dir/first'))['samples'][1]['tokens']" "alone and in a batch"
status 0 "prompts with a store" "$kvtile" run -m $talkative -n 4 --json --prompts "$dir/prompts" --store "$dir/f32" --kv f32
says "o['cached_tokens'] == 3 * 160 and o['store']['found'] == 160 and o['store']['fetched'] == 5" "fetched once, found by the others"

# ---- For people.
status 0 "a table" "$kvtile" run -m $talkative -n 4 -p "$text" --store "$dir/bf16"
check "where it was found" grep -qE '^  found    160 of 170 prompt tokens: 0 in memory, 160 in the store$' "$dir/err"
check "what the store has" grep -qE '^  store    [0-9.]+ [kM]B in .*/bf16, 5 blocks read, 0 blocks written$' "$dir/err"
status 0 "a table of prompts" "$kvtile" run -m $talkative -n 4 --prompts "$dir/prompts"
check "what prompts shared" grep -qE '^  found    320 of [0-9]+ prompt tokens: 320 in memory, 0 in the store$' "$dir/err"
status 0 "a table without any" "$kvtile" run -m $talkative -n 4 -p "$text"
check "nothing to say of it" test "$(grep -cE '^  (found|store)' "$dir/err")" = 0

# ---- Damage: every record cut short, every record with one bit turned, gone altogether.
asks "whole" -p "$text"
cp "$dir/out" "$dir/whole.json"
mv "$dir/logits" "$dir/cold"
damaged() { # damaged NAME: what the folder's records are now is no help, and no harm
    status 0 "$1" "$kvtile" run -m $talkative -n 6 --json --logits "$dir/logits" -p "$text" --store "$dir/bf16"
    check "$1: the same bits" cmp -s "$dir/logits" "$dir/cold"
    says "o['cached_tokens'] == 0" "$1"
}
check "there are records" test "$(records "$dir/bf16" | wc -l)" -gt 5
for f in $(records "$dir/bf16"); do truncate -s 600 "$f"; done
damaged "cut short"
# A run writes what it has computed behind a bad record anew.
asks "mended" -p "$text" --store "$dir/bf16"
says "o['cached_tokens'] == 160" "mended"
for f in $(records "$dir/bf16"); do
    python3 -c 'import sys; f = open(sys.argv[1], "r+b"); f.seek(-9, 2); b = f.read(1); f.seek(-9, 2); f.write(bytes([b[0] ^ 4]))' "$f"
done
damaged "one bit each"
rm -r "$dir/bf16/v1"
damaged "gone"
asks "there again" -p "$text" --store "$dir/bf16"
says "o['cached_tokens'] == 160" "there again"

# ---- A limit: files never take more, and where no record fits nothing is kept.
for size in 100K 1M; do
    for seed in 1 2 3; do asks "at most $size" -p "$(seq -s ' ' $((seed * 10)) $((seed * 10 + 60)))" --store "$dir/small" --store-size $size; done
    check "at most $size" test "$(du -s --block-size=1 "$dir/small/v1" | cut -f 1)" -le $(($(numfmt --from=iec $size) + 65536))
    says "o['store']['bytes'] <= $(numfmt --from=iec $size)" "at most $size"
done

status 0 "a limit below a block" "$kvtile" run -m $talkative -n 6 --json -p "$text" --store "$dir/small" --store-size 64K
says "o['store']['written'] == 0" "a limit below a block"
check "a limit below a block: it says so" grep -q '^kvtile: warning: the store keeps nothing: a block takes ' "$dir/err"

# ---- Trouble later on: no file may be as large as a record, so none is kept; one warning, and the answer is there.
short() { (trap '' XFSZ; ulimit -f 4; "$kvtile" run -m $talkative -n 6 --json -p "$text" --store "$dir/short"); }
status 0 "records that cannot be written" short
says "o['tokens'] == json.load(open('$dir/whole.json'))['tokens'] and o['store']['written'] == 0" "records that cannot be written"
check "one warning: $(cat "$dir/err")" test "$(grep -c '^kvtile: warning: ' "$dir/err") $(wc -l <"$dir/err")" = "1 1"

# ---- Stores that cannot be used: one line, and nothing on stdout.
with() { "$kvtile" run -m $talkative -p Hi -n 2 --store "$1"; }
echo text >"$dir/file"
refused "a file" "$dir/file" -- with "$dir/file"
mkdir "$dir/foreign"
echo text >"$dir/foreign/file"
refused "a folder of other files" "$dir/foreign" -- with "$dir/foreign"
check "which stay as they are" test "$(ls -A "$dir/foreign")" = file
refused "a folder nowhere" "$dir/no/where" -- with "$dir/no/where"
refused "a device" /dev/null -- with /dev/null/store
for cache in contiguous none; do
    status 2 "a $cache cache" "$kvtile" run -m $talkative -p Hi --cache $cache --store "$dir/unused"
    check "$cache: it says which" grep -qF -- '--store goes with --cache paged' "$dir/err"
done
check "and no folder is made" test ! -e "$dir/unused"
status 2 "a size of no store" "$kvtile" run -m $talkative -p Hi --store-size 1M
check "it says so" grep -qF -- '--store-size goes with --store' "$dir/err"
status 2 "no size" "$kvtile" run -m $talkative -p Hi --store "$dir/unused" --store-size 0

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
