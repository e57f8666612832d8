#!/bin/bash
# image.sh ROOTFS NODE NEXT DIR: from the guest's root file system, the folder with Node.js, and that with the next
# packages if
# there is one, to what QEMU takes, in DIR:
#   root.img  raw ext4     vmlinux  uncompressed kernel     initrd  cpio     release  kernel version, one line
set -euo pipefail
. "$(dirname "$0")/lib.sh"

rootfs=$1 node=$2 next=$3 dir=$4
release=$(ls "$rootfs/lib/modules")
tree=$dir/tree
mkdir -p "$dir"
echo "$release" >"$dir/release"

# closure LIST: .ko files (relative to the modules folder) of the listed modules and what they need, in load order.
closure() {
	local module
	for module in $(packages "$1"); do
		chroot "$rootfs" modprobe --set-version "$release" --ignore-install --show-depends "$module"
	done | awk -v cut="/lib/modules/$release/" '$1 == "insmod" { ko = substr($2, length(cut) + 1); if (!seen[ko]++) print ko }'
}

# plain_module KO.xz KO: decompressed and without debug data and signature: checking a signature costs more than the
# load.
plain_module() {
	xz -dc "$1" >"$2.new"
	strip --strip-debug "$2.new"
	mv "$2.new" "$2"
}

# The kernel unpacked on the host: doing it under emulation costs seconds. Offsets are those of the x86 boot protocol
# (setup_sects 0x1f1, payload_offset 0x248, payload_length 0x24c); the payload ends in its unpacked length, 4 bytes.
unpack_kernel() {
	local image=$rootfs/boot/vmlinuz-$release
	field() { od -An -v -tu"$2" -j"$1" -N"$2" "$image" | tr -d ' '; }
	local start=$((($(field 497 1) + 1) * 512 + $(field 584 4))) length=$(($(field 588 4) - 4))
	dd if="$image" iflag=skip_bytes,count_bytes skip="$start" count="$length" bs=1M status=none | zstd -dc >"$dir/vmlinux"
}

build_initrd() {
	local root=$dir/initrd-tree applet module
	mkdir -p "$root"/{bin,dev,root,modules}
	cp "$rootfs/bin/busybox" "$root/bin/"
	for applet in sh mount umount insmod cp switch_root poweroff; do ln -s busybox "$root/bin/$applet"; done
	install -m755 "$LAB/initrd-init" "$root/init"
	for module in $(closure "$LAB/initrd-modules.list"); do
		local name
		name=$(basename "${module%.xz}")
		plain_module "$rootfs/lib/modules/$release/$module" "$root/modules/$name"
		echo "$name" >>"$root/modules/order"
	done
	(cd "$root" && find . | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible) >"$dir/initrd"
	rm -rf "$root"
}

build_root() {
	local module modules=$tree/lib/modules/$release
	cp -al "$rootfs" "$tree" # hard links: files are replaced below, never written in place
	rm -rf "$tree"/boot/* "$tree"/usr/share/{doc,man,locale} "$tree"/var/lib/apt/lists/* "$tree"/var/cache/apt
	for module in $(closure "$LAB/guest-modules.list"); do
		plain_module "$rootfs/lib/modules/$release/$module" "$modules/${module%.xz}"
		rm "$modules/$module"
	done
	chroot "$tree" depmod "$release"
	cp -r --remove-destination "$LAB/guest-files/." "$tree/"
	mkdir -p "$tree"/{repo,share,lab}
	gcc -O2 -Wall -Wextra -Werror -static -s -o "$tree/lab/hold-keys" "$LAB/hold-keys.c"
	install -m755 "$node/node" "$tree/usr/local/bin/node" # found before Debian's, which stays
	if [ -d "$next" ]; then
		cp -a "$next" "$tree/opt/next"
		install -m755 "$LAB/next-criu" "$tree/opt/next/criu"
	fi
	packages "$LAB/guest-modules.list" >"$tree/lab/modules"
	local used
	used=$(du -sm "$tree" | cut -f1)
	mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0,lazy_itable_init=1 -m 0 -L lab -d "$tree" \
		"$dir/root.img" "$((used * 12 / 10 + 512))M"
	rm -rf "$tree"
}

unpack_kernel
build_initrd
build_root
