#!/bin/bash
# npm run test:kfdsim [-- CALLS [SEED]]: judges the simulated driver in a guest by software that knows nothing of it.
# The same programs run on it and on the real driver over simulated hardware; a table shows both. The real driver
# without a GPU gets the same table of calls. Then the simulated driver is judged on the next kernel, if that can be
# had. CALLS and SEED are for the fuzzer. The last line has the totals. Logs are kept in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

# part FUNCTION: one of the lab's parts.
part() (
	set -e
	. test/lab/lib.sh
	. test/lab/parts.sh
	"$1"
)

# guest simulated|real|compare DRIVER LAB_OPTION...: the repository is the working directory of the guest, so files have
# the same names there.
guest() {
	test/lab/lab.sh "${@:3}" --memory 6144 --timeout 2400 -- \
		test/lab/kfdsim/conformance.sh "$1" "$2" build/lab/kfdsim-tests $fuzzer |
		live '^ *(not )?ok |^# fuzz_test|^# [|]'
}

next_kernel() {
	if ! part build_next_kernel >"$LOGS/next-kernel.out" 2>&1; then
		not_run kfdsim-next-kernel "Debian's backports give no newer kernel here: build/test-logs/next-kernel.out"
	elif suite kfdsim-next-kernel-build one part build_next_kfdsim; then
		suite kfdsim-next-kernel tap guest simulated build/lab/next-kernel/amdgpu.ko --next-kernel --no-gpu
	fi
}

cd "$REPO" || exit 1
fuzzer=$*
forget_logs
if suite set-up one set_up && suite kfdsim-tests one part build_kfdsim_tests; then
	suite kfdsim tap guest simulated build/lab/kfdsim/amdgpu.ko --no-gpu
	suite kfdsim-against-real tap guest compare test/lab/load-gpu --driver real
	suite kfdsim-real-driver tap guest real build/lab/real-driver --no-gpu
	next_kernel
else
	not_run kfdsim "the machine could not be set up"
fi
totals
