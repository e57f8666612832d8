#!/bin/bash
# npm run package: builds what is missing, and makes in build/packages: Debian packages, RPM packages and an archive
# with install.sh. The same commit gives the same bytes. package.sh --debs: only the Debian packages.
set -euo pipefail
cd "$(dirname "$0")/.."
. packaging/contents.sh
case ${1:-} in
'') debs_only= ;;
--debs) debs_only=yes ;;
*)
	echo "usage: package.sh [--debs]" >&2
	exit 64
	;;
esac
version=$(node -p 'require("./package.json").version')
out=$PWD/build/packages
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

missing=
for tool in dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev rpmbuild:rpm zstd:zstd strip:binutils; do
	command -v "${tool%:*}" >/dev/null || missing+=" ${tool#*:}"
done
[ -z "$missing" ] || {
	echo "package: these Debian packages are missing:$missing" >&2
	exit 1
}

[ -x node_modules/.bin/tsc ] || npm ci --no-audit --no-fund >&2
npm run --silent build:ts
for part in criu/kfd_checkpoint.so kfd_checkpoint.node kfd-checkpoint-{launch,selftest}; do
	[ -e "build/native/$part" ] || npm run --silent build:native >&2
done
packaging/stage.sh

rm -rf "$out"
mkdir -p "$out/tree"
product_tree "$out/tree/kfd-checkpoint"
node_tree "$out/tree/kfd-checkpoint-node"
packaging/deb.sh kfd-checkpoint "$version" "$out"
packaging/deb.sh kfd-checkpoint-node "$version" "$out"
[ -n "$debs_only" ] || {
	packaging/rpm.sh "$version" "$out"
	packaging/archive.sh "$version" "$out"
}
cp "$out/tree/kfd-checkpoint/usr/share/doc/kfd-checkpoint/sbom.cdx.json" "$out/kfd-checkpoint-$version.cdx.json"
rm -rf "$out/tree"
cd "$out"
sha256sum -- * >SHA256SUMS
stat --format='%s %n' -- * | awk '{ printf "%8.1f MiB  %s\n", $1 / 1048576, $2 }'
