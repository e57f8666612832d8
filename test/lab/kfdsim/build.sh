#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# Build amdgpu.ko (simulated GPU) inside a builder root file system.
# usage: build.sh BUILDER_ROOTFS OUTPUT_FOLDER
set -eu

if [ $# -ne 2 ]; then
	echo "usage: $0 BUILDER_ROOTFS OUTPUT_FOLDER" >&2
	exit 2
fi
src=$(cd "$(dirname "$0")" && pwd)
out=$2
. "$src/../builder.sh"
builder_enter "$1" kfdsim

# The newest non-cloud, non-realtime headers: the cloud flavour has no DRM.
kdir=
for d in "$root"/usr/src/linux-headers-*-amd64; do
	case $d in
	*-cloud-*|*-rt-*) continue ;;
	esac
	[ -f "$d/Makefile" ] && kdir=${d#"$root"}
done
if [ -z "$kdir" ]; then
	echo "$0: no linux-headers-*-amd64 under $root/usr/src; install linux-headers-amd64 there" >&2
	exit 1
fi

cp -R "$src"/. "$src"/../control/*.[ch] "$work"/
builder_make "$work" KDIR="$kdir"
chroot "$root" strip --strip-debug "${work#"$root"}/amdgpu.ko"
mkdir -p "$out"
cp "$work/amdgpu.ko" "$out/"
