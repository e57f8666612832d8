#!/bin/bash
# sandbox.sh ROOT BUILD SCRIPT: runs SCRIPT with sh as root on the system in the folder ROOT, where nothing that it
# writes stays: an overlay in memory takes that. /build is the folder BUILD, which has the packages. SCRIPT has
# namespaces of its own, and no network.
set -euo pipefail
if [ "${4:-}" != inside ]; then
	exec unshare --mount --pid --net --fork "$0" "$@" inside
fi
mount -t tmpfs tmpfs /mnt
mkdir /mnt/{upper,work,root}
mount -t overlay overlay -o "lowerdir=$1,upperdir=/mnt/upper,workdir=/mnt/work" /mnt/root
# Others write there all the while.
for folder in run tmp var/tmp; do mount -t tmpfs tmpfs "/mnt/root/$folder"; done
mkdir /mnt/root/build
mount --bind "$2" /mnt/root/build
mount --rbind /dev /mnt/root/dev # apt wants a terminal for its log
mount -t proc proc /mnt/root/proc
# The host may have used the product. The sandbox begins without it.
rm -rf /mnt/root/{var/log,var/lib,etc}/kfd-checkpoint
exec chroot /mnt/root sh -c "$3"
