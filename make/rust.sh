#!/bin/sh
# Checks that cargo is there and at least as new as the workspace's rust-version.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")

if ! command -v cargo >/dev/null 2>&1; then
    echo "cargo is missing: install Debian's cargo-web, or Rust $need or newer from rustup" >&2
    exit 1
fi
have=$(cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')
if [ "$(printf '%s\n%s\n' "$need" "$have" | sort -V | head -n 1)" != "$need" ]; then
    echo "cargo $have is too old, Rust $need is needed: run 'rustup update stable' if it came from" \
        "rustup, or replace it by Debian's 'apt-get install cargo-web'" >&2
    exit 1
fi
