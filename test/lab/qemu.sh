# How QEMU is started for one guest. Sourced by lab.sh.
# shellcheck shell=bash

# write_initrd IMAGE RUN INIT: the initrd of this one boot, RUN/initrd: the image's own followed by a second cpio with
# /lab: what to run (RUN/lab), guest-init and guest-run. The kernel unpacks both, and no share is needed to pass them.
write_initrd() {
	local image=$1 run=$2
	install -m755 "$3" "$run/lab/init"
	install -m755 "$LAB/guest-run" "$run/lab/run"
	{
		cat "$image/initrd"
		(cd "$run" && find lab | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0)
	} >"$run/initrd"
}

# qemu_program FOLDER: sets the array qemu to QEMU as Debian 13's packages have it, unpacked in FOLDER and run where it
# lies, with its own libraries and firmware.
qemu_program() {
	local root=$1 libraries=$1/usr/lib/x86_64-linux-gnu
	qemu=(
		"$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/qemu-system-x86_64"
		-L "$root/usr/share/qemu" -L "$root/usr/share/seabios"
	)
}

# start_qemu IMAGE RUN MEMORY_MB CPUS SHARE [ICOUNT [COARSE_TIMERS [GPU_MEMORY_MB [CABLE]]]]: sets QEMU_PID. The
# guest's output goes to RUN/out and RUN/err, its events to RUN/events (all pipes with a reader), the kernel's console
# to RUN/console.
#
# The processor lacks what costs time under emulation only: string instructions run byte by byte, five levels of page
# tables, a fence around every access to user memory, and vectors of 32 bytes (a checksum takes three times as long with
# them). The interrupt controllers are registers (x2APIC), not memory, each access to which leaves the translated code:
# an eighth of the guest's time. The kernel takes that for an IOMMU that remaps interrupts alone. With ICOUNT an
# instruction takes a nanosecond of the guest's clock, and waiting takes no time of the host's: one processor, which has
# its interrupt controller in memory, for QEMU 10 gives up when such a clock is read on behalf of an x2APIC.
# COARSE_TIMERS spares podman's threads their naps of 20 us, each two switches: 8 % of the scenarios' processor time.
# GPU_MEMORY_MB more are memory that the guest's kernel leaves alone: BARs of simulated GPUs, above all VRAM. Words of
# KERNEL_ARGUMENTS go to the kernel, too. CABLE is a:SOCKET, which listens there, or b:SOCKET, which goes on trying.
# setpriv ends QEMU with the script that started it, however that dies.
start_qemu() {
	local image=$1 run=$2 memory=$3 cpus=$4 share=$5 icount=${6-} coarse_timers=${7-} gpu_memory=${8:-0}
	local cable=${9-}
	local clock=(-accel "tcg,thread=multi" -device "intel-iommu,intremap=on,eim=on") x2apic=+x2apic
	[ -z "$icount" ] || clock=(-accel "tcg,thread=single" -icount "shift=0,sleep=off") x2apic=-x2apic
	local kernel_arguments=(
		console=ttyS0 loglevel=7 nokaslr mitigations=off panic=-1 log_buf_len=4M
		no_timer_check tsc=reliable apparmor=0 audit=0 random.trust_cpu=on init_on_alloc=0 psi=0
	)
	# There memory above 4 GiB begins. Of the debug options that look at memory Debian's kernel has KFENCE alone.
	[ "$gpu_memory" = 0 ] || kernel_arguments+=("memmap=${gpu_memory}M\$0x100000000" kfence.sample_interval=100)
	[ -z "$coarse_timers" ] || kernel_arguments+=(highres=off nohz=off)
	# shellcheck disable=SC2206 # words
	kernel_arguments+=($KERNEL_ARGUMENTS)
	local qemu
	qemu_program "$(emulator_dir)"
	qemu+=(
		-nodefaults -no-user-config -nographic -no-reboot
		-machine q35 "${clock[@]}"
		-cpu "max,$x2apic,-erms,-fsrm,-la57,-smap,-smep,-avx2" -smp "$cpus" -m "$((memory + gpu_memory))"
		-kernel "$image/vmlinux" -initrd "$run/initrd" -append "${kernel_arguments[*]}"
		-serial "file:$run/console"
		-drive "file=$image/root.img,format=raw,if=virtio,snapshot=on,cache=unsafe"
		-virtfs "local,path=$REPO,mount_tag=repo,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,path=$share,mount_tag=share,security_model=none,multidevs=remap"
		-object rng-random,filename=/dev/urandom,id=rng0 -device virtio-rng-pci,rng=rng0
		-device virtio-serial-pci
	)
	local socket=addr.type=unix,addr.path=${cable#*:}
	case $cable in
	a:*) qemu+=(-netdev "stream,id=cable,server=on,$socket") ;;
	b:*) qemu+=(-netdev "stream,id=cable,server=off,reconnect-ms=200,$socket") ;;
	esac
	[ -z "$cable" ] || qemu+=(-device "virtio-net-pci,netdev=cable,romfile=,mac=52:54:00:00:00:0${cable%%:*}")
	local port number=0
	for port in out err events; do
		number=$((number + 1))
		qemu+=(
			-chardev "file,id=$port,path=$run/$port"
			-device "virtserialport,chardev=$port,nr=$number,name=$port"
		)
	done
	# The pipes are opened here too: a QEMU that does not even start must still end their readers' wait.
	setpriv --pdeathsig KILL "${qemu[@]}" </dev/null >"$run/qemu.log" 2>&1 9>&- \
		6>"$run/out" 7>"$run/err" 8>"$run/events" &
	QEMU_PID=$!
}
