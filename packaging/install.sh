#!/bin/bash
# install.sh [ARCHIVE]: installs what stage.sh gathered: files.tar beside this script, or build/stage.tar. Run as root.
# PREFIX (/usr) is where it is put. With DESTDIR, all is put below that folder for a package, and no program is run.
set -euo pipefail
prefix=${PREFIX:-/usr} destination=${DESTDIR:-}
here=$(cd "$(dirname "$0")" && pwd)
archive=$here/files.tar
[ -f "$archive" ] || archive=${here%/*}/build/stage.tar
archive=${1:-$archive}
own=$prefix/lib/kfd-checkpoint
list=$own/installed-files

fail() {
	echo "install: $*" >&2
	exit 1
}
[ -f "$archive" ] || fail "$archive is missing: packaging/stage.sh makes it"
[[ $prefix =~ ^/[A-Za-z0-9_./+-]*[A-Za-z0-9_+-]$ ]] || fail "PREFIX=$prefix: not a plain absolute path"
[ ! -e "$destination$own" ] || [ -f "$destination$list" ] ||
	fail "$own is of a package: remove that first, or use another PREFIX"

new=$destination$own.new
rm -rf "$new"
mkdir -p "$new" "$destination$prefix/bin"
tar -C "$new" --no-same-owner -xf "$archive"

installed=()
# put FILE PATH: moves a file of the archive to where the system looks for it.
put() {
	mkdir -p "$destination${2%/*}"
	mv -f "$1" "$destination$2"
	installed+=("$2")
}
# link TARGET PATH
link() {
	ln -sfn "$1" "$destination$2"
	installed+=("$2")
}
# The earlier release is whole until the new one is.
earlier=()
[ ! -f "$destination$list" ] || mapfile -t earlier <"$destination$list"
rm -rf "$destination$own.old"
[ ! -e "$destination$own" ] || mv -T "$destination$own" "$destination$own.old"
mv -T "$new" "$destination$own"
rm -rf "$destination$own.old"

link "../lib/kfd-checkpoint/libexec/kfd-checkpoint" "$prefix/bin/kfd-checkpoint"
link "../lib/kfd-checkpoint/bin/checkpointctl-kfd" "$prefix/bin/checkpointctl-kfd"
link "../lib/kfd-checkpoint/shim/containerd-shim-kfd-v2" "$prefix/bin/containerd-shim-kfd-v2"
system=$destination$own/system
for unit in kfd-checkpoint-refresh.service kfd-checkpoint-spare.service; do
	sed -i "s|@PREFIX@|$prefix|g" "$system/$unit"
	put "$system/$unit" "$prefix/lib/systemd/system/$unit"
done
put "$system/kfd-checkpoint.preset" "$prefix/lib/systemd/system-preset/85-kfd-checkpoint.preset"
put "$system/kfd-checkpoint.tmpfiles" "$prefix/lib/tmpfiles.d/kfd-checkpoint.conf"
put "$system/kfd-checkpoint.logrotate" /etc/logrotate.d/kfd-checkpoint
rmdir "$system"
if [ -d "$destination$own/share" ]; then
	while read -r file; do
		put "$destination$own/share/$file" "$prefix/share/$file"
	done < <(cd "$destination$own/share" && find . ! -type d -printf '%P\n' | LC_ALL=C sort)
	rm -rf "$destination$own/share"
fi
printf '%s\n' "${installed[@]}" >"$destination$list"
for file in "${earlier[@]}"; do
	grep -qxF -- "$file" "$destination$list" || rm -f "$destination$file"
done
[ -n "$destination" ] || "$own/libexec/maintain" installed
