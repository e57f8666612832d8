#!/bin/bash
# KUBELET=DIR npm run test:kubelet [-- [--newest] [--systemd] PART...]: pods of a real kubelet in a guest: checkpoint,
# time-out, interrupted, cluster, other-node, daemon-set, as-image. DIR has a kubelet of 1.30 or later, for the part
# cluster also kube-apiserver and etcd, for daemon-set also kube-scheduler and kube-controller-manager; all run on
# Debian 13. KUBELET, KUBE_APISERVER and ETCD may name files instead. Nothing of them is in this repository. The last
# line has the totals. Logs are kept in build/test-logs.
# --systemd: systemd is the guest's process 1, makes the cgroups of pods, and runs containerd in the part daemon-set.
# --newest: the guest has the newest containerd, runc and CRIU of Debian sid and experimental.
# CONTAINERD=DIR: with containerd, ctr and containerd-shim-runc-v2 of this folder, which run on Debian 13.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/given.sh"

newest=() guest=()
while [ $# -gt 0 ]; do
	case $1 in
	--newest) newest=(--newest) ;;
	--systemd) guest=(--systemd) ;;
	*) break ;;
	esac
	shift
done

# given NAME FILE: prints the program NAME that the user has given, which FILE or KUBELET's folder has.
given() {
	if [ -n "$2" ] && [ -f "$2" ]; then
		realpath "$2"
	elif [ -f "${KUBELET-}/$1" ]; then
		realpath "$KUBELET/$1"
	fi
}
kubelet=$(given kubelet "${KUBELET-}")
if [ -z "$kubelet" ]; then
	echo "test:kubelet: KUBELET=\"${KUBELET-}\" names neither a kubelet nor a folder with one: download it from" \
		"https://dl.k8s.io/vVERSION/bin/linux/amd64/kubelet, or build it (make WHAT=cmd/kubelet), and name it" >&2
	exit 2
fi

# given_kubelet: copies what was given to where the guest sees it.
given_kubelet() {
	local folder=build/kubelet
	rm -rf "$folder" && mkdir -p "$folder" && cp "$kubelet" "$folder/kubelet" || return 1
	local pair file
	for pair in kube-apiserver:"${KUBE_APISERVER-}" etcd:"${ETCD-}" kube-scheduler: kube-controller-manager:; do
		file=$(given "${pair%%:*}" "${pair#*:}")
		[ -z "$file" ] || cp "$file" "$folder/${pair%%:*}" || return 1
	done
	chmod +x "$folder"/*
}

# daemon_image: what the image of the DaemonSet is made of, where there is a cluster that can run it.
daemon_image() {
	[ ! -f build/kubelet/kube-controller-manager ] || { packaging/package.sh && deploy/kubernetes/context.sh; }
}

cd "$REPO" || exit 1
forget_logs
words=()
[ -z "${CONTAINERD-}" ] || words=(--given-containerd)
if suite set-up one set_up && suite installation one packaging/stage.sh && suite kubelet-given one given_kubelet &&
	suite daemon-image one daemon_image &&
	{ [ ${#words[@]} = 0 ] || suite containerd-given one given_containerd; } &&
	{ [ ${#newest[@]} = 0 ] || suite newest-guest one newest_guest; }; then
	suite kubelet tap in_guest "${newest[@]}" "${guest[@]}" --timeout 5400 -- dist/test/kubelet/main.js "${words[@]}" "$@"
else
	not_run kubelet "there is nothing to install in the guest"
fi
totals
