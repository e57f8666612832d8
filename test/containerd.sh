#!/bin/bash
# npm run test:containerd: tests of containerd that take too long for npm test, in a guest with two releases of it. 200
# containers come and go. Our proxy, the stock shim and the daemon get SIGKILL at each step. crun runs behind our shim.
set -euo pipefail
cd "$(dirname "$0")/.."
test/lab/setup.sh
packaging/stage.sh
test/lab/lab.sh --timeout 7200 -- node --test-reporter=tap dist/test/e2e/main.js containerd-life
