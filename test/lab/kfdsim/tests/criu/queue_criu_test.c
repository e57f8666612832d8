// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A checkpoint in the middle of everything: one process is stopped half-way through an
 * increment, a spin and a copy; another one is restored from it and goes on where the first
 * one was, unless the kernel loses what was stopped, or somebody the save area.
 */
#include "engines/aql.h"
#include "child.h"
#include "gpus/gpus.h"
#include "criu/image.h"
#include "kernel.h"
#include "own_objects.h"

#define COUNT_VA 0x200000000ull
#define SPIN_VA 0x201000000ull
#define SDMA_VA 0x202000000ull
#define DATA_VA 0x210000000ull
#define DATA_BYTES (16 * MIB)
#define COUNTED (128u * 1024)		/* words: 128 steps of 4 KiB */
#define STEP_US 4000
#define SPIN_US 600000
#define COPY_BYTES (6 * MIB)
#define COPY_MBPS "12"			/* 524 ms */

static struct {
	struct image image;
	uint64_t doorbell_offset;
	uint32_t counted, copied;
} *shared;

static volatile uint32_t *const counts = (uint32_t *)DATA_VA;
static volatile uint32_t *const source = (uint32_t *)(DATA_VA + 4 * MIB);
static volatile uint32_t *const copy = (uint32_t *)(DATA_VA + 10 * MIB);

static void original(void)
{
	struct gpu g = open_gpu();
	struct aql_queue count, spin;
	struct sdma_queue sdma;

	MUST(!acquire(&g, g.render));
	make_aql(&g, COUNT_VA);
	make_aql(&g, SPIN_VA);
	make_ring(&g, SDMA_VA);
	make(&g, DATA_VA, DATA_BYTES, VRAM);
	for (uint32_t i = 0; i < COPY_BYTES / 4; i++)
		source[i] = 7;
	MUST(!create_aql(&g, &count, COUNT_VA));
	MUST(!create_aql(&g, &spin, SPIN_VA));
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
	image_dump(&shared->image, g.kfd);
	shared->counted = count_words(counts, COUNTED, 1);
	shared->copied = count_words(copy, COPY_BYTES / 4, 7);
	CHECK(shared->counted && shared->counted < COUNTED && shared->counted % 1024 == 0);
	CHECK(shared->copied && shared->copied < COPY_BYTES / 4);
}

static int restore(const struct gpu *g)
{
	shared->image.devices[0].drm_fd = g->render;
	return image_restore(&shared->image, g->kfd);
}

static uint32_t gfx(void)
{
	return gpu_property(gpu_id(), "gfx_target_version") / 10000;
}

static int has_xccs(void)
{
	return property(nodes[0].index, "properties", "num_xcc") > 1;
}

/*
 * The control stack of gfx10 and later is not in a blob, and 6.12.117 takes its size from there: no such queue comes
 * back (kfd_process_queue_manager.c:kfd_criu_restore_queue, kfd_queue.c:kfd_queue_acquire_buffers @ 6.12.117). Of
 * several XCCs 7.2 and 7.3 save all, and want the size of one (kfd_criu_restore_queue @ 7.3.4).
 */
static int cannot_restore(void)
{
	return (kernel_now()->acquires && gfx() >= 10) || (kernel_now()->saves_xccs && has_xccs());
}

/* What was stopped in the middle of a dispatch stays there: nobody knows of all XCCs, or of the control stack. */
static int loses_dispatches(void)
{
	return on_kfdsim() && (has_xccs() || (kernel_now()->loses_stack && gfx() == 9));
}

/* Of the dispatch that this queue runs, in its own unit. It changes when the queue stops. */
static uint64_t progress(unsigned int queue)
{
	unsigned long long value;
	const char *line, *at;
	char begin[32];

	snprintf(begin, sizeof(begin), "queue id=%u ", queue);
	line = strstr(own_objects(), begin);
	MUST(line);
	at = strstr(line, " progress=");
	MUST(at && sscanf(at, " progress=%llu", &value) == 1);
	return value;
}

