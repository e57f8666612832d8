// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CRIU_OP with several GPUs: a process with memory on two of them, mapped for both, and a
 * queue that waits. It comes back with these two exchanged: its ioctls keep the old ids, the
 * memory is on the other GPU. A task that sees fewer GPUs cannot be restored into.
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include "devcgroup.h"
#include "gpus.h"

#define VRAM_VA 0x200000000ull
#define PEER_VA 0x210000000ull
#define HOST_VA 0x220000000ull
#define RING_VA 0x230000000ull
#define NR_BOS 4
#define MAX_BLOB 65536
/* Of the private data of a BO: bytes of each, and where mapped_gpuids begins. */
#define BO_BYTES 272
#define BO_MAPPED 12

static struct {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket devices[MAX_GPUS];
	struct kfd_criu_bo_bucket bos[NR_BOS];
	uint8_t blob[MAX_BLOB];
	uint8_t contents[NR_BOS][MIB];
} *shared;

static int criu(int kfd, uint32_t op, struct kfd_ioctl_criu_args *a)
{
	a->op = op;
	a->devices = (uintptr_t)shared->devices;
	a->bos = (uintptr_t)shared->bos;
	a->priv_data = (uintptr_t)shared->blob;
	return try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, a);
}

static void transfer(int to_bo)
{
	for (uint32_t i = 0; i < NR_BOS; i++) {
		struct kfd_criu_bo_bucket *b = &shared->bos[i];
		void *p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->dmabuf_fd, 0);

		MUST(p != MAP_FAILED && b->size <= MIB);
		memcpy(to_bo ? p : shared->contents[i], to_bo ? shared->contents[i] : p, b->size);
		munmap(p, b->size);
		close(b->dmabuf_fd);
	}
}

static struct kfd_criu_bo_bucket *bo_at(uint64_t va)
{
	for (uint32_t i = 0; i < NR_BOS; i++)
		if (shared->bos[i].addr == va)
			return &shared->bos[i];
	MUST(!"a BO at this address");
	return NULL;
}

static const uint32_t *mapped_ids(uint64_t va)
{
	return (uint32_t *)(shared->blob + 8 + 8 * nr_nodes +
			    BO_BYTES * (bo_at(va) - shared->bos) + BO_MAPPED);
}

static void check_dump(int reach)
{
	uint32_t a = nodes[0].gpu_id, b = nodes[1].gpu_id;

	for (unsigned int i = 0; i < nr_nodes; i++)
		CHECK(shared->devices[i].user_gpu_id == nodes[i].gpu_id &&
		      shared->devices[i].actual_gpu_id == nodes[i].gpu_id);
	CHECK(bo_at(VRAM_VA)->gpu_id == a && bo_at(HOST_VA)->gpu_id == a);
	CHECK(bo_at(PEER_VA)->gpu_id == b && bo_at(RING_VA)->gpu_id == b);
	CHECK(mapped_ids(HOST_VA)[0] == a && mapped_ids(HOST_VA)[1] == b &&
	      !mapped_ids(HOST_VA)[2]);
	CHECK(mapped_ids(VRAM_VA)[1] == (reach ? b : 0));
	CHECK(mapped_ids(PEER_VA)[0] == b && !mapped_ids(PEER_VA)[1]);
}

/* The queue on b waits, then copies from host memory of a, and from a's VRAM if it can. */
static void original(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC), reach = peers(0, 1);
	struct gpu a = use_gpu(kfd, 0), b = use_gpu(kfd, 1);
	struct memory vram = make(&a, VRAM_VA, MIB, VRAM), host = make(&a, HOST_VA, MIB, GTT);
	struct memory peer = make(&b, PEER_VA, MIB, VRAM);
	struct kfd_ioctl_criu_args info = {};
	struct sdma_queue q;

	make(&b, RING_VA, QUEUE_BYTES, GTT);
	MUST(!map_gpu(&b, &host));
	if (reach)
		MUST(!map_gpu(&b, &vram));
	for (uint32_t i = 0; i < MIB / 4; i++) {
		((uint32_t *)vram.cpu)[i] = i * 3;
		((uint32_t *)host.cpu)[i] = i * 5;
	}
	MUST(!create_queue(&b, &q, RING_VA));
	put_wait(&q, q.words_va, 5);
	put_copy(&q, peer.va, host.va, MIB / 2);
	put_copy(&q, peer.va + MIB / 2, reach ? vram.va : host.va, MIB / 2);
	IS(criu(kfd, KFD_CRIU_OP_PROCESS_INFO, &info), 0);
	CHECK(info.num_devices == nr_nodes && info.num_bos == NR_BOS && info.num_objects == 1);
	MUST(info.num_bos == NR_BOS && info.priv_data_size <= MAX_BLOB);
	shared->args = info;
	info.num_devices--;
	IS(criu(kfd, KFD_CRIU_OP_CHECKPOINT, &info), -EINVAL);
	info.num_devices++;
	MUST(!criu(kfd, KFD_CRIU_OP_CHECKPOINT, &info));
	check_dump(reach);
	transfer(0);
}

