# Shared by both sides of the demo. Sourced in the guest.

image=/repo/build/lab/programs/image.tar
log_dir=/var/log/kfd-checkpoint

# now_ms: milliseconds since the boot; busybox has no finer date.
now_ms() {
	IFS=' .' read -r seconds hundredths rest </proc/uptime
	echo "$seconds${hundredths}0"
}
step() { echo "   $*" >&2; }

# set_up: this product, as an operator installs it, and the container image.
set_up() {
	step "installing kfd-checkpoint, loading the container image"
	bash /repo/packaging/install.sh
	kfd-checkpoint configure >/dev/null
	podman load -q -i "$image" >/dev/null
}

# run_job NETWORK OPTION...: a container "job" whose gpu-worker has these options. Sets ready to what it says when it
# holds all.
run_job() {
	network=$1
	shift
	podman run -d --name job --network "$network" --device /dev/kfd --device /dev/dri/renderD128 \
		localhost/gpu-worker:latest gpu-worker "$@" --seed 42 --pending-barrier >/dev/null
	for _ in $(seq 600); do
		podman exec job cat /ctl/status 2>/dev/null | grep -q ^ready && break
		sleep 0.5
	done
	ready=$(podman exec job cat /ctl/status)
	step "$ready"
}

# account FILE KEY=VALUE...: what this side saw, as one JSON object of strings.
account() {
	file=$1
	shift
	{
		printf '{"hostname":"%s","boot_id":"%s"' "$(hostname)" "$(cat /proc/sys/kernel/random/boot_id)"
		for pair in "$@"; do printf ',"%s":"%s"' "${pair%%=*}" "${pair#*=}"; done
		echo '}'
	} >"$file"
}
