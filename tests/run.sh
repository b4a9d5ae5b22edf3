#!/bin/bash
# run.sh - run test programs: quiet where they pass, whole output where they do not.
#     tests/run.sh PROGRAM ...
# TEST_JOBS of them run at a time (all processors). Prints a line each, in the order they were given, with its time and
# closing line, and at the end the sum: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=${TEST_JOBS:-$(nproc)}
passed=0 failed=0 told=0
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
programs=("$@")

run_one() { # NUMBER PROGRAM
    local start exit
    start=$(date +%s.%N)
    "$2" >"$dir/$1.log" 2>&1
    exit=$?
    echo "$exit $(echo "$(date +%s.%N) - $start" | bc)" >"$dir/$1.part"
    mv "$dir/$1.part" "$dir/$1.done"
}
tell() { # NUMBER
    local log=$dir/$1.log exit seconds word tests
    read -r exit seconds <"$dir/$1.done"
    if [ "$exit" = 0 ]; then
        passed=$((passed + 1)) word=ok
    else
        failed=$((failed + 1)) word="FAILED (exit $exit)"
    fi
    tests=$(grep -oaE '\[  PASSED  \] [0-9]+ test|[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 | sed 's/\[  PASSED  \] //')
    printf '%-44s %6.1f s  %s (%s)\n' "${programs[$1]}" "$seconds" "$word" "${tests:-no count}"
    [ "$word" = ok ] || cat "$log"
    grep -aE '^\[  SKIPPED |^skipped:' "$log" | sort -u
}
tell_done() { while [ -e "$dir/$told.done" ]; do tell "$told"; told=$((told + 1)); done; }

for i in "${!programs[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do
        wait -n
        tell_done
    done
    run_one "$i" "${programs[$i]}" &
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do
    wait -n
    tell_done
done
wait
tell_done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
