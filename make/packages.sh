#!/bin/sh
# shellcheck disable=SC2086  # lists of package names are split on purpose
# Finds and installs the Debian packages that packages.txt lists for the given groups; those of the
# groups `bench` and `bench-placement` are in packages-bench.txt.
#
#   make/packages.sh STAMP GROUP…
#
# Asks dpkg only when the list is newer than STAMP, which is touched on success. Installs when it
# can (as root, or through sudo); otherwise prints the exact command and fails. What must be newer than in
# this release of Debian comes from the release's backports (make/backports.sh), and nothing else does.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
stamp=$1
shift
case " $* " in
*' bench'*) list=$root/packages-bench.txt ;;
*) list=$root/packages.txt ;;
esac

if [ -e "$stamp" ] && [ -z "$(find "$list" "$0" -newer "$stamp")" ]; then
    exit 0
fi

# Packages of the groups in "$@" whose `unless` command is absent; with `=VERSION` those that must be so new.
wanted() {
    while read -r group package word value _; do
        case $group in '' | '#'*) continue ;; esac
        case " $* " in *" $group "*) ;; *) continue ;; esac
        case ${word:-} in
        unless) command -v "$value" >/dev/null 2>&1 || echo "$package" ;;
        since) echo "$package=$value" ;;
        *) echo "$package" ;;
        esac
    done <"$list"
}

# Whether the package is installed, and new enough.
installed() {
    found=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "${1%%=*}" 2>/dev/null) || return 1
    [ "${found%% *}" = installed ] || return 1
    case $1 in *=*) dpkg --compare-versions "${found#* }" ge "${1#*=}" ;; esac
}

finish() {
    mkdir -p "$(dirname "$stamp")"
    touch "$stamp"
    exit 0
}

packages=$(wanted "$@" | sort -u)
if ! command -v dpkg-query >/dev/null 2>&1; then
    echo "This is not Debian: make sure that you have what these packages hold:" $packages >&2
    finish
fi

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || finish

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
    sudo=sudo
else
    echo "Debian packages are missing and only root can install them. Run:" >&2
    case $missing in *=*) echo "    sudo $root/make/backports.sh, if apt-cache policy shows older ones only" >&2 ;; esac
    echo "    sudo apt-get install --no-install-recommends$(echo "$missing" | sed 's/=[^ ]*//g')" >&2
    exit 1
fi

apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# What apt is asked for: a package by its name, or from the backports if the release's own is too old.
requests() {
    for package in $missing; do
        name=${package%%=*}
        candidate=$(apt-cache policy "$name" | sed -n 's/^  Candidate: //p')
        case $package in
        *=*)
            if dpkg --compare-versions "${candidate:-0}" lt "${package#*=}"; then
                echo "$name/$("$root/make/backports.sh" --name)"
                continue
            fi
            ;;
        esac
        echo "$name"
    done
}

install() {
    apt install --no-install-recommends $(requests)
}

echo "Installing Debian packages:$missing" >&2
# A list of packages that is missing or out of date makes the first attempt fail; then it is fetched.
install >/dev/null 2>&1 || {
    apt update >&2
    case $(requests) in */*) $sudo "$root/make/backports.sh" >&2 ;; esac
    install >&2
} || {
    echo "apt-get could not install:$missing (its own message is above)" >&2
    exit 1
}
finish
