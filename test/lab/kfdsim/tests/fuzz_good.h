/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Calls that go well, whose arguments the fuzzer damages later. For fuzz_test alone. */
#ifndef KFDSIM_TEST_FUZZ_GOOD_H
#define KFDSIM_TEST_FUZZ_GOOD_H

#include "engines/aql.h"
#include "fuzz.h"
#include "fuzz_commands.h"

#define MAX_ARGS 256
#define QUEUE_VA (FUZZ_VA + 32 * FUZZ_VA_STEP)

/* What the processes tell the one that counts. */
static struct result {
	long calls, went_well, bad_errno;
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket device;
	struct kfd_criu_bo_bucket bos[16];
	uint8_t blob[65536];
} *result;

static uint64_t good[NR_COMMANDS][MAX_ARGS / 8];	/* arguments of the last call that went well */
static int has_good[NR_COMMANDS];
static struct gpu gpu;
static uint32_t *ib;				/* CPU view of a buffer packets are executed from */

static int try_call(enum device device, unsigned long cmd, void *args)
{
	int ret = ioctl(device == ON_KFD ? gpu.kfd : gpu.render, cmd, args);

	result->calls++;
	if (!ret)
		result->went_well++;
	else if (ret > 0 || ((errno < 1 || errno > EHWPOISON) && errno != 524)) {
		result->bad_errno++;
		printf("%s call %#lx gave %d, errno %d\n", device == ON_KFD ? "kfd" : "render", cmd,
		       ret, errno);
	}
	return ret;
}

/* A call that is to go well, to be damaged later; args keeps the answer. */
static void teach(unsigned long cmd, void *args)
{
	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (commands[i].cmd != cmd)
			continue;
		memcpy(good[i], args, _IOC_SIZE(cmd));
		has_good[i] = !try_call(commands[i].device, cmd, args);
	}
}

/* What the arguments taught below point to. */
static void lay_out_arena(void)
{
	struct drm_amdgpu_cs_chunk chunk = { AMDGPU_CHUNK_ID_IB, sizeof(struct drm_amdgpu_cs_chunk_ib) / 4,
					     ARENA + 128 };
	struct drm_amdgpu_cs_chunk_ib job = { .va_start = FUZZ_VA + FUZZ_VA_STEP, .ib_bytes = 256,
					      .ip_type = AMDGPU_HW_IP_DMA };
	struct drm_amdgpu_bo_list_entry entry = { .bo_handle = 1 };
	struct kfd_event_data event = { .event_id = 1 };
	struct drm_amdgpu_fence fence = { .ctx_id = 1, .ip_type = AMDGPU_HW_IP_DMA, .seq_no = 1 };

	*(uint64_t *)ARENA = ARENA + 64;
	memcpy((void *)(ARENA + 64), &chunk, sizeof(chunk));
	memcpy((void *)(ARENA + 128), &job, sizeof(job));
	memcpy((void *)(ARENA + 256), &entry, sizeof(entry));
	memcpy((void *)(ARENA + 512), &event, sizeof(event));
	*(uint32_t *)(ARENA + 640) = fuzz_gpu;
	memcpy((void *)(ARENA + 704), &fence, sizeof(fence));
	for (int i = 0; i < 1024 && ib; i++)
		ib[i] = roll(3) ? fuzz_word() : roll(20) | roll(3) << 8;
	if (ib) {
		ib[0] = 1;
		ib[1] = roll(65536);
		ib[2] = ib[4] = ib[6] = 0;
		ib[3] = FUZZ_VA + roll(FUZZ_VA_STEP);
		ib[5] = ARENA + roll(ARENA_BYTES);
	}
}

/* An SDMA queue and a compute queue, of the same memory: a full ring of packets. */
static void teach_queues(void)
{
	struct kfd_ioctl_create_queue_args queue = aql_args(&gpu, QUEUE_VA);
	struct memory ring, pointers, save;

	if (allocate(&gpu, &ring, QUEUE_VA, queue.ring_size, GTT | WRITABLE, 0) || map_gpu(&gpu, &ring) ||
	    allocate(&gpu, &pointers, QUEUE_VA + AQL_RPTR, PAGE_BYTES, GTT | WRITABLE, 0) ||
	    map_gpu(&gpu, &pointers) ||
	    allocate(&gpu, &save, QUEUE_VA + AQL_SAVE, save_area_bytes(&gpu), GTT | WRITABLE, 0) ||
	    map_gpu(&gpu, &save))
		return;
	map_cpu(&gpu, &ring);
	map_cpu(&gpu, &pointers);
	memcpy(ring.cpu, ib, queue.ring_size);
	queue.queue_type = KFD_IOC_QUEUE_TYPE_SDMA;
	teach(AMDKFD_IOC_CREATE_QUEUE, &queue);
	queue.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
	teach(AMDKFD_IOC_CREATE_QUEUE, &queue);
	*(uint64_t *)((char *)pointers.cpu + AQL_WPTR - AQL_RPTR) = queue.ring_size;
}

