#!/bin/bash
# install.sh - what `make install` lays down is enough for a stranger: build the example against the installed library by
# pkg-config, shared and static, in C and with the headers from C++, and run it.
set -eu
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
ok() { passed=$((passed + 1)); }

make -s install DESTDIR="$root" PREFIX=/opt/kvtile >/dev/null
prefix=$root/opt/kvtile
for file in bin/kvtile include/kvtile.h include/kvtile_ops.h lib/libkvtile.a lib/libkvtile.so lib/libkvtile.so.0 \
    lib/pkgconfig/kvtile.pc share/man/man1/kvtile.1 share/bash-completion/completions/kvtile share/zsh/site-functions/_kvtile \
    share/fish/vendor_completions.d/kvtile.fish; do
    [ -e "$prefix/$file" ] || { echo "install.sh: $file is missing"; exit 1; }
done
ok
# Pages and scripts are what the installed program writes.
for command in "" run chat inspect plan simulate perplexity store bench; do
    "$prefix/bin/kvtile" manual $command | cmp - "$prefix/share/man/man1/kvtile${command:+-$command}.1"
done
"$prefix/bin/kvtile" completion bash | cmp - "$prefix/share/bash-completion/completions/kvtile"
"$prefix/bin/kvtile" completion zsh | cmp - "$prefix/share/zsh/site-functions/_kvtile"
"$prefix/bin/kvtile" completion fish | cmp - "$prefix/share/fish/vendor_completions.d/kvtile.fish"
ok
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
flags=$(pkg-config --cflags kvtile)
cc -std=c11 $flags examples/embed.c -o "$root/shared" $(pkg-config --libs kvtile)
LD_LIBRARY_PATH=$prefix/lib "$root/shared" >"$root/shared.txt"
ok
for run in 1 2; do LD_LIBRARY_PATH=$prefix/lib "$root/shared" "$root/store" >"$root/store$run.txt"; done
head -n 1 "$root/store1.txt" | grep -q '20 tokens 0 are known (cold)'
head -n 1 "$root/store2.txt" | grep -q '20 tokens 16 are known'
cmp <(tail -n 4 "$root/store1.txt") <(tail -n 4 "$root/shared.txt")
cmp <(tail -n 4 "$root/store2.txt") <(tail -n 4 "$root/shared.txt")
ok
cc -std=c11 $flags examples/embed.c -o "$root/static" "$prefix/lib/libkvtile.a" $(PKG_CONFIG_SYSROOT_DIR= pkg-config --libs libsodium libxxhash) -pthread
"$root/static" >"$root/static.txt"
cmp "$root/shared.txt" "$root/static.txt"
ok
printf '#include <kvtile_ops.h>\nint main() { kvt_options o = kvt_options_default(); return o.block_tokens == 32 ? 0 : 1; }\n' >"$root/a.cc"
g++ -std=c++17 $flags "$root/a.cc" -o "$root/cxx" $(pkg-config --libs kvtile)
LD_LIBRARY_PATH=$prefix/lib "$root/cxx"
ok
[[ $("$prefix/bin/kvtile" --version) == "kvtile $(pkg-config --modversion kvtile) "* ]]
ok
make -s uninstall DESTDIR="$root" PREFIX=/opt/kvtile
[ -z "$(find "$prefix" -type f -o -type l)" ]
ok
echo "$passed passed, 0 failed"
