#!/bin/sh
# deps.sh - install what is missing from Debian's packages: for building and running, and with `test` also for the tests.
# Asks the system for each thing first, so where all is there it neither needs root nor touches the network.
set -eu
need=
want() { # want PACKAGE COMMAND: the package where the command fails
    package=$1
    shift
    "$@" >/dev/null 2>&1 || need="$need $package"
}
has() { command -v "$1"; }
compiles() { printf '%s\n' "$2" | "$1" -x "$3" -fsyntax-only -; }

want gcc has gcc
want libc6-dev compiles gcc '#include <stdio.h>' c
want make has make
want pkg-config has pkg-config
want libsodium-dev pkg-config --exists libsodium
want libxxhash-dev pkg-config --exists libxxhash
want libpcre2-dev pkg-config --exists libpcre2-8
want libutf8proc-dev pkg-config --exists libutf8proc
want libjansson-dev pkg-config --exists jansson
want libcairo2-dev pkg-config --exists cairo
want zlib1g-dev pkg-config --exists zlib
want libedit-dev pkg-config --exists libedit
want python3 has python3
want python3-pip python3 -m pip --version
want ca-certificates test -e /etc/ssl/certs/ca-certificates.crt
if [ "${1:-}" = test ]; then
    want libcmocka-dev pkg-config --exists cmocka
    want g++ has g++
    want clang has clang
    want libclang-rt-14-dev sh -c 'test -e "$(clang -print-runtime-dir)/libclang_rt.fuzzer-x86_64.a" || test -e "$(clang -print-runtime-dir)/libclang_rt.fuzzer.a"'
    want valgrind has valgrind
    want libc6-dbg test -d /usr/lib/debug/.build-id
    want binutils has objdump
    want git has git
    want jq has jq
    want bc has bc
    want mandoc has mandoc
    want groff-base has groff
    want zsh has zsh
    want fish has fish
    want tmux has tmux
    want procps has pgrep
fi
[ -n "$need" ] || exit 0

echo "installing:$need"
root=
[ "$(id -u)" = 0 ] || root=sudo
if [ -n "$root" ] && ! command -v sudo >/dev/null 2>&1; then
    echo "deps.sh: neither root nor sudo; install these packages by hand:$need" >&2
    exit 1
fi
command -v apt-get >/dev/null 2>&1 || { echo "deps.sh: no apt-get; install by hand:$need" >&2; exit 1; }
$root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
$root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends $need >/dev/null
