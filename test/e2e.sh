#!/bin/bash
# npm run test:e2e [-- [--newest|--next-criu] [--cdi]]: all scenarios of test/e2e, in a guest with the real driver over
# a simulated GPU, then those of a guest with systemd; more than an hour. npm test has the main ones. The last line has
# the totals. Logs are kept in build/test-logs.
# --newest: guests have the newest podman, runtimes and CRIU of Debian sid and experimental.
# --next-criu: the CRIU of Debian sid in place of the guest's.
# --cdi: podman gives the containers their GPUs by CDI names.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

newest=() words=()
for option in "$@"; do
	case $option in
	--newest) newest=(--newest) ;;
	--next-criu | --cdi) words+=("$option") ;;
	*)
		echo "usage: npm run test:e2e [-- [--newest|--next-criu] [--cdi]]" >&2
		exit 2
		;;
	esac
done
cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh &&
	suite test-build one test/faults/build.sh && { [ ${#newest[@]} = 0 ] || suite newest-guest one newest_guest; }; then
	suite end-to-end tap in_guest "${newest[@]}" --timeout 10800 -- dist/test/e2e/main.js all "${words[@]}"
	suite end-to-end-systemd tap in_guest "${newest[@]}" --systemd --timeout 3600 -- dist/test/e2e/main.js "${words[@]}"
else
	not_run end-to-end "there is nothing to install in the guests"
fi
totals
