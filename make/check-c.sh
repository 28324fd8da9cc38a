#!/bin/sh
# `make check`: C that differs from .clang-format, and C that gcc warns about.
#
# Formatting is checked of the injected C, warnings of all C that is built. Most target programs keep tables
# of one-line functions and assembly that clang-format would spread over pages.
set -eu

cd "$(dirname "$0")/.."
slow=crates/agent/src/slow
# The folder of the header that cargo generates from the Rust layouts.
layouts=$(dirname "$(ls -t target/agent/build/threadtalk-agent-*/out/layouts.h | head -n 1)")
warnings="-fsyntax-only -O2 -Wall -Wextra -Werror"

# As packages.txt installs it: other versions format differently.
clang-format-14 --dry-run --Werror $slow/*.c $slow/*.h
gcc $warnings -Wshadow -ffreestanding -mgeneral-regs-only -I "$layouts" $slow/*.c

# What needs MPI is compiled by mpicc. What follows the first fields of `{.type = 1}` is 0 on purpose.
warnings="$warnings -Wno-missing-field-initializers -fopenmp"
gcc $warnings -Wshadow -I $slow -I "$layouts" $(find tests/programs benches examples -name '*.c' ! -name 'mpi_*')
g++ $warnings $(find tests/programs benches examples -name '*.cpp')
