#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# Build the simulated GPU's tests inside a builder root file system.
# usage: build.sh BUILDER_ROOTFS OUTPUT_FOLDER
set -eu

if [ $# -ne 2 ]; then
	echo "usage: $0 BUILDER_ROOTFS OUTPUT_FOLDER" >&2
	exit 2
fi
src=$(cd "$(dirname "$0")" && pwd)
out=$2
. "$src/../../builder.sh"
builder_enter "$1" kfdsim-tests

(cd "$src/.." && find . -name '*.[ch]' | xargs cp --parents -t "$work" tests/Makefile)
cp "$src"/../../control/*.h "$work"/
builder_make "$work/tests"
rm -rf "$out.new" "$out"
mkdir -p "$out.new"
find "$work/tests" -maxdepth 1 -type f -perm -u+x -exec cp {} "$out.new" \;
mv "$out.new" "$out"
