#!/bin/bash
# npm run test:hosts [-- podman|containerd|task-kills]: containers of both engines, or of one, move between two guests
# by ssh, over a network that is cut at times. Then tasks of containerd move with the test build, and processes of
# either host are killed at named points. Both guests have a simulated GPU under the real driver; KFD knows that of
# the second by another number. The last line has the totals. Logs are kept in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

in_two_guests() {
	mkdir -p "$LOGS/evidence"
	test/lab/pair.sh --coarse-timers --memory 6144 --share "$LOGS/evidence" --timeout 3600 --b modules=first_slot=5 -- \
		node --test-reporter=tap "$@" | live '^ *(not )?ok '
}

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh &&
	suite test-build one test/faults/build.sh; then
	[ "${1-}" = task-kills ] || suite hosts tap in_two_guests dist/test/hosts/main.js "$@"
	[ -n "${1-}" ] && [ "${1-}" != task-kills ] ||
		suite task-kills tap in_two_guests dist/test/hosts/main.js task-kills
else
	not_run hosts "there is nothing to install in the guests"
fi
totals
