#!/bin/sh
# The demo's first machine: a GPU container is run, given work, and saved into an archive.
set -eu
. /repo/test/demo/steps.sh

set_up
step "podman run --device /dev/kfd --device /dev/dri/renderD128: ROCr fills 128 MiB of VRAM"
run_job bridge --vram-mib 128 --host-mib 32

step "podman container checkpoint --export"
began=$(now_ms)
podman container checkpoint --compress none --export /share/job.tar job >/dev/null
ended=$(now_ms)
step "checkpoint took $((ended - began)) ms"
cp "$(ls -t $log_dir/*-dump-*.log | head -n 1)" /share/dump.log
account /share/leave.json "ready=$ready" "checkpoint_ms=$((ended - began))"