static void restored(void)
{
	struct aql_queue count, spin;
	struct sdma_queue sdma;
	struct gpu g = open_gpu();
	uint64_t ns, spun;

	if (cannot_restore()) {
		IS(restore(&g), -EINVAL);
		return;
	}
	IS(restore(&g), 0);
	image_transfer(&shared->image, 1);
	image_map_aql(&shared->image, COUNT_VA, g.render);
	image_map_aql(&shared->image, SPIN_VA, g.render);
	image_map_ring(&shared->image, SDMA_VA, g.render);
	image_map(&shared->image, DATA_VA, g.render);
	find_aql(&count, COUNT_VA);
	find_aql(&spin, SPIN_VA);
	find_queue(&sdma, SDMA_VA);
	CHECK(count_words(counts, COUNTED, 1) == shared->counted);
	CHECK(*count.rptr == 1 && *spin.rptr == 0 && *sdma.rptr == 0);
	usleep(100000);
	CHECK(count_words(counts, COUNTED, 1) == shared->counted);
	ns = now_ns();
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_RESUME, getpid()));
	if (loses_dispatches()) {
		CHECK(!completed(&count, 1, 1000) && !completed(&spin, 0, 0));
		IS(count_words(counts, COUNTED, 1), shared->counted);
		return;
	}
	/* The spin had run for a third of the count at least. The kernel may bring queues back in the background. */
	while (!(spun = progress(1)) && !completed(&spin, 0, 0))
		usleep(1000);
	CHECK(spun >= COUNTED / 1024 * STEP_US / 3);
	CHECK(drained(&sdma, 5000) && sdma.words[0] == 99);
	IS(count_words(copy, COPY_BYTES / 4, 7), COPY_BYTES / 4);
	/* Each goes on where it was: not from the beginning, and nothing is done twice. */
	CHECK(completed(&count, 1, 5000));
	CHECK(now_ns() - ns >= (128ull - shared->counted / 1024 - 1) * STEP_US * 1000);
	IS(count_words(counts, COUNTED, 1), COUNTED);
	CHECK(completed(&spin, 0, 5000));
	CHECK(*count.rptr == 2 && *spin.rptr == 1);
	/* And the queue is as good as new: its doorbell too. */
	count.doorbell = map_doorbell(&g, shared->doorbell_offset);
	CHECK(completed(&count, dispatch(&count, KFDSIM_OP_INCREMENT, DATA_VA, 4096, 2, 0), 2000));
	CHECK(counts[0] == 3 && counts[1024] == 1);
}

/* The wave of the queue at va: in its save area, behind the control stack. */
static uint64_t *saved_wave(uint64_t va)
{
	struct gpu g = { .id = gpu_id() };
	struct kfd_criu_bo_bucket *b = image_bo(&shared->image, va + AQL_SAVE);

	return (uint64_t *)(shared->image.contents[b - shared->image.bos] + ctl_stack_size(&g));
}

static int damage;

/* RESTORE and RESUME take a save area as it is; the queue that finds another wave there faults, and all stop. */
static void damaged(void)
{
	uint64_t *count = saved_wave(COUNT_VA), *spin = saved_wave(SPIN_VA), kept[8];
	struct gpu g = open_gpu();
	long long faults = counter("gpu_faults");

	memcpy(kept, count, sizeof(kept));
	if (damage == 0)
		memset(count, 0, sizeof(kept));
	else if (damage == 1)
		count[4]--;
	else
		memcpy(count, spin, sizeof(kept));
	IS(restore(&g), 0);
	image_transfer(&shared->image, 1);
	memcpy(count, kept, sizeof(kept));
	image_map(&shared->image, DATA_VA, g.render);
	MUST(!criu_simple(g.kfd, KFD_CRIU_OP_RESUME, getpid()));
	for (int i = 0; i < 200 && counter("gpu_faults") == faults; i++)
		usleep(10000);
	CHECK(counter("gpu_faults") > faults);
	IS(count_words(counts, COUNTED, 1), shared->counted);
}

int main(void)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	find_nodes();
	shared = shared_memory(sizeof(*shared));
	in_child("queue_criu_test, dumped", original);
	CHECK(gone(5000));
	if (!cannot_restore() && !loses_dispatches())
		for (damage = 0; damage < 3; damage++)
			in_child("queue_criu_test, restored with another save area", damaged);
	in_child("queue_criu_test, restored", restored);
	set_parameter("dma_mbps", "0");
	return report("queue_criu_test");
}
