#!/bin/sh
# Builds the GPU test programs and the container image that holds them.
# usage: build.sh BUILDER_DIR OUT_DIR
#   BUILDER_DIR  Debian root file system with g++, libhsa-runtime-dev, libdrm-dev and busybox-static
#   OUT_DIR      gets bin/ (the programs of Makefile, and gpu-ctl) and image.tar (docker archive of
#                localhost/gpu-worker:latest, for `podman load`)
# BUSYBOX names a static busybox elsewhere. Needs root, for chroot. The same inputs give the same bytes.
set -eu
[ $# -eq 2 ] || { sed -n 2,7p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../builder.sh"
builder_enter "$1" programs
mkdir -p "$2"
out=$(cd "$2" && pwd)
busybox=${BUSYBOX:-$root/usr/bin/busybox}
[ -x "$busybox" ] || { echo "build.sh: no busybox at $busybox: install busybox-static or set BUSYBOX" >&2; exit 1; }

mkdir -p "$work/src" "$work/bin"
cp "$here"/*.cc "$here"/*.h "$here/Makefile" "$work/src/"
cp "$here/../control/microop.h" "$work/src/"
(cd "$here/../../../native" && xargs -a "$here/core.list" cp --parents -t "$work/src")
builder_make "$work/src" BIN="${work#"$root"}/bin"
cp "$here/gpu-ctl" "$work/bin/"

rm -rf "$out/bin"
cp -R "$work/bin" "$out/bin"
"$here/image.sh" "$root" "$work" "$busybox" "$out/image.tar"
