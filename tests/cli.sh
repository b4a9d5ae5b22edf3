# cli.sh - what the tests of the program share, sourced from the project's folder: the program, a tiny model, a folder that
# goes away, and words that count what passed and say what failed. test_cli.sh is what works, test_badinput.sh what does not.
kvtile=${KVTILE:-./kvtile}
tiny=tests/vectors/tiny-c.gguf
passed=0 failed=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
good() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }
check() { if "${@:2}"; then good; else bad "$1"; fi; }

# status WANTED NAME COMMAND...: exit status; stderr and stdout are left in files.
status() {
    local wanted=$1 name=$2
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" </dev/null
    local got=$?
    if [ "$got" = "$wanted" ]; then good; else bad "$name: exit $got, not $wanted: $(head -c 300 "$dir/err")"; fi
}
# refused NAME WORDS... -- COMMAND...: exit 1, exactly one line on stderr that holds each of the words, nothing on stdout.
refused() {
    local name=$1 words=()
    shift
    while [ "$1" != -- ]; do words+=("$1"); shift; done
    shift
    status 1 "$name" "$@"
    [ "$(wc -l <"$dir/err")" = 1 ] && [ ! -s "$dir/out" ] && good || bad "$name: one line on stderr is wanted: $(cat "$dir/err")"
    for w in "${words[@]}"; do
        if grep -qF -- "$w" "$dir/err"; then good; else bad "$name: \"$w\" is missing in: $(cat "$dir/err")"; fi
    done
}
json() { python3 -c 'import json,sys; o=json.load(open(sys.argv[1])); sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"; }
says() { if json "$dir/out" "$1"; then good; else bad "$2: not ($1): $(head -c 300 "$dir/out")"; fi; }
# tells NAME REGEX: a line of stderr.
tells() { if grep -qE -- "$2" "$dir/err"; then good; else bad "$1: \"$2\" is missing in: $(head -c 600 "$dir/err")"; fi; }

tiny_run() { "$kvtile" run -m "$tiny" "$@"; }
