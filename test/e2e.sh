#!/bin/bash
# npm run test:e2e: all scenarios of test/e2e, in a guest with the real driver over a simulated GPU, then those of a
# guest with systemd; more than an hour. npm test has the main ones. The last line has the totals. Logs are kept in
# build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh &&
	suite test-build one test/faults/build.sh; then
	suite end-to-end tap in_guest --timeout 10800 -- dist/test/e2e/main.js all
	suite end-to-end-systemd tap in_guest --systemd --timeout 3600 -- dist/test/e2e/main.js
else
	not_run end-to-end "there is nothing to install in the guests"
fi
totals
