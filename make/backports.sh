#!/bin/sh
# Adds the backports of this Debian release to apt's sources, from the mirror and with the key of the release
# itself. apt takes a package from there only when it is asked to by name (NAME/RELEASE-backports).
#
#   make/backports.sh           adds them, as root
#   make/backports.sh --name    prints the suite's name
set -eu

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
suite=$release-backports
if [ "${1:-}" = --name ]; then
    echo "$suite"
    exit 0
fi

# Prints FIELD of apt's description of the lists of packages of a release.
lists() {
    apt-get indextargets --format "\$($2)" 'Created-By: Packages' 'Origin: Debian' "Codename: $1" | sort -u
}

[ -z "$(apt-get indextargets 'Created-By: Packages' "Release: $suite")" ] || exit 0
mirror=$(lists "$release" REPO_URI | head -n 1)
if [ -z "$mirror" ]; then
    echo "apt has no source of Debian $release, beside which its backports could be added" >&2
    exit 1
fi
# The entry of the release is `FILE:NUMBER`. A file of the old form may name no key: then apt's own are used.
file=$(lists "$release" SOURCESENTRY | head -n 1)
key=$(sed -n 's/.*signed-by[:=] *\([^] ]*\).*/\1/Ip' "${file%:*}" | head -n 1)
: "${key:=/usr/share/keyrings/debian-archive-keyring.gpg}"

added=/etc/apt/sources.list.d/$suite.sources
cat >"$added" <<END
Types: deb
URIs: $mirror
Suites: $suite
Components: main
Signed-By: $key
END
# Only this source is asked, and nothing is left behind if it has nothing.
if ! apt-get -q update -o Dir::Etc::sourcelist="$added" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0 \
    -o APT::Update::Error-Mode=any; then
    rm -f "$added"
    echo "$mirror has no $suite" >&2
    exit 1
fi
