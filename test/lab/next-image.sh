#!/bin/bash
# next-image.sh ROOTFS KERNEL NODE NEXT DIR: what image.sh makes, of the root file system ROOTFS with the kernel and the
# modules of KERNEL, a root file system too. With a kernel that follows the guest's, the CRIU of NEXT is the only one.
# Where both have a crun, that of KERNEL is /opt/earlier/crun.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rootfs=$1 kernel=$2 node=$3 next=$4 dir=$5
release=$(ls "$kernel/lib/modules")
tree=$dir.tree
trap 'rm -rf "$tree"' EXIT
cp -al "$rootfs" "$tree" # hard links: what differs is replaced
rm -rf "$tree"/lib/modules "$tree"/boot
cp -al "$kernel/lib/modules" "$tree/lib/modules"
cp -al "$kernel/boot" "$tree/boot"
if [ "$rootfs" != "$kernel" ] && [ -e "$kernel/usr/bin/crun" ]; then
	install -Dm755 "$LAB/earlier-crun" "$tree/opt/earlier/crun"
	install -Dm755 -t "$tree/opt/earlier/lib" "$kernel/usr/bin/crun" "$kernel"/usr/lib/x86_64-linux-gnu/libyajl.so.2
fi
if [[ $release != 6.* ]]; then
	# CRIU 4.1 cannot dump on this kernel; image.sh puts the next one there.
	ln -sf /opt/next/criu "$tree/usr/sbin/criu"
	# Without this name: its checksums need no module of their own any more.
	echo 'alias crc32c_generic libcrc32c' >"$tree/etc/modprobe.d/next-kernel.conf"
fi
"$LAB/image.sh" "$tree" "$node" "$next" "$dir"
