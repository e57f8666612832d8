#!/bin/bash
# npm run test:others [-- SUITE...]: test suites and tools of other projects on the guest's driver over simulated
# hardware. Each verdict is compared with a list: test/lab/others/README.md. The last line has the totals. Logs are kept
# in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# others FUNCTION: one of test/lab/others/parts.sh.
others() (
	set -e
	. test/lab/lib.sh
	. test/lab/parts.sh
	. test/lab/others/parts.sh
	"$1"
)

# guest SUITE: each suite has its own guest. Only rocrtst needs much VRAM; less VRAM is filled and wiped faster.
guest() {
	local modules=vram_mb=512
	[ "$1" != rocrtst ] || modules=
	test/lab/lab.sh --memory 4096 --timeout 900 --modules "$modules" --share "$(others others_dir)" -- \
		test/lab/others/run.sh /share "$1" |
		live '^(not )?ok '
}

cd "$REPO" || exit 1
[ $# -gt 0 ] || set -- tools amdgpu_test kfdtest rocrtst
forget_logs
if suite set-up one set_up && suite others-build one others build_others; then
	for name; do suite "others-$name" tap guest "$name"; done
else
	not_run others "the machine could not be set up, or the suites could not be built"
fi
totals
