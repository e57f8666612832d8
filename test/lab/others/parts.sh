# The cached parts of others' suites: which folder holds what, and how each is made. Sourced, after ../parts.sh.
# shellcheck shell=bash

others_builder_dir() { echo "$CACHE/others-builder-$(digest "$LAB/others/"{rootfs.sh,builder-packages.list})"; }
others_dir() {
	local recipe=("$LAB/rootfs.sh" "$LAB/others/"{rootfs.sh,build.sh,Makefile,builder-packages.list,tools-packages.list})
	echo "$CACHE/others-$(digest "${recipe[@]}")"
}

build_others() {
	local dir
	dir=$(others_dir)
	if [ ! -d "$dir" ]; then
		build_cached "builder of others' suites" "$(others_builder_dir)" \
			"$LAB/others/rootfs.sh" "$LAB/others/builder-packages.list" || return 1
	fi
	build_cached "others' suites" "$dir" "$LAB/others/build.sh" "$(others_builder_dir)"
}
