#!/bin/bash
# npm test [-- --all|--newest]: from a clean clone, as root. It sets the machine up and runs the plain parts of
# test/check.sh. It makes packages and the test build of test/faults. The end-to-end tests run in a guest with the real
# driver over a simulated GPU. A second guest has systemd, for scenarios that depend on it. A third one has systemd and
# the packages. A summary follows; the very last line has the totals. Logs are kept in build/test-logs.
# --all: all parts of test/check.sh, too, and the native tests of hundreds of GiB. Continuous integration runs these.
# --newest: guests have the newest podman, runtimes and CRIU of Debian sid and experimental. The summary names them.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
. "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

sanitized_and_large_parts() {
	sanitized_parts
	if [ "$native_built" = yes ]; then
		suite native-large doctest build/native/large_test
	else
		not_run native-large "it could not be built"
	fi
}

host_parts() {
	plain_parts
	[ "$all" = no ] || hostile_parts
	if suite packages one make_packages --debs; then packaged=yes; fi
	if suite installation one packaging/stage.sh; then installed=yes; fi
	suite test-build one test/faults/build.sh
}

all=no newest=()
case "$*" in
'') ;;
--all) all=yes ;;
--newest) newest=(--newest) ;;
*)
	echo "usage: npm test [-- --all|--newest]" >&2
	exit 2
	;;
esac
cd "$REPO" || exit 1
forget_logs
started=$SECONDS installed=no packaged=no

if suite set-up one set_up; then
	native_build
	if [ "$all" = yes ]; then side_by_side sanitized_and_large_parts host_parts; else host_parts; fi
	if [ ${#newest[@]} != 0 ] && ! suite newest-guest one newest_guest; then
		not_run end-to-end "Debian's sid and experimental give no newest packages here"
	elif [ "$installed" = yes ]; then
		suite end-to-end tap in_guest "${newest[@]}" --timeout 10800 -- dist/test/e2e/main.js
		suite end-to-end-systemd tap in_guest "${newest[@]}" --systemd --timeout 3600 -- dist/test/e2e/main.js
	else
		not_run end-to-end "there is nothing to install in the guests"
	fi
	if [ ${#newest[@]} != 0 ]; then
		not_run packages-in-guest "the packages are for Debian 13, as in npm test"
	elif [ "$packaged" = yes ]; then
		suite packages-in-guest tap packages_in_guest
	else
		not_run packages-in-guest "there are no packages"
	fi
else
	not_run everything-else "the machine could not be set up"
fi

echo
echo "summary, after $((SECONDS - started)) s; all GPUs are simulated, most of them under the real driver:"
printf '%s\n' "${summary[@]}"
totals
