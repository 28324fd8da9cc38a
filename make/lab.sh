#!/bin/sh
# `make lab`: what the tests in a virtual NUMA machine need: QEMU, busybox, and a kernel as Debian has it for
# clouds, fetched but not installed. The tests are skipped where this fails, so it says why.
#
#   target/lab/vmlinux    the kernel, unpacked, so that the emulated processor need not do it
#
# The packed kernel stays in the user's cache, from which another build folder takes it without a network.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
lab=$root/target/lab
cache=${XDG_CACHE_HOME:-$HOME/.cache}/threadtalk-lab

"$root/make/packages.sh" "$root/target/stamps/packages-lab" lab
[ ! -e "$lab/vmlinux" ] || exit 0
mkdir -p "$lab" "$cache"

# Fetches the newest kernel of the series that the lab is tried with, else the newest there is.
fetch() {
    names=$(apt-cache search --names-only '^linux-image-[0-9.]+.*-cloud-amd64-unsigned$' | cut -d ' ' -f 1 | sort -V)
    package=$(echo "$names" | grep -F linux-image-6.12. | tail -n 1)
    : "${package:=$(echo "$names" | tail -n 1)}"
    if [ -z "$package" ]; then
        echo "apt knows no package linux-image-*-cloud-amd64-unsigned" >&2
        return 1
    fi
    # As root, apt would fetch as a user of its own, who may not write here.
    (cd "$folder" && apt-get -q -o APT::Sandbox::User=root download "$package" >&2) || return 1
    dpkg -x "$folder"/*.deb "$folder/unpacked"
    mv "$folder"/unpacked/boot/vmlinuz-* "$cache/"
}

# Prints the 32-bit number at a position of a file.
number() {
    od -An -t u4 -j "$2" -N 4 "$1" | tr -d ' '
}

# Unpacks the kernel in the packed file $1 to $2. Where the payload lies: "payload_offset" and "payload_length" in
# Documentation/arch/x86/boot.rst of Linux. Its last four bytes are its unpacked size.
unpack() {
    sectors=$(od -An -t u1 -j 497 -N 1 "$1" | tr -d ' ')
    start=$(((sectors + 1) * 512 + $(number "$1" 584)))
    length=$(($(number "$1" 588) - 4))
    case $(od -An -t x1 -j $start -N 4 "$1" | tr -d ' ') in
    28b52ffd) with=zstd ;;
    fd377a58) with=xz ;;
    1f8b*) with=gzip length=$((length + 4)) ;;
    02214c18) with=lz4 ;;
    *)
        echo "$1 is packed in a way that make/lab.sh does not know" >&2
        return 1
        ;;
    esac
    tail -c +$((start + 1)) "$1" | head -c $length | $with -dc >"$2"
}

newest() {
    find "$cache" -name 'vmlinuz-*' | sort -V | tail -n 1
}

kernel=$(newest)
if [ -z "$kernel" ]; then
    echo "Fetching a kernel for the virtual NUMA machine" >&2
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    # The mirror may have replaced what the lists name.
    fetch || {
        [ "$(id -u)" = 0 ] && apt-get -q update >&2
        fetch
    }
    kernel=$(newest)
fi
unpack "$kernel" "$lab/draft"
mv "$lab/draft" "$lab/vmlinux"
