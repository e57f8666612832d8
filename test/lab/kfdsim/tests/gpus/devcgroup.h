/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* A cgroup whose device filter denies render nodes, as a container's that was given fewer GPUs. */
#ifndef KFDSIM_TEST_DEVCGROUP_H
#define KFDSIM_TEST_DEVCGROUP_H

#include <linux/bpf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRM_MAJOR 226
#define ALL_MINORS (-1)

static inline int bpf_call(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

/* Denies character device 226:minor, or all of 226, and allows the rest. */
static inline int load_filter(int minor)
{
	int any = minor == ALL_MINORS;
	struct bpf_insn code[] = {
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1,
		  .off = offsetof(struct bpf_cgroup_dev_ctx, major) },
		{ .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 2, .off = 4, .imm = DRM_MAJOR },
		{ .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1,
		  .off = offsetof(struct bpf_cgroup_dev_ctx, minor) },
		any ? (struct bpf_insn){ .code = BPF_JMP | BPF_JA } :
		      (struct bpf_insn){ .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 2, .off = 2,
					 .imm = minor },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_CGROUP_DEVICE,
				.insns = (uintptr_t)code,
				.insn_cnt = sizeof(code) / sizeof(*code),
				.license = (uintptr_t)"GPL" };

	return bpf_call(BPF_PROG_LOAD, &attr);
}

/* Move the caller into a new cgroup that denies the minor; its path is needed to remove it. */
static inline int enter_filtered(int minor, char *path, size_t size)
{
	union bpf_attr attr = {};
	char procs[256];
	FILE *f;

	snprintf(path, size, "/sys/fs/cgroup/kfdsim-test-%d", getpid());
	if (mkdir(path, 0755))
		return -1;
	attr.target_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	attr.attach_bpf_fd = load_filter(minor);
	attr.attach_type = BPF_CGROUP_DEVICE;
	if ((int)attr.target_fd < 0 || (int)attr.attach_bpf_fd < 0 ||
	    bpf_call(BPF_PROG_ATTACH, &attr))
		return -1;
	close(attr.target_fd);
	close(attr.attach_bpf_fd);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", path);
	f = fopen(procs, "w");
	return !f || fprintf(f, "0") < 0 || fclose(f) ? -1 : 0;
}

/* Back to the root, where a test was; the cgroup goes. */
static inline int leave_filtered(const char *path)
{
	FILE *f = fopen("/sys/fs/cgroup/cgroup.procs", "w");

	return !f || fprintf(f, "0") < 0 || fclose(f) || rmdir(path) ? -1 : 0;
}

#endif
