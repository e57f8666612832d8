#!/bin/bash
# npm run lab -- [OPTIONS --] COMMAND...: boots a guest, runs COMMAND in it, gives its output and its status.
#
#   --hostname NAME      the guest's host name (default: lab)
#   --memory MB          the guest's memory in MiB (default: 12288); VRAM comes on top
#   --cpus N             processors, each emulated by a thread of its own (default: 2)
#   --share DIR          folder of the host mounted read-write at /share (default: an empty one, removed afterwards)
#   --timeout S          ends the guest when COMMAND takes longer (default: 1800)
#   --boot-timeout S     ends the guest when it is not ready by then (default: 90)
#   --driver NAME        real: Debian's amdgpu and amdkfd over simulated hardware; kfdsim: a simulated driver
# (default: real)
#   --modules "P=V ..."  parameters of the simulated GPU, e.g. "vram_mb=2048"
#   --kernel "WORDS"     more arguments of the kernel, e.g. "slab_debug=FZPU"
#   --systemd            systemd is process 1, and podman's cgroups are its
#   --no-gpu             a guest without the simulated GPU
#   --coarse-timers      waits of the guest end with a tick of 4 ms: less work where many are short, but no place to
# measure
#   --icount             the guest's clock counts instructions, a nanosecond each, and nothing else the host does; one
# processor
#   --next-kernel        a guest with the kernel that follows (npm run test:kfdsim makes its image); its GPU is of the
# real driver alone
#   --newest             a guest with Debian's newest podman, runtimes and CRIU (npm test -- --newest makes its image)
#   --cable END:FILE     an end, a or b, of a network between two guests of pair.sh; FILE is a Unix socket
#   --rate MBIT          what the guest sends into it, in 1,000,000 bits a second (default: no limit)
#   --init FILE          runs FILE as the guest's process 1 instead of guest-init (the lab's own test does)
#
# The repository is at /repo, read-only, and is COMMAND's working directory. Status: COMMAND's; 64 wrong usage;
# 70 the guest's kernel complained though COMMAND succeeded; 71 the guest did not boot, or died; 124 timeout.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$LAB/qemu.sh"
. "$LAB/parts.sh"

usage() {
	sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
	exit 64
}

hostname=lab memory=12288 cpus=2 share= timeout=1800 boot_timeout=90 gpu= KERNEL_ARGUMENTS= driver=real
with_gpu=1 systemd= coarse_timers= icount= next_kernel= newest= init=$LAB/guest-init cable= rate=0
while [ $# -gt 0 ]; do
	case $1 in
	--hostname | --memory | --cpus | --share | --timeout | --boot-timeout | --driver | --modules | --kernel | --init | \
		--cable | --rate)
		[ $# -ge 2 ] || usage
		case $1 in
		--hostname) hostname=$2 ;;
		--memory) memory=$2 ;;
		--cpus) cpus=$2 ;;
		--share) share=$2 ;;
		--timeout) timeout=$2 ;;
		--boot-timeout) boot_timeout=$2 ;;
		--driver) driver=$2 ;;
		--modules) gpu=$2 ;;
		--kernel) KERNEL_ARGUMENTS=$2 ;;
		--init) init=$2 ;;
		--cable) cable=$2 ;;
		--rate) rate=$2 ;;
		esac
		shift 2
		;;
	--systemd) systemd=1 && shift ;;
	--no-gpu) with_gpu= && shift ;;
	--coarse-timers) coarse_timers=1 && shift ;;
	--icount) icount=1 cpus=1 && shift ;;
	--next-kernel) next_kernel=1 && shift ;;
	--newest) newest=1 && shift ;;
	--) shift && break ;;
	-*) usage ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || usage
for number in "$memory" "$cpus" "$timeout" "$boot_timeout" "$rate"; do
	[[ $number =~ ^[0-9]+$ ]] || usage
done
[[ $cpus =~ ^[1-9]$ && $cable =~ ^([ab]:.+)?$ ]] || usage
[ -z "$icount" ] || [ "$cpus" = 1 ] || usage
gpu_memory=0
case $driver in
real) [ -z "$with_gpu" ] || gpu_memory=4352 ;; # MiB
kfdsim) [ -z "$with_gpu" ] || [ -z "$next_kernel" ] || usage ;;
*) usage ;;
esac
[ -z "$share" ] || [ -d "$share" ] || die "--share $share: no such folder"

[ -z "$newest" ] || [ -z "$next_kernel" ] || usage
image=$(image_dir)
[ -z "$next_kernel" ] || image=$(next_image_dir)
[ -z "$newest" ] || image=$(newest_image_dir)
[ -d "$image" ] || die "the guest's image is missing or its recipe changed: run npm run setup"
[ -d "$(emulator_dir)" ] || die "the emulator is missing or its recipe changed: run npm run setup"
modules=$driver${next_kernel:+-next}
[ -z "$with_gpu" ] || [ -f "$OUT/$modules/amdgpu.ko" ] ||
	die "build/lab/$modules/amdgpu.ko is missing: run npm run setup, or use --no-gpu"

