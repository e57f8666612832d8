#!/bin/bash
# npm run test:packages: makes the packages, and judges what is in them and how they are installed, updated and removed:
# in a sandbox of this host and one of Debian 13, where nothing that they write stays, and in a guest with a simulated
# GPU, where containers run all the while. So it runs as root. npm test has the guest's part, too. The last line has the
# totals. Logs are kept in build/test-logs. test/run.sh sources this file for that part.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# make_packages [--debs]: and later releases of them.
make_packages() { packaging/package.sh "$@" && test/packages/newer.sh; }

# Nothing of ours is installed there.
packages_in_guest() { in_guest --systemd --timeout 3600 -- dist/test/packages/guest.js; }

in_sandboxes() { node --test --test-concurrency=1 --test-reporter=tap "dist/test/packages/$1.test.js"; }

[ "${BASH_SOURCE[0]}" = "$0" ] || return 0

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite packages one make_packages; then
	suite package-lives tap in_sandboxes life
	suite packages-in-guest tap packages_in_guest
	suite package-contents tap in_sandboxes contents # makes them once more
else
	not_run everything-else "there are no packages"
fi
totals
