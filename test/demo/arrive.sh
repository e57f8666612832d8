#!/bin/sh
# The demo's second machine: the container comes back from the archive and proves what it holds.
set -eu
. /repo/test/demo/steps.sh

set_up
step "kfd-checkpoint verify"
verified=$(kfd-checkpoint verify /share/job.tar >/dev/null && echo ok || echo damaged)
step "podman container restore --import"
began=$(now_ms)
podman container restore --import /share/job.tar >/dev/null
ended=$(now_ms)
step "restore took $((ended - began)) ms"
cp "$(ls -t $log_dir/*-restore-*.log | head -n 1)" /share/restore.log

step "the pending barrier is released, all of VRAM is compared"
answer=$(podman exec job gpu-ctl verify || true)
step "$answer"
podman exec job gpu-ctl exit >/dev/null || true
code=$(podman wait job)
step "the program ended with status $code"
account /share/arrive.json "archive_check=$verified" "answer=$answer" "exit_code=$code" \
	"restore_ms=$((ended - began))" "archive_bytes=$(stat -c %s /share/job.tar)"
