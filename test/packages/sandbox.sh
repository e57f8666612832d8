#!/bin/bash
# sandbox.sh PACKAGES SCRIPT: runs SCRIPT with sh as root on this system, where nothing that it writes stays: an overlay
# in memory takes that. /packages has the files of the folder PACKAGES. It has namespaces of its own.
set -euo pipefail
if [ "${3:-}" != inside ]; then
	exec unshare --mount --pid --fork "$0" "$1" "$2" inside
fi
mount -t tmpfs tmpfs /mnt
mkdir /mnt/{upper,work,root}
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
for folder in run tmp; do mount -t tmpfs tmpfs "/mnt/root/$folder"; done
mkdir /mnt/root/packages
mount --bind "$1" /mnt/root/packages
mount --rbind /dev /mnt/root/dev # apt wants a terminal for its log
mount -t proc proc /mnt/root/proc
# The host may have used the product. The sandbox begins without it.
rm -rf /mnt/root/{var/log,var/lib,etc}/kfd-checkpoint
exec chroot /mnt/root sh -c "$2"
