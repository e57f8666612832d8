// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A checkpoint in the middle of everything: one process is stopped half-way through an
 * increment, a spin and a copy; another one is restored from it and goes on where the first
 * one was. Blobs whose wave cannot be are refused.
 */
#include <sys/wait.h>

#include "aql.h"

#define MIB (1024ull * 1024)
#define COUNT_VA 0x200000000ull
#define SPIN_VA 0x201000000ull
#define SDMA_VA 0x202000000ull
#define DATA_VA 0x210000000ull
#define DATA_BYTES (16 * MIB)
#define COUNTED (128u * 1024)		/* words: 128 steps of 4 KiB */
#define STEP_US 4000
#define SPIN_US 600000
#define COPY_BYTES (6 * MIB)
#define COPY_MBPS 12			/* 524 ms */
#define MAX_BOS 8
#define MAX_BLOB 65536
#define WAVE_MAGIC 0x77646b73u

static struct {
	struct kfd_ioctl_criu_args args;
	struct kfd_criu_device_bucket device;
	struct kfd_criu_bo_bucket bos[MAX_BOS];
	uint8_t blob[MAX_BLOB];
	uint8_t contents[MAX_BOS][DATA_BYTES];
	uint64_t doorbell_offset;
	uint32_t counted, copied;
	int checks, failures;
} *shared;

static volatile uint32_t *const counts = (uint32_t *)DATA_VA;
static volatile uint32_t *const source = (uint32_t *)(DATA_VA + 4 * MIB);
static volatile uint32_t *const copy = (uint32_t *)(DATA_VA + 10 * MIB);

static void finish(void)
{
	shared->checks += checks;
	shared->failures += failures;
	exit(0);
}

/* Contents by the CPU, through the dma-bufs. */
static void transfer(int to_bo)
{
	for (uint32_t i = 0; i < shared->args.num_bos; i++) {
		struct kfd_criu_bo_bucket *b = &shared->bos[i];
		void *p = mmap(NULL, b->size, PROT_READ | PROT_WRITE, MAP_SHARED, b->dmabuf_fd, 0);

		MUST(p != MAP_FAILED && b->size <= DATA_BYTES);
		memcpy(to_bo ? p : shared->contents[i], to_bo ? shared->contents[i] : p, b->size);
		munmap(p, b->size);
		close(b->dmabuf_fd);
	}
}

static void point_args(struct kfd_ioctl_criu_args *a)
{
	a->devices = (uintptr_t)&shared->device;
	a->bos = (uintptr_t)shared->bos;
	a->priv_data = (uintptr_t)shared->blob;
}

static void dump(const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = {};

	MUST(!criu_op(g, KFD_CRIU_OP_PROCESS_INFO, &a));
	MUST(a.num_bos <= MAX_BOS && a.priv_data_size <= MAX_BLOB);
	point_args(&a);
	MUST(!criu_op(g, KFD_CRIU_OP_CHECKPOINT, &a));
	shared->args = a;
	transfer(0);
	shared->counted = count_words(counts, COUNTED, 1);
	shared->copied = count_words(copy, COPY_BYTES / 4, 7);
}

static void original(void)
{
	struct gpu g = open_gpu();
	struct aql_queue count, spin;
	struct sdma_queue sdma;

	MUST(!acquire(&g, g.render));
	make(&g, COUNT_VA, QUEUE_BYTES, GTT);
	make(&g, SPIN_VA, QUEUE_BYTES, GTT);
	make(&g, SDMA_VA, QUEUE_BYTES, GTT);
	make(&g, DATA_VA, DATA_BYTES, VRAM);
	for (uint32_t i = 0; i < COPY_BYTES / 4; i++)
		source[i] = 7;
	MUST(!create_aql(&g, &count, COUNT_VA, AQL_CTL_STACK));
	MUST(!create_aql(&g, &spin, SPIN_VA, AQL_CTL_STACK));
	MUST(!create_queue(&g, &sdma, SDMA_VA));
	shared->doorbell_offset = count.doorbell_offset;
	/* Something before, so that the packets in question are not the first. */
	CHECK(completed(&count, dispatch(&count, KFDSIM_OP_FILL, DATA_VA, COUNTED * 4, 0, 0),
			5000));
	set_parameter("dma_mbps", COPY_MBPS);
	put_copy(&sdma, (uintptr_t)copy, (uintptr_t)source, COPY_BYTES);
	put_fence(&sdma, sdma.words_va, 99);
	dispatch(&spin, KFDSIM_OP_SPIN, 0, SPIN_US, 0, 0);
	dispatch(&count, KFDSIM_OP_INCREMENT, DATA_VA, COUNTED * 4, 1, STEP_US);
	while (!counts[COUNTED / 3] || !copy[COPY_BYTES / 16])
		usleep(1000);
	dump(&g);
	CHECK(shared->counted && shared->counted < COUNTED && shared->counted % 1024 == 0);
	CHECK(shared->copied && shared->copied < COPY_BYTES / 4);
	finish();
}

static int restore(const struct gpu *g)
{
	struct kfd_ioctl_criu_args a = shared->args;

	shared->device.drm_fd = g->render;
	point_args(&a);
	return criu_op(g, KFD_CRIU_OP_RESTORE, &a);
}

