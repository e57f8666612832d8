#!/bin/bash
# run.sh FOLDER [SUITE...]: runs others' suites, as build.sh put them into FOLDER, in a guest with GPUs; without SUITE
# all of them. Each test's verdict is compared with SUITE.expected: README.md. TAP on standard output with the summary
# test/tap.sh reads. After a test nothing may be left on the GPU, and the kernel must not have complained.
set -uo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$1
shift
[ $# -gt 0 ] || set -- tools amdgpu_test kfdtest rocrtst
number=0 passed=0 failed=0 skipped=0 complaints=0
declare -A want why ran

# The programs see this kernel's devices, and nothing of the guest's software.
enter() {
	local name
	for name in proc sys dev; do mount --rbind "/$name" "$root/$name" || return; done
	mount -t tmpfs none "$root/tmp"
}

# inside COMMAND...: runs it there for at most $limit seconds, with its output in /tmp/output. What it left running
# dies with it.
limit=100
inside() {
	local pid status
	setsid timeout -k 1 "$limit" /usr/sbin/chroot "$root" \
		/usr/bin/env -i HOME=/tmp TERM=xterm LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
		PATH=/usr/local/bin:/usr/bin:/bin "$@" >/tmp/output 2>&1 &
	pid=$!
	wait "$pid"
	status=$?
	kill -KILL -- "-$pid" 2>/dev/null
	return "$status"
}

# left: living objects of a GPU that nothing should use any more. A killed process is gone a moment later. Bytes are not
# looked at: an eviction moves the driver's own buffers, too.
left() {
	local rest i
	for i in {1..50}; do
		rest=$(awk '$1 ~ /^(processes|bos|queues|events|vms|contexts|userptr|maps)$/ && $2 != 0' \
			/sys/kernel/debug/simgpu/counters)
		[ -n "$rest" ] || return 0
		sleep 0.1
	done
	echo "$rest"
}

complained() {
	dmesg | grep -cE 'BUG:|WARNING:|Oops|kernel BUG|general protection|blocked for more than|refcount_t:|UBSAN:'
}

# read_expected FILE: want[NAME]: pass, fail, skip or leave, why[NAME]: the sentence behind it.
read_expected() {
	local word rest name
	want=() why=() ran=()
	while read -r word rest; do
		case $word in
		pass | fail | skip | leave)
			name=${rest%%  # *}
			want[$name]=$word why[$name]=${rest:${#name}+4}
			;;
		esac
	done <"$1"
}

# expected NAME: sets $expects and $reason. Names of what is left out may be patterns.
expected() {
	local pattern
	expects=${want[$1]-} reason=${why[$1]-}
	[ -z "$expects" ] || return 0
	for pattern in "${!want[@]}"; do
		# shellcheck disable=SC2053 # a pattern
		if [ "${want[$pattern]}" = leave ] && [[ $1 == $pattern ]]; then
			expects=leave reason=${why[$pattern]} ran[$pattern]=1
		fi
	done
}

# not_ok TITLE ACCOUNT
not_ok() {
	failed=$((failed + 1))
	printf 'not ok %d - %s\n  ---\n%s\n  ...\n' "$number" "$1" "$2"
}

# judge SUITE NAME COMMAND...: COMMAND sets $verdict and leaves its output in /tmp/output.
judge() {
	local suite=$1 name=$2 start=$EPOCHREALTIME rest now verdict expects reason title
	shift 2
	ran[$name]=1
	expected "$name"
	[ "$expects" != leave ] || return 0
	number=$((number + 1)) verdict=fail
	: >/tmp/output
	"$@"
	rest=$(left)
	now=$(complained)
	title="$suite: $name ($(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }') s)"
	if [ "$verdict" = "$expects" ] && [ -z "$rest" ] && [ "$now" = "$complaints" ]; then
		case $verdict in
		pass) passed=$((passed + 1)) && echo "ok $number - $title" ;;
		fail) passed=$((passed + 1)) && echo "ok $number - $title: fails, as expected: $reason" ;;
		skip) skipped=$((skipped + 1)) && echo "ok $number - $title # SKIP $reason" ;;
		esac
	else
		not_ok "$title" "$(
			echo "  expected: ${expects:-nothing, it is not in $suite.expected}"
			echo "  found: $verdict $name"
			[ -z "$rest" ] || echo "  left on the GPU:" $rest
			[ "$now" = "$complaints" ] || dmesg | tail -n 40 | sed 's/^/  kernel: /'
			tail -n 60 /tmp/output | tr -d '\r' | sed 's/^/  /'
		)"
	fi
	complaints=$now
}

# all_ran SUITE: what is in the list, and the suite does not have.
all_ran() {
	local name
	for name in "${!want[@]}"; do
		[ -z "${ran[$name]-}" ] || continue
		number=$((number + 1))
		not_ok "$1: $name is in $1.expected, and the suite has no such test" "  expected: ${want[$name]} $name"
	done
	for name in "${!want[@]}"; do
		[ "${want[$name]}" != leave ] || echo "# $1: not run: $name: ${why[$name]}"
	done | LC_ALL=C sort
}

