#!/bin/bash
# npm run soak [-- PART=COUNT...]: long and heavy use, in a guest with the real driver over a simulated GPU. Parts:
# chain=1000 checkpoints and restores of one container, each of what the one before restored; running=200 checkpoints
# with --leave-running of a container under load; many=64 containers that are saved at once and restored at once, 13
# times, or as many=64x3 says. All three by default; a chain of 1000 takes hours under emulation. Nothing may grow.
# Results and pictures of everything that was measured are in build/soak.
set -euo pipefail
cd "$(dirname "$0")/.."
test/lab/setup.sh
packaging/stage.sh
mkdir -p build/soak
test/lab/lab.sh --coarse-timers --memory 16384 --timeout 28800 --share build/soak -- node dist/test/soak/main.js "$@"