static void map_restored(const struct gpu *g, uint64_t va, uint64_t size)
{
	for (uint32_t i = 0; i < shared->args.num_bos; i++)
		if (shared->bos[i].addr == va)
			MUST(mmap((void *)va, size, PROT_READ | PROT_WRITE,
				  MAP_SHARED | MAP_FIXED, g->render,
				  shared->bos[i].restored_offset) != MAP_FAILED);
}

static void restored(void)
{
	struct kfd_ioctl_criu_args resume = { .pid = getpid() };
	struct aql_queue count, spin;
	struct sdma_queue sdma;
	struct gpu g = open_gpu();
	uint64_t ns;

	IS(restore(&g), 0);
	transfer(1);
	map_restored(&g, COUNT_VA, QUEUE_BYTES);
	map_restored(&g, SPIN_VA, QUEUE_BYTES);
	map_restored(&g, SDMA_VA, QUEUE_BYTES);
	map_restored(&g, DATA_VA, DATA_BYTES);
	find_aql(&count, COUNT_VA);
	find_aql(&spin, SPIN_VA);
	find_queue(&sdma, SDMA_VA);
	CHECK(count_words(counts, COUNTED, 1) == shared->counted);
	CHECK(*count.rptr == 1 && *spin.rptr == 0 && *sdma.rptr == 0);
	usleep(100000);
	CHECK(count_words(counts, COUNTED, 1) == shared->counted);
	ns = now_ns();
	MUST(!criu_op(&g, KFD_CRIU_OP_RESUME, &resume));
	/* Each goes on where it was: not from the beginning, and nothing is done twice. */
	CHECK(completed(&count, 1, 5000));
	CHECK(now_ns() - ns >= (128ull - shared->counted / 1024 - 1) * STEP_US * 1000);
	IS(count_words(counts, COUNTED, 1), COUNTED);
	CHECK(drained(&sdma, 5000) && sdma.words[0] == 99);
	IS(count_words(copy, COPY_BYTES / 4, 7), COPY_BYTES / 4);
	/* The spin had run for a third of the count's 512 ms at least, so 430 ms are left. */
	CHECK(completed(&spin, 0, 5000));
	ns = now_ns() - ns;
	CHECK(ns < 560000000ull);
	CHECK(*count.rptr == 2 && *spin.rptr == 1);
	/* And the queue is as good as new: its doorbell too. */
	count.doorbell = map_doorbell(&g, shared->doorbell_offset);
	CHECK(completed(&count, dispatch(&count, KFDSIM_OP_INCREMENT, DATA_VA, 4096, 2, 0), 2000));
	CHECK(counts[0] == 3 && counts[1024] == 1);
	finish();
}

static size_t find_wave(uint32_t op)
{
	for (size_t i = 0; i + 64 <= shared->args.priv_data_size; i += 8)
		if (*(uint32_t *)(shared->blob + i) == WAVE_MAGIC &&
		    *(uint32_t *)(shared->blob + i + 4) == op)
			return i;
	return 0;
}

/* 64-bit values at offsets of a wave that make it one that cannot be. */
static void bad_waves(void)
{
	static const struct { const char *what; uint32_t op; size_t at; uint64_t value; } cases[] = {
		{ "magic", KFDSIM_OP_INCREMENT, 0, 1 },
		{ "operation", KFDSIM_OP_INCREMENT, 0, 9ull << 32 | WAVE_MAGIC },
		{ "address", KFDSIM_OP_INCREMENT, 8, DATA_VA + 1 },
		{ "huge address", KFDSIM_OP_INCREMENT, 8, ~3ull },
		{ "size", KFDSIM_OP_INCREMENT, 16, 1ull << 60 },
		{ "step time", KFDSIM_OP_INCREMENT, 24, ~0ull },
		{ "progress", KFDSIM_OP_INCREMENT, 32, 129 },
		{ "progress of the spin", KFDSIM_OP_SPIN, 32, SPIN_US + 1 },
		{ "length of the spin", KFDSIM_OP_SPIN, 16, ~0ull },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t wave = find_wave(cases[i].op);
		uint64_t *at = (uint64_t *)(shared->blob + wave + cases[i].at), keep = *at;
		int status;

		MUST(wave);
		*at = cases[i].value;
		if (!fork()) {
			struct gpu g = open_gpu();

			_exit(restore(&g) == -EINVAL ? 0 : 1);
		}
		wait(&status);
		*at = keep;
		check_at(__FILE__, __LINE__, status == 0, "wave with another %s was accepted",
			 cases[i].what);
	}
}

static void run(void (*body)(void))
{
	int status;

	if (!fork())
		body();
	wait(&status);
	CHECK(status == 0);
	/* The SDMA engine of a dead process is free a moment later. */
	for (int i = 0; i < 100 && counter("queues"); i++)
		usleep(20000);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	MUST(shared != MAP_FAILED);
	run(original);
	bad_waves();
	run(restored);
	set_parameter("dma_mbps", 0);
	checks += shared->checks;
	failures += shared->failures;
	return report("queue_criu_test");
}
