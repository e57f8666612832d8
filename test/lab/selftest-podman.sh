#!/bin/bash
# selftest-podman.sh: run inside the guest: a container without a GPU through checkpoint and restore, exported and in
# place, under both runtimes, without a network and on the default bridge. Prints what each step took (simulated).
set -euo pipefail

timed() {
	local start=$EPOCHREALTIME
	"$@" >/tmp/step.log 2>&1 || {
		echo "failed: $*"
		cat /tmp/step.log
		return 1
	}
	LC_ALL=C awk -v a="$start" -v b="$EPOCHREALTIME" -v c="$*" 'BEGIN { printf "%5.1f s  %.90s\n", b - a, c }'
}

# count NAME: the last number the container printed.
count() { podman logs "$1" | tail -n 1; }

# goes_on NAME NUMBER: waits until the container has counted beyond NUMBER.
goes_on() {
	for _ in {1..50}; do
		[ "$(count "$1")" -le "$2" ] || return 0
		sleep 0.1
	done
	echo "failed: $1 stands still at $2"
	return 1
}

timed criu check
mkdir -p /tmp/image/bin
cp /bin/busybox /tmp/image/bin/
for applet in sh sleep; do ln -sf busybox "/tmp/image/bin/$applet"; done
tar -C /tmp/image -cf /tmp/image.tar .
timed podman import -q /tmp/image.tar selftest

for runtime in crun runc; do
	for network in none bridge; do
		name=$runtime-$network
		echo "$runtime, --network $network"
		timed podman --runtime "$runtime" run -d --name "$name" --network "$network" selftest \
			sh -c 'i=0; while :; do i=$((i + 1)); echo $i; sleep 0.1; done'
		goes_on "$name" 3
		timed podman container checkpoint --compress none --export /tmp/c.tar "$name"
		last=$(count "$name")
		timed podman rm -f -t 0 "$name"
		timed podman container restore -i /tmp/c.tar
		goes_on "$name" "$last" # a fresh start would count from 1 and take longer than the wait
		timed podman container checkpoint "$name"
		last=$(count "$name")
		timed podman container restore "$name"
		goes_on "$name" "$last"
		podman rm -f -t 0 "$name" >/dev/null
	done
done
