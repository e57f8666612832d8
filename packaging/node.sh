#!/bin/bash
# node.sh [--cached] MAJOR: prints a folder with the files node and LICENSE: Node.js as nodejs.org builds it, of the
# release in node.list. It is fetched once. With --cached it is not fetched, and the status is 3 when it is missing.
# Debian's own build has no start-up snapshot. Under emulation it takes a second to start where this one takes a
# quarter, and every checkpoint and restore starts it.
set -euo pipefail
fetch=yes
if [ "${1:-}" = --cached ]; then
	fetch=no
	shift
fi
line=$(grep "^$1 " "$(dirname "$0")/node.list") || {
	echo "node.sh: $1: no such release in node.list" >&2
	exit 2
}
read -r _ package integrity <<<"$line"
dir=${XDG_CACHE_HOME:-$HOME/.cache}/kfd-checkpoint/$package

if [ ! -d "$dir" ]; then
	[ "$fetch" = yes ] || exit 3
	mkdir -p "${dir%/*}"
	temporary=$(mktemp -d "$dir.XXXXXX")
	trap 'rm -rf "$temporary"' EXIT
	cd "$temporary"
	file=$(npm pack --silent "$package")
	found=sha512-$(openssl dgst -sha512 -binary "$file" | base64 -w0)
	if [ "$found" != "$integrity" ]; then
		echo "node.sh: $package: is $found, should be $integrity" >&2
		exit 1
	fi
	tar -xzf "$file" --strip-components=1 --no-same-owner package/bin/node package/LICENSE
	mkdir ready
	mv bin/node LICENSE ready
	mv -T ready "$dir" || [ -d "$dir" ] # somebody else was faster
fi
echo "$dir"