static void set_up(int with_vm)
{
	struct kfd_ioctl_create_event_args event = {};
	struct kfd_ioctl_wait_events_args wait_events = { .events_ptr = ARENA + 512, .num_events = 1 };
	struct kfd_ioctl_acquire_vm_args acquire = { gpu.render, fuzz_gpu };
	union drm_amdgpu_gem_create create = { .in = { .bo_size = 65536,
						       .domains = AMDGPU_GEM_DOMAIN_GTT } };
	struct drm_amdgpu_gem_va va = { .handle = 1, .operation = AMDGPU_VA_OP_MAP, .flags = 6,
					.va_address = FUZZ_VA + 8 * FUZZ_VA_STEP, .map_size = 65536 };
	struct drm_amdgpu_gem_userptr user = { .addr = ARENA, .size = ARENA_BYTES, .flags = 13 };
	struct drm_prime_handle prime = { .handle = 1, .flags = O_CLOEXEC | O_RDWR };
	union drm_amdgpu_ctx ctx = { .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	union drm_amdgpu_bo_list list = { .in = { .operation = AMDGPU_BO_LIST_OP_CREATE,
		.bo_number = 1, .bo_info_size = 8, .bo_info_ptr = ARENA + 256 } };
	union drm_amdgpu_cs cs = { .in = { .ctx_id = 1, .num_chunks = 1, .chunks = ARENA } };
	union drm_amdgpu_wait_cs wait_cs = { .in = { .handle = 1, .ip_type = AMDGPU_HW_IP_DMA,
						     .ctx_id = 1 } };
	union drm_amdgpu_wait_fences fences = { .in = { .fences = ARENA + 704, .fence_count = 1 } };
	static const uint32_t types[] = { VRAM, GTT, USERPTR };

	if (with_vm)
		teach(AMDKFD_IOC_ACQUIRE_VM, &acquire);
	for (int i = 0; i < 3; i++) {
		uint64_t at = i == 2 ? ARENA : FUZZ_VA + i * FUZZ_VA_STEP;
		uint64_t size = i == 2 ? ARENA_BYTES : FUZZ_VA_STEP;
		struct kfd_ioctl_alloc_memory_of_gpu_args a = { .va_addr = at, .size = size,
			.mmap_offset = i == 2 ? at : 0, .gpu_id = fuzz_gpu, .flags = types[i] | WRITABLE };
		struct kfd_ioctl_map_memory_to_gpu_args m = { .n_devices = 1,
							      .device_ids_array_ptr = ARENA + 640 };
		struct kfd_ioctl_export_dmabuf_args e = { .flags = O_CLOEXEC };
		void *p;

		teach(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &a);
		m.handle = e.handle = a.handle;
		teach(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &m);
		if (i < 2)
			teach(AMDKFD_IOC_EXPORT_DMABUF, &e);
		p = i == 1 ? mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_SHARED, gpu.render,
				  a.mmap_offset) : MAP_FAILED;
		if (p != MAP_FAILED)
			ib = p;
	}
	lay_out_arena();
	teach(AMDKFD_IOC_CREATE_EVENT, &event);
	teach(AMDKFD_IOC_WAIT_EVENTS, &wait_events);
	if (ib)
		teach_queues();
	teach(DRM_IOCTL_AMDGPU_GEM_CREATE, &create);
	teach(DRM_IOCTL_AMDGPU_GEM_VA, &va);
	teach(DRM_IOCTL_AMDGPU_GEM_USERPTR, &user);
	teach(DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime);
	teach(DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime);
	teach(DRM_IOCTL_AMDGPU_CTX, &ctx);
	teach(DRM_IOCTL_AMDGPU_BO_LIST, &list);
	teach(DRM_IOCTL_AMDGPU_CS, &cs);
	teach(DRM_IOCTL_AMDGPU_WAIT_CS, &wait_cs);
	teach(DRM_IOCTL_AMDGPU_WAIT_FENCES, &fences);
}

#endif
