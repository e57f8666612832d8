#!/bin/bash
# rootfs.sh PACKAGE_LIST DIR: a Debian 13 root file system with the listed packages in DIR.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

list=$1 dir=$2
trap 'rm -rf "$dir"' ERR
mmdebstrap --variant=minbase --include="$(packages "$list" | paste -sd,)" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	trixie "$dir"
