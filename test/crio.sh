#!/bin/bash
# CRIO=DIR [KUBELET=DIR] npm run test:crio: pods of a real CRI-O in a guest, with crun and runc: saved, read, restored;
# with KUBELET also those of a kubelet of 1.30 or later. DIR has crio and pinns of 1.34 or later, which run on Debian
# 13, as the kubelet does. Nothing of them is in this repository. The last line has the totals. Logs are kept in
# build/test-logs.
set -uo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/tap.sh"
. "$(dirname "${BASH_SOURCE[0]}")/given.sh"

if ! [ -f "${CRIO-}/crio" ] || ! [ -f "${CRIO-}/pinns" ]; then
	echo "test:crio: CRIO=\"${CRIO-}\" names no folder with crio and pinns: build them from github.com/cri-o/cri-o" \
		"(make bin/crio bin/pinns), and name the folder" >&2
	exit 2
fi
# given_kubelet: without one its scenario is skipped.
given_kubelet() {
	rm -rf build/kubelet
	[ -z "${KUBELET-}" ] || put_in_place build/kubelet "$KUBELET/kubelet"
}

cd "$REPO" || exit 1
forget_logs
if suite set-up one set_up && suite installation one packaging/stage.sh &&
	suite crio-given one put_in_place build/crio "$CRIO/crio" "$CRIO/pinns" && suite kubelet-given one given_kubelet; then
	suite crio tap in_guest --timeout 3600 -- dist/test/crio/main.js
else
	not_run crio "there is nothing to install in the guest"
fi
totals
