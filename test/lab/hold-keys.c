/*
 * hold-keys CGROUP: keeps switched on what the kernel would otherwise switch on and off by rewriting its own code while
 * containers come and go (static keys). The emulator may translate such code a moment before it is rewritten on
 * another processor and keep the breakpoint that marks it meanwhile: "Oops: int3" in hot paths, once in many boots.
 * Nothing runs beside this when the guest starts, and what is on stays on.
 *
 * Holds an event of a task (perf_sched_events, in every switch of tasks; CRIU's breakpoints) and a device filter of
 * CGROUP (cgroup_bpf_enabled_key; every container's). Prints a line when both are there, then waits for ever.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	struct perf_event_attr event = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(event),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
	};
	const struct bpf_insn allow[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr load = {
		.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
		.insn_cnt = sizeof(allow) / sizeof(allow[0]),
		.insns = (uintptr_t)allow,
		.license = (uintptr_t)"Dual MIT/GPL",
	};
	union bpf_attr attach = { .attach_type = BPF_CGROUP_DEVICE };
	int cgroup, filter;

	if (argc != 2)
		return 64;
	if (syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) < 0)
		return fail("perf_event_open");
	cgroup = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (cgroup < 0)
		return fail(argv[1]);
	filter = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	if (filter < 0)
		return fail("load a device filter");
	attach.target_fd = (uint32_t)cgroup;
	attach.attach_bpf_fd = (uint32_t)filter;
	if (syscall(SYS_bpf, BPF_PROG_ATTACH, &attach, sizeof(attach)) < 0)
		return fail("attach a device filter");
	if (puts("held") == EOF || fflush(stdout) == EOF || fclose(stdout) == EOF)
		return 1;
	for (;;)
		pause();
}