# One guest at a time: two would take each other's processor time and turn every timeout into a guess. pair.sh takes
# the lock for both of its own.
[ -n "$cable" ] || one_guest_at_a_time

run=$(mktemp -d "${TMPDIR:-/var/tmp}/kfd-checkpoint-guest.XXXXXX")
QEMU_PID=
# Its pipes' readers end with it, and have then passed on all there was.
stop_qemu() {
	[ -n "$QEMU_PID" ] || return 0
	kill -KILL "$QEMU_PID" || true
	wait
	QEMU_PID=
} 2>/dev/null
cleanup() {
	stop_qemu
	rm -rf "$run"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# shell_quote WORD...: for a plain sh.
shell_quote() {
	local word
	for word in "$@"; do printf " '%s'" "${word//\'/\'\\\'\'}"; done
}

mkdir "$run/lab" "$run/share"
printf 'exec setsid%s\n' "$(shell_quote "$@")" >"$run/lab/command"
echo "$hostname" >"$run/lab/hostname"
[ -z "$with_gpu" ] || echo "$driver $gpu" >"$run/lab/gpu"
[ -z "$systemd" ] || touch "$run/lab/systemd"
[ -z "$cable" ] || echo "${cable%%:*} $rate" >"$run/lab/cable"
mkfifo "$run/out" "$run/err" "$run/events"
write_initrd "$image" "$run" "$init"

started=$EPOCHREALTIME
start_qemu "$image" "$run" "$memory" "$cpus" "$(realpath "${share:-$run/share}")" \
	"$icount" "$coarse_timers" "$gpu_memory" "$cable"
cat "$run/out" 9>&- &
cat "$run/err" >&2 9>&- &

# give_up STATUS TEXT: the guest is of no more use.
give_up() {
	stop_qemu
	say "$2; the end of its console:"
	{
		cat "$run/qemu.log"
		[ ! -e "$run/console" ] || tail -n 60 "$run/console"
	} | tr -d '\r' | sed 's/^/    /' >&2
	exit "$1"
}

# next_event SECONDS: reads one event of the guest into $event. Fails with 1 when the guest is gone, 2 when time is up.
next_event() {
	event=
	local code=0
	IFS= read -r -t "$1" event <&3 || code=$?
	[ "$code" -le 128 ] || return 2
	return "$code"
}

# watch_clock: adds to stood-still of this run the seconds that this machine did not run, as when it is moved or saved
# itself.
watch_clock() {
	local last=$SECONDS gap
	while sleep 1 && kill -0 $$; do
		gap=$((SECONDS - last)) last=$SECONDS
		[ "$gap" -lt 10 ] || echo "$gap" >>"$run/stood-still"
	done
}
watch_clock >/dev/null 2>&1 9>&- &
disown

# only_late COMPLAINT: it is that something took too long, and this machine stood still: a lockup or hang of nobody in
# the guest.
only_late() {
	[ -e "$run/stood-still" ] && [[ $1 =~ 'soft lockup'|'workqueue lockup'|'blocked for more than' ]]
}

exec 3<"$run/events"
code=0
next_event "$boot_timeout" || code=$?
case $code:$event in
0:ready) say "guest ready after $(seconds_since "$started") s" ;;
0:failed*) give_up 71 "the guest could not be set up: ${event#failed }" ;;
2:*) give_up 71 "the guest is not ready after $boot_timeout s" ;;
*) give_up 71 "the guest ended before it was ready" ;;
esac

status= complaints=0 complaint=
deadline=$((SECONDS + timeout))
while [ -z "$status" ]; do
	code=0
	left=$((deadline - SECONDS))
	[ "$left" -gt 0 ] || give_up 124 "the command is not done after $timeout s"
	next_event "$left" || code=$?
	case $code:$event in
	0:status\ *) status=${event#status } ;;
	0:kernel\ *)
		say "the guest's kernel: ${event#kernel }"
		if only_late "$event"; then
			say "not counted: this machine stood still for $(paste -sd' ' "$run/stood-still") s"
		else
			complaints=$((complaints + 1))
			complaint=${complaint:-${event#kernel }}
		fi
		;;
	2:*) ;;
	*) give_up 71 "the guest died before the command was done" ;;
	esac
done

# It powers itself off; nothing is lost when it is too slow for that.
for _ in {1..30}; do
	kill -0 "$QEMU_PID" 2>/dev/null || break
	sleep 0.1
done
stop_qemu
if [ "$complaints" -gt 0 ]; then
	say "its console around the first complaint:"
	grep -F -m1 -B 3 -A 60 -e "$complaint" "$run/console" | tr -d '\r' | sed 's/^/    /' >&2 || true
	[ "$status" != 0 ] || status=70
fi
exit "$status"
