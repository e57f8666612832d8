#!/bin/bash
# conformance.sh simulated|real DRIVER TESTS [CALLS [SEED]]: runs in a guest without a GPU. Judges the simulated GPU by programs; or
# makes the table of calls, whose answers the simulated driver is to give too, of the real driver.
#   DRIVER the simulated GPU's module; real: a folder with the real driver's modules, in load order
#   TESTS  folder with the built tests
#   CALLS  of the fuzzer (default 100000)     SEED  of the fuzzer (default: another one each time, printed)
# TAP on standard output with the summary test/tap.sh reads. After each program nothing may be left on the simulated GPU,
# and the kernel must not have complained.
set -uo pipefail

which=$1 driver=$(realpath "$2") tests=$(realpath "$3") calls=${4:-100000} seed=${5:-}
counters=/sys/kernel/debug/kfdsim/counters
number=0 failed=0 complaints=0

# left: the living objects, as "name number", of a GPU that nothing should use any more; the totals follow them in the file.
# Ends of processes take a moment.
left() {
	local rest i
	[ -e "$counters" ] || return 0
	for i in {1..50}; do
		rest=$(awk '$1 == "cs_submitted" { exit } $2 != 0' "$counters")
		[ -n "$rest" ] || return 0
		sleep 0.1
	done
	echo "$rest"
}

complained() { dmesg | grep -cE 'BUG:|WARNING:|Oops|kernel BUG|general protection|blocked for more than|refcount_t:|UBSAN:|unreferenced object'; }

# judge NAME COMMAND...: one test. Its output is shown when it fails; lines "simulated: ..." and the fuzzer's seed always.
judge() {
	local name=$1 out status=0 start=$EPOCHREALTIME rest now word=ok
	shift
	out=$(cd "$tests" && "$@" 2>&1) || status=$?
	rest=$(left)
	now=$(complained)
	number=$((number + 1))
	if [ "$status" != 0 ] || [ -n "$rest" ] || [ "$now" -gt "$complaints" ]; then
		word="not ok" failed=$((failed + 1))
	fi
	echo "$word $number - $name ($(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s)"
	echo "$out" | grep -E '^(simulated:|fuzz_test:|the .* driver)' | sed 's/^/# /'
	if [ "$word" != ok ]; then
		echo "  ---"
		echo "  status: $status"
		[ -z "$rest" ] || echo "  left on the GPU:" $rest
		[ "$now" = "$complaints" ] || dmesg | tail -n 40 | sed 's/^/  kernel: /'
		echo "$out" | tail -n 60 | sed 's/^/  /'
		echo "  ..."
	fi
	complaints=$now
}

rocminfo_sees_gpus() {
	local nodes agents
	nodes=$(grep -lv '^0$' /sys/class/kfd/kfd/topology/nodes/*/gpu_id | wc -l)
	rocminfo >/tmp/rocminfo || return
	agents=$(grep -c 'Device Type: *GPU' /tmp/rocminfo)
	[ "$agents" = "$nodes" ] && [ "$nodes" -gt 0 ] && return
	echo "rocminfo lists $agents GPUs, the topology has $nodes"
	return 1
}

load_simulated_driver() {
	local depends
	depends=$(modinfo -F depends "$driver" | tr , ' ')
	# shellcheck disable=SC2086 # a list
	modprobe -a $depends && insmod "$driver" && [ -c /dev/kfd ] && [ -c /dev/dri/renderD128 ]
}

load_real_driver() {
	local module
	for module in "$driver"/*.ko; do
		insmod "$module" 2>&1 | grep -v 'File exists'
	done
	[ -c /dev/kfd ]
}

echo "TAP version 13"
case $which in
simulated)
	judge "the simulated driver is there, on Linux $(uname -r)" load_simulated_driver
	judge rocminfo rocminfo_sees_gpus
	# What is there, whoever added it. Last, because a kernel that was hurt fails whatever comes after.
	for test in "$tests"/*_test; do
		case $(basename "$test") in
		stress_test | fuzz_test) ;;
		*) judge "$(basename "$test")" "$test" ;;
		esac
	done
	# Loads the module with one set of parameters after the other, with the usual ones in the end.
	judge "several GPUs" sh "$(pwd)/test/lab/kfdsim/tests/gpus.sh" "$driver" "$tests"
	judge "500 processes killed at random moments" ./stress_test 500
	judge "$calls calls with malformed arguments" ./fuzz_test "$calls" $seed
	;;
real)
	judge "the real driver is there, on Linux $(uname -r)" load_real_driver
	judge "calls_test, answers of the real driver" ./calls_test
	;;
*)
	echo "Bail out! $which"
	exit 64
	;;
esac
echo "1..$number"
echo "# tests $number"
echo "# pass $((number - failed))"
echo "# fail $failed"
printf '# %s 0\n' cancelled skipped todo
[ "$failed" = 0 ]
