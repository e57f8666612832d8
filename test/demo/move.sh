#!/bin/sh
# The demo of a migration, in host-a: a container with a GPU moves to host-b while it computes.
set -eu
. /repo/test/demo/steps.sh

set_up
step "the same on host-b, by ssh; it has no container image"
ssh host-b 'bash /repo/packaging/install.sh && kfd-checkpoint configure >/dev/null'
step "podman run --device /dev/kfd --device /dev/dri/renderD128: ROCr fills 128 MiB of VRAM"
run_job none --vram-mib 96 --changing-mib 32 --changes-mib 4 --host-mib 32 --step-ms 500

step "kfd-checkpoint migrate --with-image job host-b"
kfd-checkpoint migrate --with-image --format json job host-b >/share/migrate.json
here=$(podman container exists job && echo here || echo gone)
there=$(ssh host-b "podman inspect -f '{{.State.Status}}' job")
step "job is $here on host-a, $there on host-b; all of VRAM is compared there"
answer=$(ssh host-b podman exec job gpu-ctl verify || true)
step "$answer"
gpus="$(cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id) $(ssh host-b cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id)"
other_boot=$(ssh host-b cat /proc/sys/kernel/random/boot_id)
account /share/move.json "ready=$ready" "answer=$answer" "here=$here" "there=$there" "gpu_ids=$gpus" \
	"other_boot_id=$other_boot"
