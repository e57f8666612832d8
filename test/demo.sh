#!/bin/bash
# npm run demo [-- --json]: a container with a GPU leaves one machine in an archive and continues on another. The driver
# is real, the GPU is simulated. Everything is set up first. The exit status is 0 only if every step was observed.
# With --migrate it moves by "kfd-checkpoint migrate" between two machines that run at the same time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/.."
migrate=
if [ "${1-}" = --migrate ]; then migrate=1 && shift; fi

if [ -c /dev/kfd ]; then
	echo "This machine has an AMD GPU. The demo uses a simulated one all the same." >&2
	echo "To try your own: npm run package, install it, then: kfd-checkpoint configure && kfd-checkpoint selftest" >&2
fi
test/lab/setup.sh
packaging/stage.sh
# The folder holds only what a migration carries: the archive, and the report of each side.
share=$(mktemp -d "${TMPDIR:-/var/tmp}/kfd-checkpoint-demo.XXXXXX")
trap 'rm -rf "$share"' EXIT

if [ -n "$migrate" ]; then
	echo "== host-a and host-b: run, move by ssh, compare" >&2
	test/lab/pair.sh --memory 6144 --share "$share" --b modules=first_slot=5 -- sh test/demo/move.sh >&2
	node dist/test/demo/move-report.js "$share" "$@"
	exit
fi
echo "== guest A: run, fill VRAM, checkpoint" >&2
test/lab/lab.sh --hostname guest-a --share "$share" -- sh test/demo/leave.sh >&2
echo "== guest B: a separate boot, with nothing but the archive and the container image" >&2
test/lab/lab.sh --hostname guest-b --share "$share" -- sh test/demo/arrive.sh >&2
node dist/test/demo/report.js "$share" "$@"
