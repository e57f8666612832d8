# The lab's cached parts: which folder holds what, and how each is made. Sourced.
# Guest and builder are named by a digest of their recipes; the image also by what image.sh puts in.
# shellcheck shell=bash

guest_recipe=("$LAB/rootfs.sh" "$LAB/guest-packages.list")
image_recipe=("$LAB"/{next-packages.list,next-criu,hold-keys.c,image.sh,initrd-init,initrd-modules.list})
image_recipe+=("$LAB"/{guest-modules.list,guest-files} "$REPO"/packaging/node.{sh,list})
rootfs_dir() { echo "$CACHE/guest-$(digest "${guest_recipe[@]}")"; }
next_packages_dir() { echo "$CACHE/next-packages-$(digest "$LAB/rootfs.sh" "$LAB/next-packages.list")"; }
# node_dir [MAJOR]: fails when it was not fetched. The guest has 20, the oldest release that the product runs on.
node_dir() { "$REPO/packaging/node.sh" --cached "${1:-20}"; }
emulator_dir() { echo "$CACHE/emulator-$(digest "$LAB/rootfs.sh" "$LAB/emulator-packages.list")"; }
builder_dir() { echo "$CACHE/builder-$(digest "$LAB/rootfs.sh" "$LAB/builder-packages.list")"; }
# An image without the next packages has a name of its own: it must not stay once there is one.
image_dir() {
	local name
	name=$CACHE/image-$(digest "${guest_recipe[@]}" "${image_recipe[@]}")
	if [ ! -d "$(next_packages_dir)" ]; then name+=-without-next-packages; fi
	echo "$name"
}

# Of the kernel that follows the guest's: a root file system with it and what compiles for it, and a guest's image.
next_kernel_dir() { echo "$CACHE/next-kernel-$(digest "$LAB"/next-kernel.{sh,list})"; }
next_image_dir() {
	local own=("$LAB"/next-kernel.{sh,list} "$LAB/next-image.sh")
	echo "$CACHE/next-image-$(digest "${guest_recipe[@]}" "${image_recipe[@]}" "${own[@]}")"
}

# Of the newest podman, runtimes and CRIU that Debian has, on the guest's own kernel: a root file system, and an image.
newest_recipe=("$LAB"/newest{.sh,-packages.list} "$LAB/guest-packages.list")
newest_dir() { echo "$CACHE/newest-$(digest "${newest_recipe[@]}")"; }
newest_image_dir() {
	local own=("${newest_recipe[@]}" "$LAB"/{next-image.sh,earlier-crun})
	echo "$CACHE/newest-image-$(digest "${guest_recipe[@]}" "${image_recipe[@]}" "${own[@]}")"
}

# versions_match: whether the builder's headers are those of the guest's kernel.
versions_match() { [ -d "$(builder_dir)/usr/src/linux-headers-$(ls "$(rootfs_dir)/lib/modules")" ]; }

# suite_packages NAME FOLDER SUITE VARIANT LIST
suite_packages() { build_cached "$1 packages" "$2" "$LAB/rootfs.sh" "$3" "$4" "$LAB/$5"; }
build_rootfs() { suite_packages guest "$(rootfs_dir)" trixie minbase guest-packages.list; }
build_builder() { suite_packages builder "$(builder_dir)" trixie minbase builder-packages.list; }
build_emulator() { suite_packages emulator "$(emulator_dir)" trixie extract emulator-packages.list; }
# build_node MAJOR
build_node() { node_dir "$1" >/dev/null || step "Node.js $1" "$REPO/packaging/node.sh" "$1"; }

# The CRIU and the containerd that Debian is going to have. Its suite is not always whole: without them those
# scenarios are skipped.
build_next_packages() {
	build_cached "next packages" "$(next_packages_dir)" "$LAB/rootfs.sh" sid extract "$LAB/next-packages.list" ||
		say "the guest gets no second CRIU and no second containerd: scenarios that need them will be skipped"
}

# build_guest: the guest's image and the builder, both for the same kernel.
build_guest() {
	local guest builder
	build_rootfs & guest=$!
	build_builder & builder=$!
	build_next_packages
	build_node 20 || { wait; return 1; }
	wait "$guest" || { wait "$builder"; return 1; }
	wait "$builder" || return 1
	if ! versions_match; then
		say "the builder's headers are not for the guest's kernel: building both anew"
		rm -rf "$(rootfs_dir)" "$(builder_dir)" "$(image_dir)"
		build_rootfs
		build_builder
		versions_match || die "the package mirror offers different versions of linux-image-amd64 and linux-headers-amd64"
	fi
	build_cached "guest image" "$(image_dir)" "$LAB/image.sh" "$(rootfs_dir)" "$(node_dir)" "$(next_packages_dir)"
}

