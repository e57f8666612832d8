#!/bin/bash
# npm run test:containerd: what takes too long for npm test. In a guest, with both releases of containerd that it has:
# 200 containers
# come and go, SIGKILL of our proxy, of the stock shim and of the daemon at each step, crun behind our shim.
set -euo pipefail
cd "$(dirname "$0")/.."
test/lab/setup.sh
packaging/stage.sh
test/lab/lab.sh --timeout 7200 -- node --test-reporter=tap dist/test/e2e/main.js containerd-life
