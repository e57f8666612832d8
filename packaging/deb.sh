#!/bin/bash
# deb.sh NAME VERSION OUT: makes the Debian package NAME of the files in OUT/tree/NAME. package.sh calls it.
set -euo pipefail
name=$1 version=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)/deb
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/$name
cp -a "$out/tree/$name" "$tree"
doc=$tree/usr/share/doc/$name
maintainer="kfd-checkpoint developers <kfd-checkpoint@localhost>"

# A shared library that a program needs becomes a dependency on the package that has it on this distribution.
mkdir "$work/debian"
printf 'Source: %s\n\nPackage: %s\nArchitecture: amd64\n' "$name" "$name" >"$work/debian/control"
mapfile -t programs < <(cd "$work" &&
	find "$name" -type f -exec sh -c 'head -c4 "$1" | grep -q ELF' sh {} \; -print | sort)
shlibs=$(cd "$work" && dpkg-shlibdeps -O --warnings=0 "${programs[@]/#/-e}" | sed -n 's/^shlibs:Depends=//p')

printf '%s (%s) unstable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n -- %s  %s\n' "$name" "$version" \
	"$maintainer" "$(date -R --date="@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
mkdir -p "$tree/usr/share/lintian/overrides" "$tree/DEBIAN"
cp "$here/$name.lintian-overrides" "$tree/usr/share/lintian/overrides/$name"
[ "$name" != kfd-checkpoint ] || {
	cp "$here"/{postinst,prerm,postrm} "$tree/DEBIAN/"
	sed -i -e "/#PURGE#/{r $here/../purge.sh" -e 'd}' "$tree/DEBIAN/postrm"
	echo /etc/logrotate.d/kfd-checkpoint >"$tree/DEBIAN/conffiles"
}
find "$tree/usr/share" -path '*/man/*' -type f ! -name '*.gz' -exec gzip -9n {} +
# In KiB of whole files. What the file system takes for them differs from host to host.
size=$(find "$tree" -path "$tree/DEBIAN" -prune -o -type f -printf '%s\n' |
	awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
{
	printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: %s\n' "$name" "$version" "$maintainer"
	printf 'Installed-Size: %s\nPriority: optional\n' "$size"
	sed "s|@SHLIBS@|$shlibs|" "$here/$name.control"
} >"$tree/DEBIAN/control"
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs -d '\n' md5sum) \
	>"$tree/DEBIAN/md5sums"
find "$tree" -type d -exec chmod 755 {} +
find "$tree/DEBIAN" "$tree/usr/share" -type f -exec chmod 644 {} +
[ "$name" != kfd-checkpoint ] || chmod 755 "$tree"/DEBIAN/{postinst,prerm,postrm}
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
# One level for all hosts, and one of few seconds: Node.js is large.
dpkg-deb --root-owner-group -Zxz -z3 --build "$tree" "$out/${name}_${version}_amd64.deb" >&2
