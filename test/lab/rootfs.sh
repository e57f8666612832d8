#!/bin/bash
# rootfs.sh SUITE VARIANT PACKAGE_LIST DIR: a root file system of that suite of Debian with the listed packages in
# DIR. VARIANT is
# mmdebstrap's: minbase for a system to run, extract for packages that are only unpacked.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

suite=$1 variant=$2 list=$3 dir=$4
trap 'rm -rf "$dir"' ERR
mmdebstrap --variant="$variant" --include="$(packages "$list" | paste -sd,)" \
	--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	--dpkgopt='path-exclude=/usr/share/locale/*' \
	--aptopt='Acquire::Check-Valid-Until "false"' "$suite" "$dir"
