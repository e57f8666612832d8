// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * SDMA engines of the first GPU, those for any copy and those for XGMI: what the topology says,
 * queues on each, their doorbells and rates, and their way through CRIU_OP. Needs no XGMI engines, but
 * is told by gpus.sh when there are some.
 */
#include "child.h"
#include "gpus/gpus.h"
#include "criu/image.h"

#define DATA_VA 0x200000000ull
#define RING_VA 0x210000000ull
#define RING(n) (RING_VA + (n) * QUEUE_BYTES)
#define MAX_ENGINES 15			/* a process may have 127 queues on a GPU */
#define QUEUES_PER_ENGINE 8
#define MS 1000000ull
/* Internal type numbers in a blob, and the offset of the type in a queue's record. */
#define BLOB_SDMA 1
#define BLOB_XGMI 4
#define BLOB_TYPE 68
#define BLOB_SDMA_ID 96
#define BLOB_QUEUE_BYTES 120

static uint32_t plain, xgmi, engines;
static struct image *image;

/* GPU with a VM, a ring for each engine, and memory to copy. */
static struct gpu start(void)
{
	struct gpu g = open_gpu();

	MUST(!acquire(&g, g.render));
	make(&g, DATA_VA, 2 * MIB, VRAM);
	for (uint32_t i = 0; i < engines; i++)
		make_ring(&g, RING(i));
	return g;
}

static void destroy(const struct gpu *g, const struct sdma_queue *q)
{
	struct kfd_ioctl_destroy_queue_args a = { .queue_id = q->id };

	IS(try_ioctl(g->kfd, AMDKFD_IOC_DESTROY_QUEUE, &a), 0);
}

/*
 * Engine n has doorbells 256 + 10 n on, every second queue 512 further (vega20_reg_init.c:vega20_doorbell_index_init
 * and
 * kfd_device_queue_manager.c:allocate_doorbell @ 6.12.117).
 */
static void doorbell_is(const struct sdma_queue *q, uint32_t engine, uint32_t queue)
{
	IS(q->doorbell_offset % DOORBELL_SLICE / 8,
	   256 + engine * 10 + queue % 2 * 512 + queue / 2);
}

static void test_numbers(void)
{
	const uint32_t any = KFD_IOC_QUEUE_TYPE_SDMA, other = KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
	const uint32_t by_id = KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID;
	struct gpu g = start();
	struct sdma_queue q;
	uint32_t i;

	for (i = 0; i < engines; i++) {
		IS(create_queue_on(&g, &q, RING(i), by_id, i), 0);
		doorbell_is(&q, i, 0);
		put_fence(&q, DATA_VA, i + 1);
		CHECK(drained(&q, 2000) && *(uint32_t *)DATA_VA == i + 1);
	}
	IS(create_queue_on(&g, &q, RING(0), by_id, engines), -EINVAL);
	/* The rest goes round the engines; then nothing is free, of either kind. */
	for (i = plain; i < plain * QUEUES_PER_ENGINE; i++) {
		MUST(!create_queue_on(&g, &q, RING(0), any, 0));
		doorbell_is(&q, i % plain, i / plain);
	}
	IS(create_queue_on(&g, &q, RING(0), any, 0), -ENOMEM);
	IS(create_queue_on(&g, &q, RING(0), by_id, plain - 1), -ENOMEM);
	for (i = xgmi; i < xgmi * QUEUES_PER_ENGINE; i++) {
		MUST(!create_queue_on(&g, &q, RING(0), other, 0));
		doorbell_is(&q, plain + i % xgmi, i / xgmi);
	}
	IS(create_queue_on(&g, &q, RING(0), other, 0), -ENOMEM);
}

/* ns that MIB takes from the middle of the data to its beginning. */
static uint64_t timed(const struct gpu *g, uint32_t engine)
{
	struct sdma_queue q;
	uint64_t ns;

	*(uint64_t *)(RING(engine) + RING_BYTES) = 0;
	*(uint64_t *)(RING(engine) + RING_BYTES + 64) = 0;
	MUST(!create_queue_on(g, &q, RING(engine), KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine));
	ns = now_ns();
	put_copy(&q, DATA_VA, DATA_VA + MIB, MIB);
	put_fence(&q, q.words_va, 1);
	CHECK(drained(&q, 5000));
	ns = now_ns() - ns;
	destroy(g, &q);
	return ns;
}

