#!/bin/bash
# build.sh BUILDER DIR: DIR, a root file system with others' programs, from Debian's packages and compiled in BUILDER,
# which rootfs.sh made.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../builder.sh"
builder_enter "$1" others
dir=$2
mkdir "$work/out"
cp "$here/Makefile" "$work/"
builder_make "$work" OUT="${work#"$root"}/out"
"$here/../rootfs.sh" trixie extract "$here/tools-packages.list" "$dir"
mkdir -p "$dir/usr/local/bin"
cp "$work"/out/* "$dir/usr/local/bin/"
# Emulated, it takes seconds.
chroot "$dir" /bin/sh -c 'exec /usr/bin/python3 -m compileall -q /usr/lib/python3* /usr/libexec'