# build_next_kernel: the next kernel and its guest. Only tests of the simulated GPU itself need it, and can do without.
build_next_kernel() {
	build_cached "next kernel" "$(next_kernel_dir)" "$LAB/next-kernel.sh" "$LAB/next-kernel.list" || return 1
	build_cached "next kernel's guest image" "$(next_image_dir)" \
		"$LAB/next-image.sh" "$(rootfs_dir)" "$(next_kernel_dir)" "$(node_dir)" "$(next_packages_dir)"
}

# build_newest: its suites are not always whole, and only tests of the newest releases need it.
build_newest() {
	build_cached "newest packages" "$(newest_dir)" \
		"$LAB/newest.sh" "$LAB/guest-packages.list" "$LAB/newest-packages.list" || return 1
	build_cached "newest guest image" "$(newest_image_dir)" \
		"$LAB/next-image.sh" "$(newest_dir)" "$(rootfs_dir)" "$(node_dir)" "$(next_packages_dir)"
}

# from_sources NAME OUTPUT BUILDER SCRIPT SOURCE...: runs SCRIPT BUILDER OUTPUT, unless OUTPUT was made from these very
# SOURCES (files and folders) in this BUILDER.
from_sources() {
	local name=$1 output=$2 builder=$3 script=$4 stamp
	stamp="$(digest "${@:5}") $(basename "$builder")"
	if [ -e "$output" ] && [ "$(cat "$output.from" 2>/dev/null)" = "$stamp" ]; then return 0; fi
	rm -rf "$output" "$output.from"
	mkdir -p "$(dirname "$output")"
	step "$name" "$script" "$builder" "$output" || return 1
	[ -e "$output" ] || die "$name: made no $output"
	echo "$stamp" >"$output.from"
}

build_kfdsim() {
	from_sources "simulated driver" "$OUT/kfdsim" "$(builder_dir)" "$LAB/kfdsim/build.sh" "$LAB/kfdsim" "$LAB/control"
}

build_next_kfdsim() {
	from_sources "simulated driver for the next kernel" "$OUT/next-kernel" "$(next_kernel_dir)" \
		"$LAB/kfdsim/build.sh" "$LAB/kfdsim" "$LAB/control"
}

# driver_source_dir BUILDER: the source of the driver of the kernel that BUILDER compiles for, and its objects once it
# was built.
driver_source_dir() { echo "$CACHE/driver-source-$(digest "$LAB/driver/source.sh")-$(basename "$1")"; }

# build_driver_of NAME OUTPUT BUILDER
build_driver_of() {
	build_cached "$1's source" "$(driver_source_dir "$3")" "$LAB/driver/source.sh" "$3" || return 1
	from_sources "$1" "$2" "$3" build_driver_from_source "$LAB/driver" "$LAB/control"
}
build_driver_from_source() { "$LAB/driver/build.sh" "$1" "$2" "$(driver_source_dir "$1")"; }
build_driver() { build_driver_of "real driver" "$OUT/real" "$(builder_dir)"; }
build_next_driver() { build_driver_of "real driver of the next kernel" "$OUT/real-next" "$(next_kernel_dir)"; }

build_programs() {
	local core=()
	mapfile -t core < <(sed "s|^|$LAB/../../native/|" "$LAB/programs/core.list")
	from_sources "test programs" "$OUT/programs" "$(builder_dir)" "$LAB/programs/build.sh" "$LAB/programs" "${core[@]}"
}

# build_kfdsim_tests: the simulated GPU's tests, and the real driver they compare it with.
build_kfdsim_tests() {
	from_sources "simulated GPU's tests" "$OUT/kfdsim-tests" "$(builder_dir)" "$LAB/kfdsim/tests/build.sh" "$LAB/kfdsim"
	rm -rf "$OUT/real-driver" # made in a second, so there is no need to know whether it is the kernel's
	step "real driver" "$LAB/kfdsim/real-driver.sh" "$(rootfs_dir)" "$OUT/real-driver"
}
