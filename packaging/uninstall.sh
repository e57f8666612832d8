#!/bin/bash
# uninstall.sh [--purge]: undoes install.sh of the same PREFIX, and "kfd-checkpoint configure" before. --purge also
# removes logs, configuration, and what migrations have left but for what a container may need. Run as root.
set -euo pipefail
prefix=${PREFIX:-/usr}
own=$prefix/lib/kfd-checkpoint
list=$own/installed-files
[ -f "$list" ] || {
	echo "uninstall: $list is missing: nothing was installed by install.sh below $prefix" >&2
	exit 1
}
"$own/libexec/maintain" removing
while read -r file; do rm -f "$file"; done <"$list"
rm -rf "$own"
# What somebody else put there stays.
doc=$prefix/share/doc/kfd-checkpoint
[ ! -d "$doc" ] || find "$doc" -depth -type d -empty -delete
[ "${1:-}" != --purge ] || {
	rm -rf /etc/kfd-checkpoint
	"$(dirname "$0")/purge.sh"
}
