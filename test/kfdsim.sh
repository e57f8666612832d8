#!/bin/bash
# npm run test:kfdsim [-- CALLS [SEED]]: judges the simulated GPU by software that knows nothing of it, in a guest; then asks the real
# driver of the same kernel, in a guest without a GPU, the same table of calls. CALLS and SEED are the fuzzer's. The last
# line has the totals. Logs are kept in build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"

set_up() { test/lab/setup.sh 2>&1 | live '^lab: '; }

build_tests() (
	set -e
	. test/lab/lib.sh
	. test/lab/parts.sh
	build_kfdsim_tests
)

# The repository is the guest's working directory, so the folder has the same name there.
guest() {
	test/lab/lab.sh "${@:2}" --memory 6144 --timeout 2400 -- test/lab/kfdsim/conformance.sh "$1" build/lab/kfdsim-tests $fuzzer |
		live '^ *(not )?ok |^# fuzz_test'
}

cd "$REPO" || exit 1
fuzzer=$*
forget_logs
if suite set-up one set_up && suite kfdsim-tests one build_tests; then
	suite kfdsim tap guest simulated
	suite kfdsim-real-driver tap guest real --no-gpu
else
	not_run kfdsim "the machine could not be set up"
fi
totals
