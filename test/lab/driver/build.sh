#!/bin/bash
# build.sh BUILDER OUT SOURCE: makes OUT/amdgpu.ko and OUT/simpci.ko. amdgpu.ko is the real driver of SOURCE (made by
# source.sh) over simulated hardware. Objects of the driver's own files stay in SOURCE, so only changes are compiled.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$2 source=$3
. "$here/../builder.sh"
builder_enter "$1" driver

amd=$source/linux/drivers/gpu/drm/amd
release=$(cd "$root/usr/src" && printf '%s\n' linux-headers-*-amd64 | grep -v -e -cloud- -e -rt- | tail -n 1)
symvers=$root/usr/src/$release/Module.symvers
series=${release#linux-headers-}

# Only files that differ are written, whatever their times: another checkout may have compiled here.
ours=$work/lab
mkdir "$ours"
cp -r "$here"/{config.h,hooks*.list,stubs.list,sim,control,pci} "$ours/"
cp -r "$here/../control" "$ours/shared"
mkdir -p "$amd/lab"
find "$amd/lab" -name '*.[ch]' -printf '%P\n' | while read -r file; do
	[ -e "$ours/$file" ] || rm -f "$amd/lab/$file"
done
find "$ours" -type f -printf '%P\n' | while read -r file; do
	cmp -s "$ours/$file" "$amd/lab/$file" || install -D -m644 "$ours/$file" "$amd/lab/$file"
done
cmp -s "$here/Kbuild" "$amd/Kbuild" || cp "$here/Kbuild" "$amd/Kbuild"

modules() { builder_make_modules "$source/linux" drivers/gpu/drm/amd "/usr/src/$release" modules "$@"; }

rm -f "$amd/lab/sim/stubs.c" "$amd/lab/sim/stubs.o" "$amd"/{amdgpu,simpci}.{ko,o,mod}
modules KBUILD_MODPOST_WARN=1
for hooks in hooks "hooks-${series%%.*}"; do "$here/hooks.sh" "$amd" "$amd/lab/$hooks.list"; done
"$here/stubs.sh" "$amd/amdgpu.o" "$symvers" "$amd/lab/stubs.list" >"$work/stubs.c"
cp "$work/stubs.c" "$amd/lab/sim/stubs.c"
rm -f "$amd"/amdgpu.{ko,o,mod}
modules
mkdir -p "$out.new"
for module in amdgpu simpci; do strip --strip-debug -o "$out.new/$module.ko" "$amd/$module.ko"; done
rm -rf "$out"
mv "$out.new" "$out"
