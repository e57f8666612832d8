#!/bin/bash
# pair.sh [OPTIONS --] COMMAND...: boots two guests, host-a and host-b, with a network between them. It runs COMMAND in
# host-a, from where "ssh host-b" leads to the other one. Output and status are COMMAND's.
#
#   --b OPTION=VALUE     an option of lab.sh, without its dashes, for host-b alone; it may be given again
#   all others           options of lab.sh, for both guests. The folder of --share is in both
set -euo pipefail
. "$(dirname "$0")/lib.sh"

both=() only_b=()
while [ $# -gt 0 ]; do
	case $1 in
	--b) only_b+=("--${2%%=*}" "${2#*=}") && shift 2 ;;
	--systemd | --coarse-timers | --no-gpu) both+=("$1") && shift ;;
	--) shift && break ;;
	--*) both+=("$1" "$2") && shift 2 ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || die "usage: pair.sh [OPTIONS --] COMMAND..."

one_guest_at_a_time
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/kfd-checkpoint-pair.XXXXXX")
b=
cleanup() {
	[ -z "$b" ] || kill "$b" 2>/dev/null || true
	wait
	rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

guest() { "$LAB/lab.sh" --hostname "host-$1" --cable "$1:$folder/cable" "${@:2}"; }

guest b "${both[@]}" "${only_b[@]}" -- sh test/lab/guest-pair serve >"$folder/b.log" 2>&1 &
b=$!
status=0
guest a "${both[@]}" -- sh test/lab/guest-pair run "$@" || status=$?
# Where host-a could not say that it is over, host-b would serve for ever.
[ "$status" != 71 ] && [ "$status" != 124 ] || exit "$status"
b_status=0
wait "$b" || b_status=$?
b=
if [ "$b_status" != 0 ]; then
	say "host-b ended with status $b_status:"
	sed 's/^/    /' "$folder/b.log" >&2
	[ "$status" != 0 ] || status=$b_status
fi
exit "$status"
