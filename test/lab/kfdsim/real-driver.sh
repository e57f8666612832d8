#!/bin/bash
# real-driver.sh ROOTFS OUT: the real amdgpu of the guest's kernel and what it needs, as OUT/NN-NAME.ko in load order.
# Unpacked and without debug data and signatures: under emulation both cost half a minute more.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

rootfs=$1 out=$2
release=$(ls "$rootfs/lib/modules")
mkdir -p "$out"
number=10
chroot "$rootfs" modprobe --set-version "$release" --ignore-install --show-depends amdgpu |
	while read -r what file _; do
		[ "$what" = insmod ] || continue
		name=$out/$number-$(basename "${file%.xz}")
		xz -dc "$rootfs$file" >"$name"
		strip --strip-debug "$name"
		number=$((number + 1))
	done
