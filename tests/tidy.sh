#!/bin/bash
# tidy.sh - guards the doors of the house: who includes whom, public headers that stand alone, wide instructions only in
# files named for them, sizes of files, what the shared library shows. Needs no build for most of it; the checks of
# compiled objects run where build/release has some. Prints what is wrong and a closing line.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "tidy: $*"; }
check() { if [ -z "$2" ]; then good; else bad "$1:"; printf '%s\n' "$2" | sed 's/^/    /'; fi; }

sources=$(git ls-files -co --exclude-standard -- 'lib/*.[ch]' 'app/*.[ch]' 'include/*.h' 'tests/*.[ch]' 'bench/*.[ch]' 'examples/*.c')

# ---- Who may include whom. A new edge is argued in CONTRIBUTING.md first. base/ and include/ are open to all.
may() {
    case "$1:$2" in
    *:base) ;;
    kernel:format) ;;
    ops:format | ops:kernel) ;;
    cache:format | cache:kernel | cache:tier) ;;
    model:file) ;;
    engine:model) ;;
    plan:file | plan:model | plan:plot) ;;
    server:engine) ;;
    cli:command | cli:file | cli:model | cli:plan | cli:plot | cli:engine | cli:server) ;;
    *) return 1 ;;
    esac
}
edges=$(for f in $(printf '%s\n' "$sources" | grep -E '^(lib|app)/'); do
    room=$(basename "$(dirname "$f")")
    grep -hoE '^ *# *include "[^"]+"' "$f" | sed -E 's/.*"(.*)"/\1/' | while read -r inc; do
        case "$inc" in
        kvtile.h | kvtile_ops.h) continue ;;
        */*)
            to=${inc%%/*}
            [ "$to" = "$room" ] && [ "$to" != base ] && { [ "$inc" = "$to/$to.h" ] || echo "$f: \"$inc\" is its own room: by plain name"; continue; }
            may "$room" "$to" || { echo "$f: room $room may not enter $to (\"$inc\")"; continue; }
            # base is a toolbox: a door for each tool. Every other room has one.
            [ "$to" = base ] || [ "$inc" = "$to/$to.h" ] || echo "$f: \"$inc\" is not the door $to/$to.h"
            ;;
        *) [ -f "$(dirname "$f")/$inc" ] || echo "$f: \"$inc\" is not in its room" ;;
        esac
    done
done)
check "includes" "$edges"
check "app/ uses lib/ only through include/ and base/" \
    "$(grep -nE '^ *# *include "(format|kernel|ops|cache|tier)/' $(printf '%s\n' "$sources" | grep '^app/') /dev/null)"

# ---- Each public header compiles alone, in C and in C++, with both compilers.
for header in include/*.h; do
    for compiler in "gcc -std=c11 -x c" "g++ -std=c++17 -x c++" "clang -std=c11 -x c" "clang++ -std=c++17 -x c++"; do
        out=$($compiler -Iinclude -Wall -Wextra -Wshadow -Werror -fsyntax-only - <<<"#include \"$(basename "$header")\"" 2>&1) &&
            good || bad "$header under ${compiler%% *}: $out"
    done
done

# ---- Wide instructions only in files named for them (the control register in base/fp.h is not one).
check "wide words outside the files named for them" "$(grep -nE 'immintrin\.h|_mm(256|512)?_|__m(128|256|512)' \
    $(printf '%s\n' "$sources" | grep -vE '(_avx2|_avx512|_avx512bf16|_amx|_neon)\.[ch]$|^lib/base/fp\.h$|^tests/') /dev/null)"
if compgen -G 'build/release/lib/*/*.o' >/dev/null; then
    wide=$(for o in $(ls build/release/lib/*/*.o build/release/app/*/*.o 2>/dev/null | grep -vE '_(avx2|avx512|avx512bf16|amx)\.o$'); do
        objdump -d --no-show-raw-insn "$o" | grep -qE '%[yz]mm[0-9]' && echo "$o"
    done)
    check "wide registers in objects not named for them" "$wide"
fi

# ---- Sizes.
check "files over 600 lines" "$(for f in $sources tests/*.sh scripts/*.sh Makefile; do
    n=$(wc -l <"$f"); [ "$n" -le 600 ] || echo "$f: $n lines"; done)"
check "lines over 120 columns" "$(for f in $sources; do awk -v f="$f" 'length($0) > 120 { print f ":" NR ": " length($0) }' "$f"; done)"
check "tabs or trailing blanks" "$(grep -nP '\t| +$' $sources /dev/null | cut -c1-100)"
check "left to do" "$(grep -nE '\b(TODO|FIXME|XXX|HACK)\b' $sources /dev/null)"
check "files over 1 MB" "$(git ls-files -co --exclude-standard | while read -r f; do
    [ -f "$f" ] && [ "$(stat -c %s "$f")" -gt 1048576 ] && echo "$f"; done)"

# ---- The mathematical library stays off the way to logits and samples (fmaf and sqrt are exact by definition).
check "libm calls in lib/ or app/" "$(grep -nE '\b(expf?|exp2f?|logf?|log2f?|log10f?|powf?|sinf?|cosf?|sincosf?|tanhf?)\(' \
    $(printf '%s\n' "$sources" | grep -E '^(lib|app)/') /dev/null | grep -vE 'kvt_|math_|^\S+ *\*|/\*')"

# ---- The shared library shows kvt_ names only.
so=build/release/libkvtile.so.0
if [ -f "$so" ]; then
    check "symbols of $so that are not kvt_" "$(nm -D --defined-only "$so" | awk '{ print $3 }' | grep -vE '^kvt_')"
fi

echo "tidy: $passed passed, $failed failed"
[ "$failed" = 0 ]
