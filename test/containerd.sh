#!/bin/bash
# npm run test:containerd: tests of containerd that take too long for npm test, in a guest with two releases of it. 200
# containers come and go. Our proxy, the stock shim and the daemon get SIGKILL at each step. crun runs behind our shim.
# CONTAINERD=DIR: the second release is this folder's containerd, ctr and containerd-shim-runc-v2, which run on Debian
# 13. All other parts about containerd run with it, too.
set -euo pipefail
cd "$(dirname "$0")/.."
. test/given.sh
test/lab/setup.sh
packaging/stage.sh
words=(containerd-life)
if [ -n "${CONTAINERD-}" ]; then
	given_containerd
	words+=(containerd cdi containerd-move --given-containerd)
fi
test/lab/lab.sh --timeout 7200 -- node --test-reporter=tap dist/test/e2e/main.js "${words[@]}"