/* Each has its own rate; one that the list does not reach has that of the last in it. */
static void test_rates(void)
{
	struct gpu g = start();
	uint64_t ns;

	MUST(engines >= 2);
	set_parameter("dma_mbps", "0,2");
	CHECK(timed(&g, 0) < 400 * MS);
	CHECK(timed(&g, engines - 1) >= 524 * MS);
	set_parameter("vram_mbps", "2,0");
	set_parameter("dma_mbps", "20");
	CHECK(timed(&g, 0) >= 524 * MS);
	ns = timed(&g, engines - 1);
	CHECK(ns >= 52 * MS && ns < 400 * MS);
	set_parameter("vram_mbps", "0");
	set_parameter("dma_mbps", "0");
}

static int parameter_refuses(const char *value)
{
	int fd = open("/sys/module/amdgpu/parameters/dma_mbps", O_WRONLY), ret;

	MUST(fd >= 0);
	ret = write(fd, value, strlen(value)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

static void test_lists(void)
{
	char got[64] = "";
	FILE *f;

	IS(parameter_refuses("1,2,3"), 0);
	IS(parameter_refuses(""), 0);	/* nothing was written */
	IS(parameter_refuses("7,x"), -EINVAL);
	IS(parameter_refuses("7,"), -EINVAL);
	IS(parameter_refuses("-1"), -EINVAL);
	IS(parameter_refuses("1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17"), -EINVAL);
	f = fopen("/sys/module/amdgpu/parameters/dma_mbps", "r");
	MUST(f && fgets(got, sizeof(got), f) && !fclose(f));
	check_at(__FILE__, __LINE__, !strcmp(got, "1,2,3\n"), "dma_mbps is %s", got);
	IS(parameter_refuses("0"), 0);
}

/* A queue on each engine, saved while each waits. */
static void original(void)
{
	struct gpu g = start();
	struct sdma_queue q;
	const uint8_t *at;

	for (uint32_t i = 0; i < engines; i++) {
		MUST(!create_queue_on(&g, &q, RING(i), KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, i));
		put_wait(&q, q.words_va, 5);
		put_fence(&q, DATA_VA + 4 * i, i + 1);
	}
	image_dump(image, g.kfd);
	CHECK(image->info.num_objects == engines);
	at = image->blob + 16 + 272 * image->info.num_bos;
	/* The newest first. */
	for (uint32_t i = engines; i--; at += BLOB_QUEUE_BYTES + sdma_mqd_bytes()) {
		IS(*(uint32_t *)(at + BLOB_TYPE), i < plain ? BLOB_SDMA : BLOB_XGMI);
		IS(*(uint32_t *)(at + BLOB_SDMA_ID), i < plain ? i : i - plain);
	}
}

static struct gpu restore(int want)
{
	struct gpu g = open_gpu();

	image->devices[0].drm_fd = g.render;
	IS(image_restore(image, g.kfd), want);
	return g;
}

static void refused(void)
{
	restore(-EBUSY);
}

static void restored(void)
{
	struct gpu g = restore(0);
	struct sdma_queue q;
	int status;

	image_transfer(image, 1);
	image_map(image, DATA_VA, g.render);
	for (uint32_t i = 0; i < engines; i++)
		image_map_ring(image, RING(i), g.render);
	IS(criu_simple(g.kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	for (uint32_t i = 0; i < engines; i++) {
		find_queue(&q, RING(i));
		CHECK(!drained(&q, 5));
		q.words[0] = 5;
		CHECK(drained(&q, 2000) && ((uint32_t *)DATA_VA)[i] == i + 1);
	}
	/* These queues of the engines are in use now. */
	if (!fork()) {
		failures = 0;
		refused();
		_exit(failures);
	}
	wait(&status);
	CHECK(status == 0);
}

int main(void)
{
	find_nodes();
	plain = property(nodes[0].index, "properties", "num_sdma_engines");
	xgmi = property(nodes[0].index, "properties", "num_sdma_xgmi_engines");
	engines = plain + xgmi;
	MUST(plain && engines <= MAX_ENGINES);
	printf("%u SDMA engines, %u for XGMI\n", plain, xgmi);
	image = shared_memory(sizeof(*image));
	in_child("engine_test, numbers", test_numbers);
	in_child("engine_test, rates", test_rates);
	in_child("engine_test, lists", test_lists);
	in_child("engine_test, dumped", original);
	in_child("engine_test, restored", restored);
	return report("engine_test");
}
