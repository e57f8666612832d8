#!/bin/bash
# selftest.sh: whether the lab keeps its promises: argv, output, status, shares, complaints of the kernel, hangs,
# timeouts, and that podman and CRIU work in the guest without any GPU. Prints one line a check; status 1 when one
# fails.
set -uo pipefail
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/kfd-checkpoint-selftest.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/share"
failures=0

# guest [OPTION...] -- COMMAND...: its status in $status, its output in $work/out and $work/err.
guest() {
	status=0
	"$LAB/lab.sh" "$@" >"$work/out" 2>"$work/err" || status=$?
}

# check TEXT COMMAND...: one promise.
check() {
	local text=$1
	shift
	if "$@"; then
		echo "ok    $text"
	else
		echo "FAIL  $text (status $status)"
		tail -n 15 "$work/err" | sed 's/^/      /'
		failures=$((failures + 1))
	fi
}
is() { [ "$1" = "$2" ]; }
contains() { grep -qE -- "$2" "$1"; }

# One boot for everything a healthy guest must do. The words try what a shell in between would spoil.
words=('two words' "a'quote" '"double" $HOME `x` \' $'new\nline' '' '*' '--')
printf '%s\0' "${words[@]}" >"$work/expected"
head -c 1000000 /dev/urandom >"$work/share/noise"
guest --no-gpu --hostname kfdlab --memory 3000 --share "$work/share" -- bash -c '
	printf "%s\0" "$@" >/share/argv
	{ hostname; pwd; uname -r; awk "/MemTotal/ { print int(\$2 / 1024) }" /proc/meminfo; } >/share/facts
	touch /repo/x 2>/dev/null && echo writable >/share/repo
	md5sum <package.json >/share/package
	echo to-stderr >/dev/stderr
	cat /share/noise
	exit 37' argv0 "${words[@]}"
check "the command's status comes back" is "$status" 37
check "argv arrives unchanged" cmp -s "$work/expected" "$work/share/argv"
check "1 MB of random bytes comes out unchanged" cmp -s "$work/share/noise" "$work/out"
check "standard error comes out separately" contains "$work/err" '^to-stderr$'
mapfile -t facts <"$work/share/facts"
check "the host name is the one asked for" is "${facts[0]-}" kfdlab
check "the command runs in the repository" is "${facts[1]-}" /repo
check "the memory is the one asked for" is "$((${facts[3]:-0} > 2600 && ${facts[3]:-0} <= 3000))" 1
check "the repository is the host's" is "$(cat "$work/share/package")" "$(md5sum <"$REPO/package.json")"
check "the repository is read-only" is "$(cat "$work/share/repo" 2>/dev/null)" ""

guest --no-gpu --icount -- bash -c '
	for i in 1 2 3; do
		began=$EPOCHREALTIME
		for ((n = 0; n < 50000; n++)); do :; done
		echo $((${EPOCHREALTIME/./} - ${began/./}))
	done'
check "counted instructions take the same time again" awk '
	{ least = NR == 1 || $1 < least ? $1 : least; most = $1 > most ? $1 : most }
	END { exit !(NR == 3 && most < 1.05 * least) }' "$work/out"

guest --no-gpu --timeout 400 -- test/lab/selftest-podman.sh
check "podman, crun, runc and CRIU checkpoint and restore without a GPU" is "$status" 0
sed 's/^/      /' "$work/out"

guest --no-gpu -- sh -c 'for line in "WARNING: made up for the selftest" "what came after it"; do
	echo "$line" >/dev/kmsg
done'
check "a complaint of the kernel fails a run that succeeded" is "$status" 70
check "and is shown" contains "$work/err" 'WARNING: made up'
check "with what the console has after it" contains "$work/err" '^    .*what came after it'

# still PROGRAM...: while these, of a guest with both processors busy, stand still for 30 s. The command succeeds: only
# what the kernel complains of can make it fail.
still() {
	local lab programs=()
	setsid "$LAB/lab.sh" --no-gpu -- sh -c 'timeout -s KILL 25 sh -c "while :; do :; done & while :; do :; done"; true' \
		>"$work/out" 2>"$work/err" &
	lab=$!
	until contains "$work/err" 'guest ready' || ! kill -0 "$lab"; do sleep 1; done
	sleep 5
	mapfile -t programs < <(pgrep -g "$lab" "$@")
	trap "kill -CONT ${programs[*]}; kill $lab; rm -rf '$work'" EXIT
	kill -STOP "${programs[@]}"
	sleep 30
	kill -CONT "${programs[@]}"
	status=0
	wait "$lab" || status=$?
	trap 'rm -rf "$work"' EXIT
}
still -f .
check "a guest that stands still with the machine is not blamed" is "$status" 0
check "and it is said" contains "$work/err" 'not counted: this machine stood still for [23][0-9] s'
still -f qemu-system
check "one that stands still alone is" is "$status" 70

guest --no-gpu -- sh -c 'echo c >/proc/sysrq-trigger; sleep 60'
check "a guest that dies is reported" is "$status" 71
check "with the end of its console" contains "$work/err" 'sysrq triggered crash'

guest --no-gpu --timeout 2 -- sleep 600
check "a command that takes too long is ended" is "$status" 124

printf '#!/bin/busybox sh\nmount -t devtmpfs dev /dev\necho hanging here >/dev/kmsg\nsleep 600\n' >"$work/hang"
guest --no-gpu --boot-timeout 20 --init "$work/hang" -- true
check "a boot that hangs is reported" is "$status" 71
check "with the end of its console" contains "$work/err" 'hanging here'

mkdir "$work/bin"
printf '#!/bin/sh\necho no such machine >&2\nexit 1\n' >"$work/bin/setpriv" # what starts QEMU
chmod +x "$work/bin/setpriv"
PATH=$work/bin:$PATH guest --no-gpu -- true
check "a QEMU that does not start is reported" is "$status" 71
check "with what it said" contains "$work/err" 'no such machine'

guest --no-gpu --memory none -- true
check "wrong usage is refused" is "$status" 64
guest --no-gpu -- no-such-command
check "a missing command is the shell's 127" is "$status" 127

guest --no-gpu -- cat /proc/timer_list
check "timers have the kernel's own resolution" contains "$work/out" '^ *\.resolution: +1 nsecs$'
guest --no-gpu --coarse-timers -- cat /proc/timer_list
check "or that of its tick" contains "$work/out" '^ *\.resolution: +4000000 nsecs$'

guest -- sh -c 'ls -l /dev/kfd /dev/dri/renderD128 && lsmod | grep -w amdgpu'
check "the simulated GPU is there, for everyone" contains "$work/out" '^crw-rw-rw-.*/dev/kfd$'
check "under the name of the real driver" is "$status" 0

[ "$failures" = 0 ] || echo "$failures checks failed"
[ "$failures" = 0 ]
