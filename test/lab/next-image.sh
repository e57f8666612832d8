#!/bin/bash
# next-image.sh ROOTFS NEXT_KERNEL NODE NEXT_CRIU DIR: what image.sh makes, of the guest's root file system with the
# kernel and the
# modules of NEXT_KERNEL, a root file system too, and with NEXT_CRIU as its only CRIU.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rootfs=$1 kernel=$2 node=$3 next=$4 dir=$5
tree=$dir.tree
trap 'rm -rf "$tree"' EXIT
cp -al "$rootfs" "$tree" # hard links: what differs is replaced
rm -rf "$tree"/lib/modules "$tree"/boot
cp -al "$kernel/lib/modules" "$tree/lib/modules"
cp -al "$kernel/boot" "$tree/boot"
# CRIU 4.1 cannot dump on this kernel; image.sh puts the next one there.
ln -sf /opt/next/criu "$tree/usr/sbin/criu"
# Without this name: its checksums need no module of their own any more.
echo 'alias crc32c_generic libcrc32c' >"$tree/etc/modprobe.d/next-kernel.conf"
"$LAB/image.sh" "$tree" "$node" "$next" "$dir"
