#!/bin/bash
# newest.sh PACKAGE_LIST NEWEST_LIST DIR: a root file system of Debian sid in DIR, with the packages of the guest's list
# but the kernel's, and with those of NEWEST_LIST. Where experimental has a package of NEWEST_LIST, it is from there.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

list=$1 newest=$2 dir=$3
trap 'rm -rf "$dir"' ERR
# The kernel is the guest's own, and libhsakmt1 has become a part of libhsa-runtime64-1.
names=$({
	packages "$list" | grep -vE '^(linux-image-amd64|libhsakmt1)$'
	packages "$newest"
} | LC_ALL=C sort -u | paste -sd,)
# A package that names no version of another gets it from sid, which is why those of one source are all named.
pins="Package: $(packages "$newest" | paste -sd' ')\nPin: release a=experimental\nPin-Priority: 990\n"
mmdebstrap --variant=minbase --include="$names" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--aptopt='Acquire::Check-Valid-Until "false"' \
	--setup-hook='sed -n "s/ sid / experimental /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/later.list"' \
	--setup-hook="printf '$pins' >\"\$1/etc/apt/preferences.d/newest\"" \
	sid "$dir"
