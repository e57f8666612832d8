#!/bin/bash
# npm run test:next-kernel: scenarios on the kernel after the guest's (7.3, of Debian's backports). It has the real
# driver, SVM and Debian's next CRIU. The last line has the totals. Logs are kept in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

next_kernel() (
	set -e
	. test/lab/lib.sh
	. test/lab/parts.sh
	build_next_kernel
	build_next_driver
)

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh && suite next-kernel-build one next_kernel; then
	suite end-to-end-next-kernel tap in_guest --next-kernel --timeout 3600 -- dist/test/e2e/main.js
else
	not_run end-to-end-next-kernel "the machine could not be set up, or Debian's backports give no newer kernel here"
fi
totals
