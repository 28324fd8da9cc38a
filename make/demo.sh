#!/bin/sh
# `make demo`: two programs measured, placed and compared, with a report of each left in demo/.
set -eu

cd "$(dirname "$0")/.."
threadtalk=$PWD/target/release/threadtalk
out=$PWD/demo

say() {
    printf '\n\033[1m%s\033[0m\n' "$1"
}
if [ ! -t 1 ] || [ -n "${NO_COLOR:-}" ]; then
    say() {
        printf '\n== %s\n' "$1"
    }
fi

# Shows a command as it could be typed, and runs it.
show() {
    printf '$ %s\n' "$(printf '%s ' "$@" | sed "s|$threadtalk|threadtalk|g; s|$PWD/||g; s| $||")"
    "$@"
}

# measure NAME PROGRAM…: record, report, place, compare.
measure() {
    name=$1
    shift
    folder=$out/$name
    show "$threadtalk" record --exact --force -o "$folder/profile.tt" -- "$@"
    echo
    show "$threadtalk" report "$folder/profile.tt"
    echo
    show "$threadtalk" place "$folder/profile.tt" --force -o "$folder/plan.json"
    echo
    show "$threadtalk" run --plan "$folder/plan.json" -- "$@"
    echo
    show "$threadtalk" tune --runs 7 --force -o "$folder/tuned.json" -- "$@"
    show "$threadtalk" report "$folder/profile.tt" --force --html "$folder/report.html" >/dev/null
}

mkdir -p "$out/pairs" "$out/pigz"

say 'The machine as Threadtalk sees it'
show "$threadtalk" topo

say 'First example: four threads that talk in two pairs (examples/pairs.c)'
cat <<'END'
Threads red-a and red-b pass a buffer of 256 KB back and forth, blue-a and blue-b another one.
Threadtalk is not told so. It watches every read and write of the unmodified program, finds out
who reads what whom wrote, and computes where the threads should run on this machine. Then it
measures whether that helps.
END
gcc -O2 -pthread examples/pairs.c -o "$out/pairs/pairs"
measure pairs "$out/pairs/pairs"

say 'Second example: pigz, the parallel gzip of the distribution, as it was installed'
cat <<'END'
One thread reads the file, four compress its blocks, one writes the result. Every block is handed
from thread to thread.
END
[ -e "$out/pigz/numbers" ] || seq 1 4000000 >"$out/pigz/numbers"
measure pigz pigz --keep --force --processes 4 "$out/pigz/numbers"

say 'What is left to look at'
cat <<END
$out/pairs/report.html
$out/pigz/report.html
    open them in a browser: who talks to whom, and where the threads were put
demo/pairs/profile.tt, demo/pigz/profile.tt
    the profiles; 'target/release/threadtalk --help' says what else can be done with them
END
