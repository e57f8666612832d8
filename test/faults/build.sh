#!/bin/bash
# build.sh: the test build, whose processes can be held at points, to build/stage-held.tar, and the disk that breaks.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake -S native -B build/native -G Ninja >/dev/null
cmake --build build/native --target held
packaging/stage.sh held
rm -f build/faults-disk.img
truncate -s 8M build/faults-disk.img
mkfs.ext4 -q -O ^has_journal build/faults-disk.img
