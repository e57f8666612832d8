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
a= b=
cleanup() {
	local pid
	for pid in $a $b; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$folder"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# guest END OPTION...: becomes lab.sh, which ends with this script, however that dies.
guest() { exec setpriv --pdeathsig TERM "$LAB/lab.sh" --hostname "host-$1" --cable "$1:$folder/cable" "${@:2}"; }

guest b "${both[@]}" "${only_b[@]}" -- sh test/lab/guest-pair serve >"$folder/b.log" 2>&1 &
b=$!
guest a "${both[@]}" -- sh test/lab/guest-pair run "$@" &
a=$!
# Unlike a command, a wait is interrupted by a signal.
status=0
wait "$a" || status=$?
a=
# Where host-a could not say that it is over, host-b would serve for ever.
for _ in {1..300}; do
	kill -0 "$b" 2>/dev/null || break
	sleep 0.1
done
kill "$b" 2>/dev/null && say "host-b has not heard that it is over" || true
b_status=0
wait "$b" || b_status=$?
b=
if [ "$b_status" != 0 ]; then
	say "host-b ended with status $b_status:"
	sed 's/^/    /' "$folder/b.log" >&2
	[ "$status" != 0 ] || status=$b_status
fi
exit "$status"
