#!/bin/bash
# run.sh - run test programs one after the other: quiet where they pass, whole output where they do not.
#     tests/run.sh PROGRAM ...
# Prints a line each with its time and closing line, and at the end the sum: N passed, N failed.
set -u
cd "$(dirname "$0")/.." || exit 1
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for program in "$@"; do
    start=$(date +%s.%N)
    if "$program" >"$log" 2>&1; then
        passed=$((passed + 1)) word=ok
    else
        word="FAILED (exit $?)" failed=$((failed + 1))
    fi
    tests=$(grep -oE '\[  PASSED  \] [0-9]+ test|[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1 | sed 's/\[  PASSED  \] //')
    printf '%-44s %6.1f s  %s (%s)\n' "$program" "$(echo "$(date +%s.%N) - $start" | bc)" "$word" "${tests:-no count}"
    [ "$word" = ok ] || cat "$log"
    grep -E '^\[  SKIPPED |^skipped:' "$log" | sort -u
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
