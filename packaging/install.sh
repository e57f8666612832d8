#!/bin/bash
# install.sh [ARCHIVE]: puts what stage.sh gathered, build/stage.tar, to where an installation lies on this host. Run
# as root.
set -euo pipefail
prefix=/usr/lib/kfd-checkpoint
archive=${1:-$(cd "$(dirname "$0")/.." && pwd)/build/stage.tar}

[ -f "$archive" ] || { echo "install: $archive is missing: packaging/stage.sh makes it" >&2; exit 1; }
rm -rf "$prefix"
mkdir -p "$prefix"
tar -C "$prefix" -xf "$archive"
ln -sfn "$prefix/libexec/kfd-checkpoint" /usr/bin/kfd-checkpoint
ln -sfn "$prefix/shim/containerd-shim-kfd-v2" /usr/bin/containerd-shim-kfd-v2
