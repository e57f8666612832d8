#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR MIT
# Tests of several GPUs: loads the module with one set of parameters after the other.
# Runs in the guest as root.
# usage: gpus.sh MODULE FOLDER_OF_TESTS
set -u
module=$1
tests=$2
failed=0

fail() {
	echo "gpus.sh: FAIL $*"
	failed=1
}

# The last process of a test keeps the module for a moment.
unload() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ -d /sys/module/amdgpu ] || return 0
		rmmod amdgpu 2>/dev/null || sleep 0.2
	done
	fail "the module is still in use"
}

load() {
	unload
	insmod "$module" "$@"
}

# agents WANTED [COMMAND...]: how many GPUs rocminfo lists, started by COMMAND.
agents() {
	wanted=$1
	shift
	found=$("$@" rocminfo | grep -c 'Device Type: *GPU')
	[ "$found" = "$wanted" ] || fail "rocminfo lists $found GPUs, not $wanted"
}

# Each line: number of GPUs, whether the next one is reached, parameters.
while read -r gpus reach parameters; do
	echo "== $parameters"
	# shellcheck disable=SC2086
	load $parameters || { fail "insmod $parameters"; continue; }
	agents "$gpus"
	agents $((gpus - 1)) "$tests/hide_gpu" 128
	"$tests/gpus_bare" || fail "gpus_bare with $parameters"
	"$tests/gpus_criu" || fail "gpus_criu with $parameters"
	"$tests/gpus_rocr" "$reach" || fail "gpus_rocr with $parameters"
done <<LIST
2 apart gpus=2 vram_mb=64
2 peers gpus=2 vram_mb=64 p2p=1 numa_node=0,1
4 peers vram_mb=64,128,256,512 gfx_target_version=90010,90006,90402,100300 hive=7 \
numa_node=0,0,1,1 sdma_xgmi_engines=0,3,14,1
8 peers gpus=8 vram_mb=64 hive=1 gpu_id=11,22,33,44,55,66,77,65535 sdma_engines=16
LIST

# What a blob has of queues differs between versions of the GPU, and of the kernel.
for version in 90402 100300 110000 120000; do
	echo "== gfx_target_version=$version"
	load gfx_target_version=$version || { fail "insmod"; continue; }
	"$tests/criu_blob_test" || fail "criu_blob_test with gfx_target_version=$version"
	"$tests/criu_sizes_test" || fail "criu_sizes_test with gfx_target_version=$version"
	[ $version -lt 110000 ] || continue
	for kernel in 6.1 6.12.107 6.12.117 7.2 7.3; do
		echo $kernel >/sys/module/amdgpu/parameters/behaves_as
		"$tests/queue_criu_test" || fail "queue_criu_test with gfx_target_version=$version as $kernel"
	done
done

echo "== XGMI engines"
load sdma_engines=4 sdma_xgmi_engines=6 && "$tests/engine_test" || fail "engine_test with XGMI engines"

echo "== partitions"
load gpus=2 partitions=2 vram_mb=64 gfx_target_version=90402 num_xcc=1 || fail "insmod with partitions"
"$tests/gpus_partitions" || fail "gpus_partitions"

# Parameters that make no sense: nothing is loaded.
for bad in gpus=9 gpu_id=0 gpu_id=65536 gpu_id=7,7 "gpus=2 gpu_id=65535" vram_mb=1,2,3\ gpus=2 vram_mb=0 \
	compute_units=9\ num_xcc=2 sdma_engines=17 sdma_engines=4\ sdma_xgmi_engines=13 numa_node=4 num_xcc=0 \
	gpus=3\ partitions=2 partitions=0 gpus=4\ partitions=4\ sdma_engines=8; do
	# shellcheck disable=SC2086
	if load $bad 2>/dev/null; then fail "$bad was accepted"; fi
	[ ! -e /dev/dri/renderD128 ] && [ ! -e /dev/kfd ] || fail "$bad left a device"
done
load || fail "insmod without parameters"
exit $failed
