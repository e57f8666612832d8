#!/bin/bash
# rpm.sh VERSION OUT: makes the RPM packages of the files in OUT/tree. package.sh calls it.
set -euo pipefail
version=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Folders that are ours are listed, too, so that they go with the package. The node package has those above its files.
list() {
	(cd "$out/tree/$1" && find . -mindepth 1 -type d \( -path '*/kfd-checkpoint' -o -path '*/kfd-checkpoint/*' \
		-o -path '*/kfd-checkpoint-node' \) -printf '%%dir /%P\n' -o ! -type d ! -path './etc/*' -printf '/%P\n') |
		LC_ALL=C sort >"$out/tree/$1.files"
}
list kfd-checkpoint
list kfd-checkpoint-node
sed -e "s|@VERSION@|$version|" -e "s|@TREE@|$out/tree|g" -e "/#PURGE#/{r $here/purge.sh" -e 'd}' \
	"$here/rpm/kfd-checkpoint.spec" >"$work/kfd-checkpoint.spec"
rpmbuild -bb --quiet --target x86_64-linux \
	--define "_topdir $work" --define "_rpmdir $work/rpms" --define "_tmppath $work" \
	--define "_rpmfilename %%{NAME}-%%{VERSION}.%%{ARCH}.rpm" --define "_binary_payload w9.zstdio" \
	--define "_buildhost localhost" --define "use_source_date_epoch_as_buildtime 1" \
	--define "clamp_mtime_to_source_date_epoch 1" --buildroot "$work/root" "$work/kfd-checkpoint.spec" >&2
mv "$work"/rpms/*.rpm "$out/"
