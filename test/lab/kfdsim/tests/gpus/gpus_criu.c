// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * CRIU_OP with several GPUs: a process with memory on two of them, mapped for both, and a
 * queue that waits. It comes back with these two exchanged: its ioctls keep the old ids, the
 * memory is on the other GPU. A task that sees fewer GPUs cannot be restored into.
 */
#define _GNU_SOURCE
#include "child.h"
#include "gpus/devcgroup.h"
#include "gpus/gpus.h"
#include "criu/image.h"

#define VRAM_VA 0x200000000ull
#define PEER_VA 0x210000000ull
#define HOST_VA 0x220000000ull
#define RING_VA 0x230000000ull
#define PAGE_VA 0x240000000ull
#define NR_BOS 6
#define KEPT (8 * MIB) /* by KFD, of each GPU: amdgpu_vm.h:AMDGPU_VM_RESERVED_VRAM @ 6.12.117 */
/* Of the private data of a BO: bytes of each, and where mapped_gpuids begins. */
#define BO_BYTES 272
#define BO_MAPPED 12

static struct image *image;

static const uint32_t *mapped_ids(uint64_t va)
{
	return (uint32_t *)(image->blob + 8 + 8 * nr_nodes +
			    BO_BYTES * (image_bo(image, va) - image->bos) + BO_MAPPED);
}

static void check_dump(int reach)
{
	uint32_t a = nodes[0].gpu_id, b = nodes[1].gpu_id;

	for (unsigned int i = 0; i < nr_nodes; i++)
		CHECK(image->devices[i].user_gpu_id == nodes[i].gpu_id &&
		      image->devices[i].actual_gpu_id == nodes[i].gpu_id);
	CHECK(image_bo(image, VRAM_VA)->gpu_id == a && image_bo(image, HOST_VA)->gpu_id == a);
	CHECK(image_bo(image, PEER_VA)->gpu_id == b && image_bo(image, RING_VA)->gpu_id == b);
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
	struct memory page = make(&a, PAGE_VA, KFD_SIGNAL_EVENT_LIMIT * 8, GTT);
	struct kfd_ioctl_criu_args args;
	struct sdma_queue q;
	uint32_t event;

	make_ring(&b, RING_VA);
	MUST(!create_event(&a, KFD_IOC_EVENT_SIGNAL, 0, page.handle, &event));
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
	image_pause(image, kfd);
	CHECK(image->info.num_devices == nr_nodes && image->info.num_bos == NR_BOS &&
	      image->info.num_objects == 2);
	args = image_args(image);
	args.num_devices--;
	IS(criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &args), -EINVAL);
	args.num_devices++;
	MUST(!criu_op(kfd, KFD_CRIU_OP_CHECKPOINT, &args));
	check_dump(reach);
	image_transfer(image, 0);
}

/* Old GPU i is to be GPU to[i] now; opens the render nodes, wrong ones if asked to. */
static void choose(const unsigned int *to, int wrong)
{
	for (unsigned int i = 0; i < nr_nodes; i++) {
		image->devices[i].user_gpu_id = nodes[i].gpu_id;
		image->devices[i].actual_gpu_id = nodes[to[i]].gpu_id;
		image->devices[i].drm_fd = open_render(nodes[wrong ? i : to[i]].minor);
		MUST((int)image->devices[i].drm_fd >= 0);
	}
}

static const unsigned int same[MAX_GPUS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const unsigned int exchanged[MAX_GPUS] = { 1, 0, 2, 3, 4, 5, 6, 7 };

static void restored(void)
{
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	struct kfd_process_device_apertures aps[MAX_GPUS] = {};
	struct kfd_ioctl_get_process_apertures_new_args ap = {
		.kfd_process_device_apertures_ptr = (uintptr_t)aps, .num_of_nodes = nr_nodes };
	struct sdma_queue q;
	struct memory m;
	struct gpu a, b;

	choose(exchanged, 0);
	MUST(!image_restore(image, kfd));
	a = (struct gpu){ kfd, image->devices[0].drm_fd, nodes[0].gpu_id };
	b = (struct gpu){ kfd, image->devices[1].drm_fd, nodes[1].gpu_id };
	image_transfer(image, 1);
	image_map(image, VRAM_VA, a.render);
	image_map(image, HOST_VA, a.render);
	image_map(image, PEER_VA, b.render);
	image_map_ring(image, RING_VA, b.render);
	CHECK(available(&a) == nodes[1].vram - KEPT - 2 * MIB && available(&b) == nodes[0].vram - KEPT - 2 * MIB);
	IS(try_ioctl(kfd, AMDKFD_IOC_GET_PROCESS_APERTURES_NEW, &ap), 0);
	CHECK(aps[0].gpu_id == nodes[0].gpu_id && aps[1].gpu_id == nodes[1].gpu_id);

	IS(criu_simple(kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	find_queue(&q, RING_VA);
	q.words[0] = 5;
	CHECK(drained(&q, 3000));
	CHECK(!memcmp((void *)PEER_VA, (void *)HOST_VA, MIB / 2));
	CHECK(!memcmp((char *)PEER_VA + MIB / 2, (void *)(peers(0, 1) ? VRAM_VA : HOST_VA),
		      MIB / 2));
	IS(allocate(&a, &m, VRAM_VA + 2 * MIB, MIB, VRAM | WRITABLE, 0), 0);
	CHECK(m.handle >> 32 == a.id && available(&a) == nodes[1].vram - KEPT - 4 * MIB);
}

static void wrong_node(void)
{
	choose(exchanged, 1);
	IS(image_restore(image, open("/dev/kfd", O_RDWR | O_CLOEXEC)), -EINVAL);
}

static void twice(void)
{
	const unsigned int both[MAX_GPUS] = { 0, 0, 2, 3, 4, 5, 6, 7 };

	choose(both, 0);
	IS(image_restore(image, open("/dev/kfd", O_RDWR | O_CLOEXEC)), -EINVAL);
}

static void fewer(void)
{
	char path[128];

	choose(same, 0);
	MUST(!enter_filtered(nodes[nr_nodes - 1].minor, path, sizeof(path)));
	IS(image_restore(image, open("/dev/kfd", O_RDWR | O_CLOEXEC)), -EINVAL);
	CHECK(!leave_filtered(path));
}

int main(void)
{
	long long mixups;

	find_nodes();
	if (nr_nodes < 2) {
		printf("gpus_criu needs two GPUs: load the module with gpus=2\n");
		return 1;
	}
	image = shared_memory(sizeof(*image));
	in_child("gpus_criu, dumped", original);
	in_child("gpus_criu, render node of another GPU", wrong_node);
	in_child("gpus_criu, one GPU for two", twice);
	in_child("gpus_criu, a GPU hidden", fewer);
	mixups = counter("event_page_mixups");
	in_child("gpus_criu, restored on exchanged GPUs", restored);
	/* At its end the kernel looks for the event page on the GPU that has the id now. */
	IS(counter("event_page_mixups") - mixups, 1);
	return report("gpus_criu");
}
