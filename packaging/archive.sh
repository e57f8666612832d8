#!/bin/bash
# archive.sh VERSION OUT: makes the archive with install.sh, for hosts without these packages. package.sh calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
name=kfd-checkpoint-$1 out=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/$name"
cp packaging/{install,purge,uninstall}.sh README.md CHANGELOG.md LICENSE "$work/$name/"
cp "$out/tree/kfd-checkpoint/usr/share/doc/kfd-checkpoint/sbom.cdx.json" "$work/$name/"
archive() {
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" --format=gnu "$@"
}
archive -C build/stage -cf "$work/$name/files.tar" .
archive -C "$work" -c "$name" | zstd -q -19 -T1 -o "$out/$name.tar.zst"
