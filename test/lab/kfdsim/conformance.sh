#!/bin/bash
# conformance.sh simulated|real|compare DRIVER TESTS [CALLS [SEED]]: runs in a guest. simulated judges the simulated
# GPU by programs;
# real makes the table of calls, whose answers the simulated driver is to give too, of the real driver without a GPU;
# compare runs
# programs on the simulated driver and then on the real one over simulated hardware, and shows both results side by
# side.
#   DRIVER the simulated GPU's module; real: a folder with the real driver's modules, in load order; compare: the
# guest's load-gpu
#   TESTS  folder with the built tests
#   CALLS  of the fuzzer (default 100000)     SEED  of the fuzzer (default: another one each time, printed)
# TAP on standard output with the summary test/tap.sh reads. After each program nothing may be left on the simulated
# GPU,
# and the kernel must not have complained.
set -uo pipefail

which=$1 driver=$(realpath "$2") tests=$(realpath "$3") calls=${4:-100000} seed=${5:-}
counters=/sys/kernel/debug/simgpu/counters
number=0 failed=0 complaints=0
rest=
last=/tmp/conformance.out # what the last program wrote
# Checks that are known to fail on one of the drivers: see there.
export KFDSIM_DIFFERENCES=$PWD/test/lab/kfdsim/differences.list

# left: the living objects, as "name number", of a GPU that nothing should use any more; the totals follow them in the
# file.
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

complaints_of_kernels='BUG:|WARNING:|Oops|kernel BUG|general protection|blocked for more than'
complaints_of_kernels+='|refcount_t:|UBSAN:|unreferenced object'
complained() { dmesg | grep -cE "$complaints_of_kernels"; }

# judge NAME COMMAND...: one test; $rest is what it left on the GPU. Its output is shown when it fails; lines
# "simulated: ..." and the fuzzer's seed always.
judge() {
	local name=$1 out status=0 start=$EPOCHREALTIME now word=ok
	shift
	out=$(cd "$tests" && "$@" 2>&1) || status=$?
	echo "$out" >"$last"
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

# as_kernel KERNEL COMMAND...: tells the simulated driver which it is to be, until COMMAND has ended.
as_kernel() {
	local parameter=/sys/module/amdgpu/parameters/behaves_as status=0
	echo "$1" >$parameter || return
	"${@:2}" || status=$?
	echo 6.12.117 >$parameter
	return $status
}

load_real_driver() {
	local module
	for module in "$driver"/*.ko; do
		insmod "$module" 2>&1 | grep -v 'File exists'
	done
	[ -c /dev/kfd ]
}

# numbers FILE: "checks failed differences skipped" of all that a program and its parts have reported.
numbers() {
	sed -nE 's/^.*: ([0-9]+) checks, ([0-9]+) failed, ([0-9]+) differences, ([0-9]+) skipped$/\1 \2 \3 \4/p' "$1" |
		awk '{ a += $1; b += $2; c += $3; d += $4 } END { print a + 0, b + 0, c + 0, d + 0 }'
}

# Those that use ioctls, the ones that say most about both drivers first.
compared=(kfd_test event_test procfs_test life_test share_test criu_test queue_test queue_criu_test objects_test
	fault_test drm_test sync_test handle_test engine_test criu_table_test criu_blob_test criu_sizes_test
	criu_middle_test kfd_handles_test bo_list_test ctx_test ring_test va_test gem_flags_test acquire_test limits_test
	svm_test svm_reach_test calls_test rocr_test rocr_queue_test rocr_dispatch_test rocr_share_test)

# run_all DRIVER: every compared program; its output is kept, its numbers go into $results as "driver program".
declare -A results
run_all() {
	local program start=$complaints
	judge "$1: the driver is there, on Linux $(uname -r)" sh "$driver" "$1"
	for program in "${compared[@]}" "stress_test 20"; do
		# shellcheck disable=SC2086 # a program and its argument
		judge "$1: $program" timeout 60 "$tests/"$program
		program=${program%% *}
		mv "$last" "/tmp/$1.$program"
		# What one has left behind is not held against the next.
		[ -z "$rest" ] || sh "$driver" "$1" || echo "# the $1 driver could not be loaded anew"
		results["$1 $program"]=$(numbers "/tmp/$1.$program")
	done
	judge "$1: rocminfo" rocminfo_sees_gpus
}

# Every entry of the list is needed, or it is out of date.
differences_are_needed() {
	local entry status=0
	while IFS= read -r entry; do
		if ! grep -qxF -e "DIFFERS ${entry% :: *}" /tmp/kfdsim.* /tmp/real.*; then
			echo "no check that failed is this one: ${entry% :: *}"
			status=1
		fi
	done < <(grep -v '^#' "$KFDSIM_DIFFERENCES")
	return $status
}

# side_by_side: a line for each program, then what was skipped and what is known to differ.
side_by_side() {
	local program kfdsim real
	printf '# | %-18s | %-31s | %-31s |\n' "" kfdsim real
	printf '# | %-18s | %-31s | %-31s |\n' program "checks failed differ skipped" "checks failed differ skipped"
	for program in "${compared[@]}" stress_test; do
		read -ra kfdsim <<<"${results["kfdsim $program"]}"
		read -ra real <<<"${results["real $program"]}"
		printf '# | %-18s | %6d %6d %6d %7d    | %6d %6d %6d %7d    |\n' "$program" "${kfdsim[@]}" "${real[@]}"
	done
	for program in "${compared[@]}" stress_test; do
		sed -n "s/^SKIP /# | $program, not asked of the real driver: /p" "/tmp/real.$program" | sort -u
	done
	grep -v '^#' "$KFDSIM_DIFFERENCES" | sed 's/^/# | differs: /'
}

echo "TAP version 13"
case $which in
compare)
	run_all kfdsim
	run_all real
	judge "every known difference is one" differences_are_needed
	side_by_side
	;;
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
	# Each kernel but the default, which was judged already, by what depends on it.
	for kernel in 6.1 6.12.107 7.2 7.3; do
		for test in criu_test queue_criu_test queue_test procfs_test rocr_test rocr_queue_test rocr_dispatch_test; do
			judge "as $kernel: $test" as_kernel "$kernel" "./$test"
		done
	done
	# Loads the module with one set of parameters after the other, with the usual ones in the end.
	judge "several GPUs" sh "$(pwd)/test/lab/kfdsim/tests/gpus/gpus.sh" "$driver" "$tests"
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
