#!/bin/bash
# npm run test:faults [-- OPTIONS of test/faults/main.ts]: faults as a product of operations, victims and moments, in a
# guest with the test build, whose processes can be held at points. The table is printed, and is
# build/test-logs/faults.json.
set -euo pipefail
cd "$(dirname "$0")/.."
test/lab/setup.sh
test/faults/build.sh
mkdir -p build/test-logs
test/lab/lab.sh --coarse-timers --share build/test-logs --timeout 10800 -- node dist/test/faults/main.js "$@"
