#!/bin/bash
# install.sh: run inside the guest; installs what stage.sh gathered.
set -euo pipefail
prefix=/usr/lib/kfd-checkpoint
archive=$(cd "$(dirname "$0")/../.." && pwd)/build/stage.tar

[ -f "$archive" ] || { echo "install: $archive is missing: run test/lab/stage.sh on the host" >&2; exit 1; }
rm -rf "$prefix"
mkdir -p "$prefix"
tar -C "$prefix" -xf "$archive"
ln -sfn "$prefix/dist/src/cli/main.js" /usr/bin/kfd-checkpoint
ln -sfn "$prefix/shim/containerd-shim-kfd-v2" /usr/bin/containerd-shim-kfd-v2
