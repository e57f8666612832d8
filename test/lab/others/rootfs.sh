#!/bin/bash
# rootfs.sh PACKAGE_LIST DIR: a root file system of Debian 13 in DIR with the listed packages, and in its /usr/src
# upstream's sources
# of suites Debian does not build: libdrm's and kfdtest, of the versions that are installed, and rocrtst, which sid
# alone has.
# What Debian packed around them (dsc and debian.tar) is not asked for: mirrors do not have all of it, and nothing
# here needs it.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

# source_of ROOT PACKAGE: name and version of the source an installed package was made of.
source_of() { dpkg-query --root "$1" -W -f '${source:Package}=${source:Version}' "$2"; }

# fetch_source SOURCE ROOT: unpacks it in ROOT/usr/src. apt tells the digest, by which it judges what it fetches.
fetch_source() {
	local uri name digest folder=$2/usr/src/${1%%[=/]*}
	read -r uri name _ digest < <(apt-get source --print-uris -qq "$1" | tr -d "'" | grep -E '\.orig\.tar\.[a-z0-9]+ ')
	/usr/lib/apt/apt-helper download-file "$uri" "$2/usr/src/$name" "$digest"
	mkdir "$folder"
	tar -C "$folder" --strip-components=1 -xf "$2/usr/src/$name"
	rm "$2/usr/src/$name"
}

# A hook of mmdebstrap's, with its package lists.
if [ "$1" = --sources ]; then
	root=$2
	export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
	fetch_source "$(source_of "$root" libdrm-dev)" "$root"
	fetch_source "$(source_of "$root" libhsakmt-dev)" "$root"
	fetch_source rocr-runtime/sid "$root"
	exit
fi

list=$1 dir=$2
trap 'rm -rf "$dir"' ERR
mmdebstrap --variant=minbase --include="$(packages "$list" | paste -sd,)" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--aptopt='Acquire::Check-Valid-Until "false"' \
	--setup-hook='sed -n -e "s/^deb /deb-src /p" -e "s/ trixie / sid /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/source.list"' \
	--customize-hook="'$(realpath "$0")' --sources \"\$1\"" trixie "$dir"
