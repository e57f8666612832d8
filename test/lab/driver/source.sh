#!/bin/bash
# source.sh BUILDER DIR: the amdgpu and amdkfd of exactly the kernel whose headers BUILDER has, from Debian's package
# of its source:
#   DIR/linux/drivers/gpu/drm/amd   the driver, no line changed     DIR/version   of the package
# The package is unpacked in DIR and taken away again: of its 150 MB the driver's folder alone is kept.
set -euo pipefail
. "$(dirname "$0")/../lib.sh"

builder=$1 dir=$2
headers=$(chroot "$builder" dpkg-query -W -f '${source:Version} ${Package}\n' 'linux-headers-*-common' | tail -n 1)
version=${headers% *}
series=$(cut -d. -f1,2 <<<"$version")
package=linux-source-$series
mkdir -p "$dir"
trap 'rm -rf "$dir"' ERR
# From where the builder has its packages: for the next kernel that is Debian's backports, too.
find "$builder"/etc/apt -name '*.list' -exec cat {} + | mmdebstrap --variant=extract --include="$package=$version" \
	--aptopt='Acquire::Check-Valid-Until "false"' trixie "$dir/package" - || {
	echo "the mirror has no $package $version any more, the source of the guest's kernel: remove $builder and the guest, and run npm run setup" >&2
	false
}
xz -T2 -dc "$dir/package/usr/src/$package.tar.xz" | tar -C "$dir" -xf - --wildcards "$package/drivers/gpu/drm/amd/*"
mv "$dir/$package" "$dir/linux"
rm -rf "$dir/package"
# The driver looks for its tracepoints from two folders below the root of all sources.
mkdir -p "$dir/linux/trace_inc/a"
echo "$version" >"$dir/version"
