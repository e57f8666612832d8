// SPDX-License-Identifier: GPL-2.0 OR MIT
/* GPUs reach the process's own memory through SVM, where they have access and as far as the range goes. */
#include "child.h"
#include "kernel.h"
#include "kfd/kfd.h"

#define RING_VA 0x200000000ull
#define VRAM_VA 0x210000000ull
#define USER_VA 0x300000000ull
#define BYTES (64u * 1024)

static int set_svm(const struct gpu *g, uint32_t type, uint32_t value)
{
	struct {
		struct kfd_ioctl_svm_args head;
		struct kfd_ioctl_svm_attribute attr;
	} a = { .head = { .start_addr = USER_VA, .size = BYTES, .op = KFD_IOCTL_SVM_OP_SET_ATTR, .nattr = 1 },
		.attr = { type, value } };

	return try_ioctl(g->kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(a)), &a);
}

/* A copy of BYTES to VRAM and back to the second half of them. */
static void reach(void)
{
	struct gpu g = open_gpu();
	volatile uint32_t *user;
	struct sdma_queue q;
	struct memory vram;

	MUST(!acquire(&g, g.render));
	make_ring(&g, RING_VA);
	vram = make(&g, VRAM_VA, BYTES, VRAM);
	user = mmap((void *)USER_VA, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	MUST(user != MAP_FAILED);
	for (uint32_t i = 0; i < BYTES / 4; i++)
		user[i] = i * 3;
	MUST(!create_queue(&g, &q, RING_VA));
	MUST(!set_svm(&g, KFD_IOCTL_SVM_ATTR_ACCESS, g.id));
	put_copy(&q, vram.va, USER_VA, BYTES);
	put_copy(&q, USER_VA + BYTES / 2, vram.va, BYTES / 2);
	CHECK(drained(&q, 5000));
	IS(memcmp(vram.cpu, (void *)USER_VA, BYTES / 2), 0);
	IS(user[BYTES / 8], 0);
	IS(user[BYTES / 4 - 1], (BYTES / 8 - 1) * 3);
}

static void fault(uint32_t type, uint64_t va)
{
	struct gpu g = open_gpu();
	long long faults = counter("gpu_faults");
	struct sdma_queue q;

	MUST(!acquire(&g, g.render));
	make_ring(&g, RING_VA);
	make(&g, VRAM_VA, BYTES, VRAM);
	MUST(mmap((void *)USER_VA, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	     MAP_FAILED);
	MUST(!create_queue(&g, &q, RING_VA));
	MUST(!set_svm(&g, KFD_IOCTL_SVM_ATTR_ACCESS, g.id));
	MUST(!set_svm(&g, type, g.id));
	put_copy(&q, VRAM_VA, va, 4096);
	CHECK(!drained(&q, 200));
	IS(counter("gpu_faults") - faults, 1);
}

static void no_access(void) { fault(KFD_IOCTL_SVM_ATTR_NO_ACCESS, USER_VA); }
static void beyond(void) { fault(KFD_IOCTL_SVM_ATTR_ACCESS, USER_VA + BYTES); }

int main(void)
{
	if (skip_on_real("Debian's 6.12 is built without SVM"))
		return report("svm_reach_test");
	for (int i = 0; i < KERNELS; i++) {
		if (!kernels[i].svm)
			continue;
		behave_as(&kernels[i]);
		in_child("svm_reach_test, copies", reach);
		in_child("svm_reach_test, no access", no_access);
		in_child("svm_reach_test, behind the range", beyond);
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("svm_reach_test");
}
