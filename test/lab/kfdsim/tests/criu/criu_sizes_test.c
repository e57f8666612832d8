// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * What CHECKPOINT has of queues and buffers by size and identity, and which queues RESTORE does not take, for each
 * kernel that can be simulated.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "child.h"
#include "criu/blob_sample.h"

/* Sizes of queues' hardware state, and buffers that are the driver's own. */
static void sizes(void)
{
	struct gpu g = open_gpu();
	struct aql_queue q;
	struct sdma_queue sdma;
	struct kfd_ioctl_criu_args a = {};
	/* A BO without an address counts, but not in 6.1; what lies below user space's addresses does not. */
	uint32_t bos = kernel->bo_bytes == 80 ? 6 : 7;
	uint64_t want = 16 + bos * kernel->bo_bytes;
	struct memory m;

	MUST(!acquire(&g, g.render));
	make_aql(&g, COMPUTE_VA);
	make_ring(&g, QUEUE_VA);
	IS(allocate(&g, &m, 0, 4096, VRAM | WRITABLE, 0), 0);
	IS(allocate(&g, &m, 0x10000, 4096, VRAM | WRITABLE, 0), 0);
	IS(create_aql(&g, &q, COMPUTE_VA), 0);
	want += BLOB_QUEUE_BYTES + saved_xccs() * (BLOB_MQD_COMPUTE + saved_ctl_stack());
	IS(create_queue(&g, &sdma, QUEUE_VA), 0);
	/* Of SDMA queues, too, kernels that save all XCCs have room for so many MQDs. */
	want += BLOB_QUEUE_BYTES + saved_xccs() * sdma_mqd_bytes();
	IS(criu_op(g.kfd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	IS(a.num_bos, bos);
	IS(a.priv_data_size, want);
	IS(criu_simple(g.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
}

/* The inode of the dma-buf that CHECKPOINT has of the one BO. */
static ino_t saved_inode(const struct gpu *g, struct kfd_ioctl_criu_args *a)
{
	struct stat st;

	a->devices = (uintptr_t)&blob.device;
	a->bos = (uintptr_t)blob.bos;
	a->priv_data = (uintptr_t)blob.data;
	MUST(!criu_op(g->kfd, KFD_CRIU_OP_CHECKPOINT, a));
	MUST(!fstat(blob.bos[0].dmabuf_fd, &st));
	return st.st_ino;
}

/* By its inode a buffer that is shared can be known, where the kernel does not make a dma-buf each time. */
static void identity(void)
{
	struct kfd_ioctl_criu_args a = {};
	struct gpu g = open_gpu();

	MUST(!acquire(&g, g.render));
	make(&g, VRAM_VA, MIB, VRAM);
	MUST(!criu_op(g.kfd, KFD_CRIU_OP_PROCESS_INFO, &a));
	IS(saved_inode(&g, &a) == saved_inode(&g, &a), kernel->bo_bytes != 80);
}

/* A blob whose queue has another MQD. */
static void other_mqd(void)
{
	struct gpu g = open_gpu();

	blob_begin(&blob, g.id);
	blob_ring(&blob, QUEUE_VA, 0);
	blob_queue(&blob, 1, QUEUE_VA, 0, 256, sdma_mqd_bytes() + 64, 0);
	IS(blob_restore(&blob, &g), kernel->checks_mqd ? -EINVAL : 0);
}

/* Rubbish in the MQD, which a real GPU would be given. */
static void rubbish(void)
{
	struct gpu g = open_gpu();
	uint8_t *at;

	blob_begin(&blob, g.id);
	blob_ring(&blob, QUEUE_VA, 0);
	at = blob_queue(&blob, 1, QUEUE_VA, 0, 256, sdma_mqd_bytes(), 0);
	memset(at + BLOB_QUEUE_BYTES, 0x5a, sdma_mqd_bytes());
	IS(blob_restore(&blob, &g), -EINVAL);
}

/* From gfx11 on queues do not come back, with 6.12.117 from gfx10 on; some cannot even be saved. */
static void unsupported(void)
{
	long long crashes = counter("mes_restores");
	struct gpu g = open_gpu();
	struct kfd_ioctl_criu_args a = {};
	struct sdma_queue q;

	blob_begin(&blob, g.id);
	blob_compute_bos(&blob, QUEUE_VA, 0);
	blob_compute(&blob, QUEUE_VA, 0, 0, saved_xccs(), saved_ctl_stack());
	IS(blob_restore(&blob, &g), -EINVAL);
	/* Kernels before 6.12.117 crash there. */
	if (on_kfdsim())
		IS(counter("mes_restores") - crashes, gfx() >= 11 && kernel < &kernels[KERNEL_OF_GUEST]);
	/* What came before the queue is there, so that one can be made. */
	IS(create_queue(&g, &q, QUEUE_VA), 0);
	IS(criu_op(g.kfd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	a.devices = (uintptr_t)&blob.device;
	a.bos = (uintptr_t)blob.bos;
	a.priv_data = (uintptr_t)blob.data;
	IS(criu_op(g.kfd, KFD_CRIU_OP_CHECKPOINT, &a), gfx() > kernel->saves_gfx ? -EOPNOTSUPP : 0);
}

static void one(const char *what, void (*run)(void))
{
	char name[80];

	snprintf(name, sizeof(name), "criu_sizes_test, %s, %s", kernel->name, what);
	in_child(name, run);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (kernel = kernels; kernel < kernels + KERNELS; kernel++) {
		if (!behave_as(kernel))
			continue;
		one("identity of a buffer", identity);
		if (gfx() > 10 || (gfx() == 10 && kernel->acquires)) {
			one("queues that cannot be restored", unsupported);
			continue;
		}
		one("sizes", sizes);
		one("MQD of another size", other_mqd);
		if (!skip_on_real("MQDs made by hand are those of kfdsim"))
			one("rubbish in an MQD", rubbish);
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("criu_sizes_test");
}
