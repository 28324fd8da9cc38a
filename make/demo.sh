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
    show "$threadtalk" tune --force -o "$folder/tuned.json" -- "$@"
    show "$threadtalk" report "$folder/profile.tt" --force --html "$folder/report.html"
}

mkdir -p "$out/pairs" "$out/sort"

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

say 'Second example: sort, as the distribution installed it'
cat <<'END'
Four threads sort a million lines: each sorts a part, then they merge in a tree, and every merge
reads what the threads below it wrote. Nothing about sort was changed, and its source is not needed.
END
[ -e "$out/sort/lines" ] || seq 1 1000000 | rev >"$out/sort/lines"
measure sort sort --parallel=4 --output="$out/sort/sorted" "$out/sort/lines"

say 'What is left to look at'
cat <<END
$out/pairs/report.html
$out/sort/report.html
    open them in a browser: who talks to whom, and where the threads were put
demo/pairs/profile.tt, demo/sort/profile.tt
    the profiles; 'target/release/threadtalk --help' says what else can be done with them
END
