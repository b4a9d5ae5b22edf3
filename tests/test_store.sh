#!/bin/bash
# test_store.sh - kvtile store as its users call it, on stores that caches have written: what is listed, what is found bad,
# what leaves and what stays; and that looking makes nothing. Prints what failed and a closing line.
set -u
cd "$(dirname "$0")/.." || exit 1
. tests/cli.sh
make_store=${MAKE_STORE:-build/release/tests/make_store}
store() { "$kvtile" store "$@"; }
fresh() { # a store of three spaces: 6, 3 and 4 blocks, and a record about each
    rm -rf "$dir/s"
    "$make_store" "$dir/s" bf16 6 && "$make_store" "$dir/s" f16 3 && "$make_store" "$dir/s" f32 4
}
# records SPACE: the files of blocks, the oldest name first. about SPACE: the file about it.
space_of() { store ls "$dir/s" --json | python3 -c 'import json,sys
print([s["space"] for s in json.load(sys.stdin)["spaces"] if sys.argv[1] in s["about"]][0])' "keys $1,"; }
records() { find "$dir/s" -type f -path "*/$1/*" ! -name "$1" | sort; }
about() { find "$dir/s" -type f -name "$1"; }
# change FILE AT: another byte there. cut FILE BYTES.
change() { python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)[0] ^ 0x10; f.seek(int(sys.argv[2])); f.write(bytes([b]))' "$1" "$2"; }
cut_to() { truncate -s "$2" "$1"; }

if ! fresh; then echo "FAILED: make_store"; exit 1; fi
bf16=$(space_of bf16) f16=$(space_of f16) f32=$(space_of f32)

# ---- What is listed.
status 0 "ls" store ls "$dir/s"
check "ls: a line for each space, one for all" test "$(wc -l <"$dir/out")" = 5
check "ls: what a space is" grep -qE "^${bf16:0:12} +7 .*keys bf16, values bf16, blocks of 16 tokens" "$dir/out"
check "ls: all" grep -qE "^all +16 .*$dir/s\$" "$dir/out"
status 0 "ls --json" store ls "$dir/s" --json
says "o['records'] == 16 and len(o['spaces']) == 3 and o['bytes'] == sum(s['bytes'] for s in o['spaces'])" "ls --json"
says "[s['records'] for s in o['spaces'] if s['space'] == '$f16'] == [4]" "the records of a space"
says "all(len(s['space']) == 64 and 0 <= $(date +%s) - s['last_used'] < 600 for s in o['spaces'])" "when it was used"
check "bytes: no less than the files have" test "$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["bytes"])' "$dir/out")" -ge \
    "$(find "$dir/s" -path '*/v1/*' -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')"
status 0 "by the environment" env KVTILE_STORE="$dir/s" "$kvtile" store ls --json
says "o['records'] == 16" "by the environment"
mkdir -p "$dir/home/.cache/kvtile" && cp -r "$dir/s" "$dir/home/.cache/kvtile/store"
status 0 "at home" env -u KVTILE_STORE HOME="$dir/home" "$kvtile" store ls --json
says "o['folder'] == '$dir/home/.cache/kvtile/store' and o['records'] == 16" "at home"

# ---- What is no store. Looking for one makes nothing.
mkdir "$dir/empty" && touch "$dir/file"
for action in ls verify "trim --size 1" "rm --all"; do
    # shellcheck disable=SC2086
    set -- ${action#* }
    [ "$action" = "${action#* }" ] && set --
    refused "$action: no folder" "$dir/nowhere" "No such file" -- store "${action%% *}" "$dir/nowhere" "$@"
    refused "$action: no store" "$dir/empty" kvtile-store -- store "${action%% *}" "$dir/empty" "$@"
    refused "$action: a file" "$dir/file" folder -- store "${action%% *}" "$dir/file" "$@"
    refused "$action: nowhere to look" KVTILE_STORE -- env -u KVTILE_STORE -u HOME "$kvtile" store "${action%% *}" "$@"
done
check "looking makes nothing" test -z "$(ls -A "$dir/empty")" -a ! -e "$dir/nowhere"

# ---- Wrong usage.
for words in "trim $dir/s" "trim $dir/s --size 0" "trim $dir/s --older 7" "trim $dir/s --older d" "trim $dir/s --older 0s" \
    "trim $dir/s --older 7dd" "trim $dir/s --older -1d" "trim $dir/s --older 99999999w" "rm $dir/s" "rm" "rm $dir/s ab --all" \
    "ls $dir/s $dir/s" "frobnicate"; do
    # shellcheck disable=SC2086
    status 2 "$words" store $words
done
status 0 "and nothing has left" store ls "$dir/s" --json
says "o['records'] == 16" "nothing has left"

# ---- Every damage is found and told; --rm removes it and nothing else.
status 0 "all is whole" store verify "$dir/s"
check "all is whole: $(cat "$dir/out")" grep -qxF "$dir/s: 16 records read, none bad" "$dir/out"
mapfile -t files < <(records "$bf16")
change "${files[0]}" 600
change "${files[1]}" 100
change "${files[2]}" 511
change "${files[3]}" 8
cut_to "${files[4]}" 511
cut_to "${files[5]}" 600
change "$(about "$f16")" 640
status 1 "damage" store verify "$dir/s"
for i in 0 1 2 3 4 5; do check "damage $i is told" grep -qE "^space ${bf16:0:12} record $(basename "${files[i]}"): " "$dir/out"; done
check "damage of what is said about a space" grep -qE "^space ${f16:0:12} record $f16: damaged" "$dir/out"
check "damage, counted" grep -qxF "$dir/s: 16 records read, 7 bad" "$dir/out"
status 1 "damage --json" store verify "$dir/s" --json
says "o['verified'] == 16 and len(o['bad']) == 7 and o['removed'] == 0 and {b['space'] for b in o['bad']} == {'$bf16', '$f16'}" "damage"
status 0 "a space of which nothing is said" store ls "$dir/s"
check "a space of which nothing is said" grep -qE "^${f16:0:12} .* \?\$" "$dir/out"
status 1 "damage --rm" store verify "$dir/s" --rm
check "damage --rm, counted" grep -qxF "$dir/s: 16 records read, 7 bad, 7 removed" "$dir/out"
status 0 "then all is whole" store verify "$dir/s" --json
says "o['verified'] == 9 and o['bad'] == []" "then all is whole"

# ---- A record under another's name; one of a later version is neither checked nor removed.
mapfile -t files < <(records "$f32")
cp "${files[0]}" "${files[1]}"
change "${files[2]}" 8 && change "${files[2]}" 300
status 1 "another's name" store verify "$dir/s" --rm
check "another's name" grep -qE "^space ${f32:0:12} record $(basename "${files[1]}"): damaged, or not the record of its name" "$dir/out"
check "a later version" grep -qxF "$dir/s: 9 records read, 1 bad, 1 removed; 1 record of another version not checked" "$dir/out"
check "a later version stays" test -f "${files[2]}"

# ---- What was used least recently leaves. What is said about a space leaves with its last block.
fresh
bytes=$(store ls "$dir/s" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["bytes"])')
status 0 "trim: all may stay" store trim "$dir/s" --size "$bytes" --json
says "o['removed'] == 0 and o['records'] == 16" "all may stay"
touch -d "3 days ago" $(records "$bf16" | head -n 2)
status 0 "trim --older" store trim "$dir/s" --older 4d --json
says "o['removed'] == 0" "nothing is that old"
status 0 "trim --older" store trim "$dir/s" --older 47h --json
says "o['removed'] == 2 and o['records'] == 14 and o['bytes'] + o['bytes_removed'] == $bytes" "two are that old"
touch -d "2 days ago" $(records "$f16")
status 0 "trim --size" store trim "$dir/s" --size $((bytes - 20000)) --json
says "o['bytes'] <= $bytes - 20000 and o['removed'] >= 1" "trim --size"
check "trim --size: the oldest left" test "$(records "$f16" | wc -l)" -lt 3 -a "$(records "$bf16" | wc -l)" = 4 -a "$(records "$f32" | wc -l)" = 4
touch -d "2 days ago" $(records "$f16")
status 0 "trim: the last block of a space" store trim "$dir/s" --older 1d
check "what was said about it" test -z "$(about "$f16")"
check "in a line: $(cat "$dir/out")" grep -qE "^$dir/s: removed [0-9]+ records?, .*; 10 records, .*, left\$" "$dir/out"
status 0 "trim to nothing" store trim "$dir/s" --size 1 --json
says "o['records'] == 0 and o['bytes'] == 0" "trim to nothing"
check "no record is left" test -z "$(find "$dir/s" -type f -name '????????????????????????????????????????????????????????????????')"
status 0 "an empty store" store ls "$dir/s" --json
says "o['records'] == 0 and o['spaces'] == []" "an empty store"
status 0 "an empty store is whole" store verify "$dir/s"

# ---- Spaces leave by name.
fresh
refused "no such space" "begins with" xyz -- store rm "$dir/s" "${f16:0:12}" xyz
check "not one of them left" test "$(records "$f16" | wc -l)" = 3
status 0 "a space by its first digits" store rm "$dir/s" "${f16:0:12}" "$f16" --json
says "o['removed'] == 4 and o['records'] == 12" "a space by its first digits"
check "it is gone" test -z "$(about "$f16")$(records "$f16")"
status 0 "all" store rm "$dir/s" --all --json
says "o['removed'] == 12 and o['records'] == 0 and o['bytes'] == 0" "all"

# ---- A cache finds what was left, and writes again what was not.
status 0 "a store is written to again" "$make_store" "$dir/s" bf16 6
status 0 "as it was" store ls "$dir/s" --json
says "o['records'] == 7" "as it was"
echo "test_store: $passed passed, $failed failed"
[ "$failed" = 0 ]
