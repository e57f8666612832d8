# How scripts compile inside the builder's root file system. A POSIX sh that runs as root sources this file.

# builder_enter ROOTFS NAME: sets root (ROOTFS, absolute) and work, a new folder in its /tmp. work is removed when the
# script ends. Several builds may share one builder.
builder_enter() {
	root=$(cd "$1" && pwd)
	work=$(mktemp -d "$root/tmp/$2.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# builder_make FOLDER [MAKE ARGUMENTS...]: make in a folder below work, inside the builder. A mount namespace of its own
# gives it a /proc, which the build of modules for later kernels needs.
builder_make() {
	folder=$1
	shift
	unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' \
		sh "$root" make -s -j2 -C "${folder#"$root"}" "$@"
}

# builder_make_modules TREE FOLDER KERNEL [MAKE ARGUMENTS...]: builds the modules in FOLDER of TREE. TREE may lie
# anywhere. It is always /mnt in the builder, so earlier objects stay valid. KERNEL: folder of the kernel's headers.
builder_make_modules() {
	tree=$1 folder=$2 kernel=$3
	shift 3
	unshare --mount sh -c '
		mount -t proc proc "$1/proc" && mount --bind "$2" "$1/mnt" && root=$1 && shift 2 && exec chroot "$root" "$@"' \
		sh "$root" "$tree" make -s -j2 -C "$kernel" M="/mnt/$folder" "$@"
}
