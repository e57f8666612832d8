#!/bin/bash
# npm run demo [-- --json]: a container with a GPU leaves one machine in an archive and goes on in another: real
# driver, simulated GPU.
# Sets everything up first. Exit status 0 only if all of it was seen.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."

test/lab/setup.sh
packaging/stage.sh
# Only what a migration carries: the archive, and each side's account of what it saw.
share=$(mktemp -d "${TMPDIR:-/var/tmp}/kfd-checkpoint-demo.XXXXXX")
trap 'rm -rf "$share"' EXIT

echo "== guest A: run, fill VRAM, checkpoint" >&2
test/lab/lab.sh --hostname guest-a --share "$share" -- sh test/demo/leave.sh >&2
echo "== guest B: a separate boot, with nothing but the archive and the container image" >&2
test/lab/lab.sh --hostname guest-b --share "$share" -- sh test/demo/arrive.sh >&2
node dist/test/demo/report.js "$share" "$@"
