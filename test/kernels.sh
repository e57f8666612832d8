#!/bin/bash
# npm run test:kernels: round trip, several and in place, with the simulated driver as each kernel whose driver was
# read. The last line has the totals. Logs are kept in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# as_kernel PARAMETERS: of the simulated driver.
as_kernel() {
	in_guest --driver kfdsim --modules "$1" --timeout 3600 -- dist/test/e2e/main.js round-trip several in-place
}

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh; then
	suite kernel-6.12.107 tap as_kernel behaves_as=6.12.107
	suite kernel-6.12.117 tap as_kernel behaves_as=6.12.117
	# Queues of gfx9 do not come back there: docs/kernels.md.
	suite kernel-7.2 tap as_kernel "behaves_as=7.2 gfx_target_version=100300"
	suite kernel-7.3 tap as_kernel behaves_as=7.3
else
	not_run kernels "the machine could not be set up"
fi
totals
