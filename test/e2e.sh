#!/bin/bash
# npm run test:e2e: all scenarios of test/e2e, in a guest with the real driver over a simulated GPU, then those of a
# guest with systemd; more than an hour. npm test has the main ones. The last line has the totals. Logs are kept in
# build/test-logs. test/run.sh sources this file for its part.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# end_to_end [OPTION... --] [PART...]: runs in a guest with coarse timers and these options of lab.sh. The repository is
# the working directory of the guest, so the file has the same name there.
end_to_end() {
	local evidence=$REPO/build/test-logs/evidence # logs of scenarios that failed
	local options=()
	while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1") && shift; done
	[ $# = 0 ] || shift
	mkdir -p "$evidence"
	test/lab/lab.sh --coarse-timers "${options[@]}" --share "$evidence" --timeout 10800 -- \
		node --test-reporter=tap dist/test/e2e/main.js "$@" |
		live '^ *(not )?ok '
}

[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh &&
	suite test-build one test/faults/build.sh; then
	suite end-to-end tap end_to_end -- all
	suite end-to-end-systemd tap end_to_end --systemd
else
	not_run end-to-end "there is nothing to install in the guests"
fi
totals
