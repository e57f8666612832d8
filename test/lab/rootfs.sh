#!/bin/bash
# rootfs.sh VARIANT PACKAGE_LIST DIR: a Debian 13 root file system with the listed packages in DIR. VARIANT is mmdebstrap's:
# minbase for a system to run, extract for packages that are only unpacked.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

variant=$1 list=$2 dir=$3
trap 'rm -rf "$dir"' ERR
mmdebstrap --variant="$variant" --include="$(packages "$list" | paste -sd,)" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	trixie "$dir"
