#!/bin/bash
# next-kernel.sh PACKAGE_LIST DIR: a root file system of Debian 13 in DIR, with the listed packages from its backports
# where
# they have them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

list=$1 dir=$2
trap 'rm -rf "$dir"' ERR
# Its package would have an initrd made, which takes minutes and is of no use here.
export INITRD=No
mmdebstrap --variant=minbase --include="$(packages "$list" | paste -sd,)" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Default-Release "trixie-backports"' \
	--setup-hook='sed -n "s/ trixie / trixie-backports /p" "$1/etc/apt/sources.list" >"$1/etc/apt/sources.list.d/backports.list"' \
	trixie "$dir"
