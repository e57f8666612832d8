#!/bin/bash
# npm run test:packages: makes the packages, and judges what is in them and how they are installed, updated and removed.
# Installations are in sandboxes of this host and Debian 13, where nothing that they write stays: so it runs as root.
set -euo pipefail
cd "$(dirname "$0")/.."
npm run --silent build:ts
packaging/package.sh
test/packages/newer.sh
exec node --test --test-concurrency=1 dist/test/packages/contents.test.js dist/test/packages/life.test.js
