#!/bin/bash
# newer.sh: makes of build/packages/kfd-checkpoint_*.deb the packages of the two releases that follow, for tests of an
# update, in build/newer-packages. Their programs are the same and say that version. The plugin has a section more, so
# that a copy of it can be told from one of another release.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$PWD/build/newer-packages
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
built=(build/packages/kfd-checkpoint_*_amd64.deb)
release=$(dpkg-deb --field "${built[0]}" Version)
rm -rf "$out"
mkdir -p "$out"
for step in 1 2; do
	version=${release%.*}.$((${release##*.} + step))
	tree=$work/$version
	dpkg-deb --raw-extract "${built[0]}" "$tree"
	own=$tree/usr/lib/kfd-checkpoint
	sed -i "s/^Version: .*/Version: $version/" "$tree/DEBIAN/control"
	sed -i "s/\"version\": *\"[^\"]*\"/\"version\": \"$version\"/" "$own/package.json"
	echo "$version" >"$work/release"
	objcopy --add-section ".release=$work/release" "$own/criu/kfd_checkpoint.so"
	(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' md5sum) \
		>"$tree/DEBIAN/md5sums"
	dpkg-deb --root-owner-group -Zgzip --build "$tree" "$out/kfd-checkpoint_${version}_amd64.deb"
done