# Programs of googletest: one process a test.
gtest_run() {
	if inside "$1" --gtest_filter="$2" && grep -q '^\[  PASSED  \] 1 test\.' /tmp/output; then
		verdict=pass
		grep -aqiE 'skipping (the )?test|skip(ping)? test|test is skipped|\[  SKIPPED \]' /tmp/output && verdict=skip
	fi
}
gtest_suite() {
	local test tests
	inside "$1" --gtest_list_tests
	mapfile -t tests < <(awk '/^[A-Za-z_]+[^ ]*\.( |$)/ { suite = $1 } /^  [A-Za-z]/ { print suite $1 }' /tmp/output)
	for test in "${tests[@]}"; do judge "$1" "$test" gtest_run "$1" "$test"; done
}
suite_kfdtest() { gtest_suite kfdtest; }
suite_rocrtst() { gtest_suite rocrtst; }

# libdrm's, of CUnit: suites and tests have numbers and names. What libdrm disables on this GPU is skipped.
drm_run() {
	if [ "$3" = DISABLED ]; then
		verdict=skip
	elif inside amdgpu_test -s "$1" -t "$2" && grep -qE '\.\.\.passed|^passed' /tmp/output; then
		verdict=pass
		grep -q 'SKIP' /tmp/output && verdict=skip
	fi
}
suite_amdgpu_test() {
	local kind id state name suite_id suite
	inside amdgpu_test -l
	grep -E '^ ?(Suite|Test):' /tmp/output >/tmp/tests
	while read -r kind id state name; do
		id=${id%:} state=${state%:}
		if [ "$kind" = Suite: ]; then
			suite_id=$id suite=$name
			[ "$state" = ENABLED ] || judge amdgpu_test "$name" drm_run "$id" 0 "$state"
		else
			judge amdgpu_test "$suite: $name" drm_run "$suite_id" "$id" "$state"
		fi
	done </tmp/tests
}

# Tools have no tests of their own: what they say is compared with what the driver says in sysfs.
gpu=$(find /sys/bus/pci/drivers/amdgpu/ -name '????:??:??.?' | LC_ALL=C sort | head -n 1)
slot=$(basename "$gpu")
says() { grep -aqiE -e "$1" /tmp/output || { echo "run.sh: no '$1'" >>/tmp/output && false; }; }
tool() {
	local check=$1
	shift
	inside "$@" && "$check" && verdict=pass
}
rocminfo_agents() {
	local nodes
	nodes=$(cat /sys/class/kfd/kfd/topology/nodes/*/gpu_id | grep -cv '^0$')
	[ "$(grep -c 'Device Type: *GPU' /tmp/output)" = "$nodes" ]
}
rocminfo_chip() { says 'Name: *gfx90a' && says "Chip ID: *$(($(cat "$gpu/device")))"; }
rocminfo_vram() { says "Size: *$(($(cat "$gpu/mem_info_vram_total") / 1024))\("; }
pci_ids() { says "vendor_id *$(sed s/0x// "$gpu/vendor")" && says "device_id *$(sed s/0x// "$gpu/device")"; }
device_id() { says "$(cat "$gpu/device")"; }
slot() { says "$slot"; }
vram_bytes() { says "$(cat "$gpu/mem_info_vram_total")"; }
vram_mebibytes() { says "\b$(($(cat "$gpu/mem_info_vram_total") >> 20))\b"; }
device_name() { says '"device_name": "AMD'; }
vram_used() { says 'vram [0-9.]+% [0-9.]+mb'; }
suite_tools() {
	judge tools "rocminfo lists as many GPUs as the topology has" tool rocminfo_agents rocminfo
	judge tools "rocminfo names the chip" tool rocminfo_chip rocminfo
	judge tools "rocminfo tells the size of VRAM" tool rocminfo_vram rocminfo
	judge tools "drmdevice tells vendor and device" tool pci_ids drmdevice
	judge tools "rocm-smi tells the device" tool device_id python3 /usr/bin/rocm-smi --showid --json
	judge tools "rocm-smi tells the PCI slot" tool slot python3 /usr/bin/rocm-smi --showbus --json
	judge tools "rocm-smi tells the size of VRAM" tool vram_bytes python3 /usr/bin/rocm-smi --showmeminfo vram --json
	judge tools "rocm-smi lists processes" tool true python3 /usr/bin/rocm-smi --showpids
	judge tools "amd-smi tells the PCI slot" tool slot python3 /usr/bin/amd-smi list
	judge tools "amd-smi tells the size of VRAM" tool vram_mebibytes python3 /usr/bin/amd-smi static --vram --json
	judge tools "nvtop names the GPU" tool device_name nvtop -s
	judge tools "radeontop tells the use of VRAM" tool vram_used radeontop -l 1 -d -
}

echo "TAP version 13"
enter || echo "Bail out! $root cannot be entered"
for suite; do
	read_expected "$here/$suite.expected"
	"suite_$suite"
	all_ran "$suite"
done
echo "1..$number"
echo "# tests $number"
echo "# pass $passed"
echo "# fail $failed"
echo "# cancelled 0"
echo "# skipped $skipped"
echo "# todo 0"
[ "$failed" = 0 ]
