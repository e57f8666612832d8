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

# The container keeps a random word in its memory and prints it with every count: a fresh start would have another one.
# shellcheck disable=SC2016 # the container's shell expands it
program='read -r word </proc/sys/kernel/random/uuid; i=0; while :; do i=$((i + 1)); echo $word $i; sleep 0.1; done'

# last NAME: the last line the container printed, "WORD COUNT".
last() { podman logs "$1" | tail -n 1; }

# goes_on NAME LINE: waits until the container has counted beyond LINE's count, with LINE's word.
goes_on() {
	local now
	for _ in {1..20}; do
		now=$(last "$1")
		[ "${now% *}" != "${2% *}" ] || [ "${now#* }" -le "${2#* }" ] || return 0
		sleep 0.1
	done
	echo "failed: $1 had printed '$2' and is now at '$now'"
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
		timed podman --runtime "$runtime" run -d --name "$name" --network "$network" selftest sh -c "$program"
		sleep 1
		timed podman container checkpoint --compress none --export /tmp/c.tar "$name"
		line=$(last "$name")
		timed podman rm -f -t 0 "$name"
		timed podman container restore -i /tmp/c.tar
		goes_on "$name" "$line"
		timed podman container checkpoint "$name"
		line=$(last "$name")
		timed podman container restore "$name"
		goes_on "$name" "$line"
		podman rm -f -t 0 "$name" >/dev/null
	done
done
