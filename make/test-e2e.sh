#!/bin/sh
# `make test-e2e`: all end-to-end tests; those that fail are run again, each three times with nothing beside it.
#
# The tests run whole programs, several at a time, on machines that are busy with other work, and what they look at
# is partly a matter of time. A test that passes three times alone is named but does not fail the whole; one that
# fails again, or a test program that crashes, does.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
said=$(mktemp)
trap 'rm -f "$said" "$said.code"' EXIT
cargo=${CARGO:-cargo}
most=5

cd "$root"
{ code=0; $cargo test --release --no-fail-fast -p threadtalk-e2e "$@" 2>&1 || code=$?; echo $code >"$said.code"; } |
    tee "$said"
[ "$(cat "$said.code")" -ne 0 ] || exit 0

# "FILE TEST" for each test that failed. The second list under "failures:" has the names alone.
failed=$(awk '
    /^ +Running tests\// { file = $2; sub(/^tests\//, "", file); sub(/\.rs$/, "", file) }
    /^failures:$/ { names = "" }
    /^    [A-Za-z0-9_:]+$/ { names = names file " " $1 "\n" }
    /^test result: FAILED/ { printf "%s", names }' "$said")
files=$(echo "$failed" | cut -d ' ' -f 1 | sort -u | grep -c . || true)
targets=$(grep -c '^    `-p threadtalk-e2e ' "$said" || true)
if [ -z "$failed" ] || [ "$files" -ne "$targets" ]; then
    echo "make test-e2e: not only tests failed, see above" >&2
    exit 1
fi
if [ "$(echo "$failed" | wc -l)" -gt $most ]; then
    echo "make test-e2e: more than $most tests failed; none is run again" >&2
    exit 1
fi

echo "$failed" | while read -r file test; do
    for run in 1 2 3; do
        echo "make test-e2e: run $run of 3 of $test alone"
        $cargo test --release -p threadtalk-e2e --test "$file" -- --exact "$test" </dev/null || exit 1
    done
done || { echo "make test-e2e: a test failed again with nothing beside it" >&2; exit 1; }
echo "make test-e2e: these failed beside others, and passed three times alone:"
echo "$failed"
