// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Micro-operations through unmodified ROCr: dispatches in order, timestamps of its profiler,
 * signals that wake a sleeping thread, and an eviction in the middle.
 */
#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <unistd.h>

#include "kernel.h"
#include "microop.h"
#include "rocr/rocr.h"

#define WORDS (256u * 1024)
#define STEPS (WORDS * 4 / KFDSIM_STEP_BYTES)
#define STEP_US 1500
#define MS 1000000ull

static struct kfdsim_microop *objects;
static struct kfdsim_microop_args *args;

static void put_dispatch(hsa_queue_t *queue, enum kfdsim_op op, struct kfdsim_microop_args a,
			 hsa_signal_t done)
{
	uint16_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE |
			  1 << HSA_PACKET_HEADER_BARRIER;
	uint64_t index = hsa_queue_add_write_index_relaxed(queue, 1);
	hsa_kernel_dispatch_packet_t *packet =
		(hsa_kernel_dispatch_packet_t *)queue->base_address + index % queue->size;

	args[index % queue->size] = a;
	objects[op] = (struct kfdsim_microop){ KFDSIM_MICROOP_MAGIC, KFDSIM_MICROOP_VERSION, op };
	memset((char *)packet + 2, 0, sizeof(*packet) - 2);
	packet->setup = 1;
	packet->workgroup_size_x = packet->workgroup_size_y = packet->workgroup_size_z = 1;
	packet->grid_size_x = packet->grid_size_y = packet->grid_size_z = 1;
	packet->kernel_object = (uintptr_t)&objects[op];
	packet->kernarg_address = &args[index % queue->size];
	packet->completion_signal = done;
	__atomic_store_n(&packet->header, header, __ATOMIC_RELEASE);
	hsa_signal_store_screlease(queue->doorbell_signal, index);
}

/* ms that the dispatch with this signal took, as ROCr tells from its timestamps. */
static double took(hsa_signal_t done)
{
	hsa_amd_profiling_dispatch_time_t time;
	uint64_t hz;

	OK(hsa_amd_profiling_get_dispatch_time(gpu, done, &time));
	OK(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &hz));
	return 1000.0 * (time.end - time.start) / hz;
}

static void criu_op(int kfd, uint32_t op)
{
	struct kfd_ioctl_criu_args a = { .op = op };

	MUST(!try_ioctl(kfd, AMDKFD_IOC_CRIU_OP, &a));
}

static void evict_in_the_middle(hsa_queue_t *queue, uint32_t *words, uint32_t *seen)
{
	hsa_signal_t done = new_signal(1);
	/* Another file of the same KFD process. */
	int kfd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
	uint32_t steps = 0;

	MUST(kfd >= 0);
	put_dispatch(queue, KFDSIM_OP_INCREMENT,
		     (struct kfdsim_microop_args){ (uintptr_t)words, WORDS * 4, 1, STEP_US }, done);
	CHECK(await_zero(done, 100 * MS) == 1);
	criu_op(kfd, KFD_CRIU_OP_PROCESS_INFO);
	CHECK(await_zero(done, 500 * MS) == 1);
	/* The CPU reads host memory itself: no copy could run now. */
	while (steps < STEPS && words[steps * KFDSIM_STEP_BYTES / 4] == 12)
		steps++;
	CHECK(steps > 0 && steps < STEPS);
	*seen = steps;
	criu_op(kfd, KFD_CRIU_OP_UNPAUSE);
	CHECK(await_zero(done, 5000 * MS) == 0);
	OK(hsa_signal_destroy(done));
	close(kfd);
}

int main(void)
{
	hsa_signal_t spun, done;
	uint32_t *words, wrong = 0, seen = 0;
	hsa_queue_t *queue;

	start_rocr();
	objects = pool_memory(host, 4096);
	args = pool_memory(host, 4096);
	words = pool_memory(host, WORDS * 4);
	spun = new_signal(1);
	done = new_signal(1);
	OK(hsa_queue_create(gpu, 64, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, 0, 0, &queue));
	/* Where the kernel has SVM the thunk makes the save area of each queue a range of it (register_svm_range). */
	CHECK(!kernel_now()->svm || counter("svm_ranges") > 0);
	OK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
	put_dispatch(queue, KFDSIM_OP_SPIN, (struct kfdsim_microop_args){ .size = 80000 }, spun);
	put_dispatch(queue, KFDSIM_OP_FILL,
		     (struct kfdsim_microop_args){ (uintptr_t)words, WORDS * 4, 11, 0 }, done);
	CHECK(await_zero(done, 5000 * MS) == 0 && hsa_signal_load_scacquire(spun) == 0);
	CHECK(took(spun) >= 79 && took(spun) < 400);
	CHECK(hsa_queue_load_read_index_scacquire(queue) == 2);
	CHECK(words[0] == 11 && words[WORDS - 1] == 11);
	evict_in_the_middle(queue, words, &seen);
	for (uint32_t i = 0; i < WORDS; i++)
		wrong += words[i] != 12;
	IS(wrong, 0);
	printf("simulated: evicted after %u of %u steps\n", seen, STEPS);
	OK(hsa_queue_destroy(queue));
	OK(hsa_signal_destroy(spun));
	OK(hsa_signal_destroy(done));
	OK(hsa_amd_memory_pool_free(objects));
	OK(hsa_amd_memory_pool_free(args));
	OK(hsa_amd_memory_pool_free(words));
	OK(hsa_shut_down());
	return report("rocr_dispatch_test");
}