/* Old GPU i is to be GPU to[i] now; opens the render nodes, wrong ones if asked to. */
static void choose(const unsigned int *to, int wrong)
{
	for (unsigned int i = 0; i < nr_nodes; i++) {
		shared->devices[i].user_gpu_id = nodes[i].gpu_id;
		shared->devices[i].actual_gpu_id = nodes[to[i]].gpu_id;
		shared->devices[i].drm_fd = open_render(nodes[wrong ? i : to[i]].minor);
		MUST((int)shared->devices[i].drm_fd >= 0);
	}
}

static const unsigned int same[MAX_GPUS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const unsigned int exchanged[MAX_GPUS] = { 1, 0, 2, 3, 4, 5, 6, 7 };

static void map_restored(uint64_t va, int render)
{
	MUST(mmap((void *)va, bo_at(va)->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		  render, bo_at(va)->restored_offset) != MAP_FAILED);
}

static void restored(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	struct kfd_process_device_apertures aps[MAX_GPUS] = {};
	struct kfd_ioctl_get_process_apertures_new_args ap = {
		.kfd_process_device_apertures_ptr = (uintptr_t)aps, .num_of_nodes = MAX_GPUS };
	struct kfd_ioctl_criu_args args = shared->args, resume = { .pid = getpid() };
	struct sdma_queue q;
	struct memory m;
	struct gpu a, b;

	choose(exchanged, 0);
	MUST(!criu(kfd, KFD_CRIU_OP_RESTORE, &args));
	a = (struct gpu){ kfd, shared->devices[0].drm_fd, nodes[0].gpu_id };
	b = (struct gpu){ kfd, shared->devices[1].drm_fd, nodes[1].gpu_id };
	transfer(1);
	map_restored(VRAM_VA, a.render);
	map_restored(HOST_VA, a.render);
	map_restored(PEER_VA, b.render);
	map_restored(RING_VA, b.render);
	CHECK(available(&a) == nodes[1].vram - MIB && available(&b) == nodes[0].vram - MIB);
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &ap), 0);
	CHECK(aps[0].gpu_id == nodes[0].gpu_id && aps[1].gpu_id == nodes[1].gpu_id);

	IS(criu(kfd, KFD_CRIU_OP_RESUME, &resume), 0);
	find_queue(&q, RING_VA);
	q.words[0] = 5;
	CHECK(drained(&q, 3000));
	CHECK(!memcmp((void *)PEER_VA, (void *)HOST_VA, MIB / 2));
	CHECK(!memcmp((char *)PEER_VA + MIB / 2, (void *)(peers(0, 1) ? VRAM_VA : HOST_VA),
		      MIB / 2));
	IS(allocate(&a, &m, VRAM_VA + 2 * MIB, MIB, VRAM | WRITABLE, 0), 0);
	CHECK(m.handle >> 32 == a.id && available(&a) == nodes[1].vram - 2 * MIB);
}

static void wrong_node(void)
{
	struct kfd_ioctl_criu_args args = shared->args;

	choose(exchanged, 1);
	IS(criu(open("/dev/kfd", O_RDWR | O_CLOEXEC), KFD_CRIU_OP_RESTORE, &args), -EINVAL);
}

static void twice(void)
{
	struct kfd_ioctl_criu_args args = shared->args;
	const unsigned int both[MAX_GPUS] = { 0, 0, 2, 3, 4, 5, 6, 7 };

	choose(both, 0);
	IS(criu(open("/dev/kfd", O_RDWR | O_CLOEXEC), KFD_CRIU_OP_RESTORE, &args), -EINVAL);
}

static void fewer(void)
{
	struct kfd_ioctl_criu_args args = shared->args;
	char path[128];

	choose(same, 0);
	MUST(!enter_filtered(nodes[nr_nodes - 1].minor, path, sizeof(path)));
	IS(criu(open("/dev/kfd", O_RDWR | O_CLOEXEC), KFD_CRIU_OP_RESTORE, &args), -EINVAL);
	CHECK(!leave_filtered(path));
}

static void part(const char *name, void (*func)(void))
{
	int status;

	fflush(stdout);
	if (!fork()) {
		checks = failures = 0;
		func();
		exit(report(name));
	}
	wait(&status);
	CHECK(status == 0);
	CHECK(gone(5000));
}

int main(void)
{
	find_nodes();
	if (nr_nodes < 2) {
		printf("gpus_criu needs two GPUs: load the module with gpus=2\n");
		return 1;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	MUST(shared != MAP_FAILED);
	part("gpus_criu, dumped", original);
	part("gpus_criu, render node of another GPU", wrong_node);
	part("gpus_criu, one GPU for two", twice);
	part("gpus_criu, a GPU hidden", fewer);
	part("gpus_criu, restored on exchanged GPUs", restored);
	return report("gpus_criu");
}
