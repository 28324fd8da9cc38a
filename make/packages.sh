#!/bin/sh
# shellcheck disable=SC2086  # lists of package names are split on purpose
# Finds and installs the Debian packages that packages.txt lists for the given groups; those of the
# groups `bench` and `bench-placement` are in packages-bench.txt.
#
#   make/packages.sh STAMP GROUP…
#
# Asks dpkg only when the list is newer than STAMP, which is touched on success. Installs when it
# can (as root, or through sudo); otherwise prints the exact command and fails.
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

# Packages of the groups in "$@" whose `unless` command is absent.
wanted() {
    while read -r group package word command _; do
        case $group in '' | '#'*) continue ;; esac
        case " $* " in *" $group "*) ;; *) continue ;; esac
        if [ "${word:-}" = unless ] && command -v "$command" >/dev/null 2>&1; then
            continue
        fi
        echo "$package"
    done <"$list"
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
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
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

apt() {
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -y -q \
        -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

echo "Installing Debian packages:$missing" >&2
# A list of packages that is missing or out of date makes the first attempt fail; then it is fetched.
apt install --no-install-recommends $missing >/dev/null 2>&1 || {
    apt update >&2
    apt install --no-install-recommends $missing >&2
} || {
    echo "apt-get could not install:$missing (its own message is above)" >&2
    exit 1
}
finish
