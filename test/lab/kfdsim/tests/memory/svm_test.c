// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The SVM ioctl and SVM ranges in CRIU_OP: absent as in Debian's 6.12, then as in 7.2 and 7.3.
 */
#define _GNU_SOURCE
#include "criu/blob.h"
#include "child.h"
#include "criu/image.h"

#define PAGE 4096ull
#define MIB (1024ull * 1024)
#define VA 0x300000000ull
#define MAX_ATTRS 8

static struct gpu gpu;

/* attrs: type, value pairs; room: how many the call says it brings. */
static int svm_call(uint32_t op, uint64_t va, uint64_t size, uint32_t n, uint32_t room,
		    struct kfd_ioctl_svm_attribute *attrs)
{
	struct {
		struct kfd_ioctl_svm_args head;
		struct kfd_ioctl_svm_attribute attrs[MAX_ATTRS];
	} a = { .head = { .start_addr = va, .size = size, .op = op, .nattr = n } };
	size_t bytes = sizeof(a.head) + room * sizeof(*attrs);
	int ret;

	memcpy(a.attrs, attrs, room * sizeof(*attrs));
	ret = try_ioctl(gpu.kfd, _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, bytes), &a);
	memcpy(attrs, a.attrs, room * sizeof(*attrs));
	return ret;
}

static int set_one(uint64_t va, uint64_t size, uint32_t type, uint32_t value)
{
	struct kfd_ioctl_svm_attribute attr = { type, value };

	return svm_call(KFD_IOCTL_SVM_OP_SET_ATTR, va, size, 1, 1, &attr);
}

/* Value of an attribute, the type for ACCESS; ~1 if it cannot be had. */
static uint32_t get_one(uint64_t va, uint64_t size, uint32_t type)
{
	struct kfd_ioctl_svm_attribute attr = { type, gpu.id };

	if (svm_call(KFD_IOCTL_SVM_OP_GET_ATTR, va, size, 1, 1, &attr))
		return ~1u;
	return type == KFD_IOCTL_SVM_ATTR_ACCESS ? attr.type : attr.value;
}

static void map_user(uint64_t va, uint64_t size)
{
	MUST(mmap((void *)va, size, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
}

static void test_errors(void)
{
	struct kfd_ioctl_svm_attribute attrs[2] = { { KFD_IOCTL_SVM_ATTR_GRANULARITY, 1 },
						    { KFD_IOCTL_SVM_ATTR_GRANULARITY, 2 } };
	const uint32_t set = KFD_IOCTL_SVM_OP_SET_ATTR, get = KFD_IOCTL_SVM_OP_GET_ATTR;
	struct gpu other = gpu;
	struct memory m;

	IS(svm_call(set, 0, MIB, 1, 1, attrs), -EINVAL);
	IS(svm_call(set, VA, 0, 1, 1, attrs), -EINVAL);
	IS(svm_call(set, VA + 1, MIB, 1, 1, attrs), -EINVAL);
	IS(svm_call(set, VA, MIB + 1, 1, 1, attrs), -EINVAL);
	IS(svm_call(2, VA, MIB, 1, 1, attrs), -EINVAL);
	/* More attributes than the call brings. */
	IS(svm_call(set, VA, MIB, 3, 2, attrs), -EINVAL);
	IS(svm_call(set, VA, MIB, ~0u, 2, attrs), -EINVAL);
	/* Attributes are looked at before memory. */
	IS(set_one(VA + 64 * MIB, MIB, 99, 0), -EINVAL);
	IS(set_one(VA + 64 * MIB, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, gpu.id ^ 1), -EINVAL);
	IS(set_one(VA + 64 * MIB, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu.id ^ 1), -EINVAL);
	IS(set_one(VA + 64 * MIB, MIB, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ~0u), -EINVAL);
	IS(set_one(VA + 64 * MIB, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, ~0u), -EFAULT);
	IS(set_one(VA, 64 * MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), -EFAULT);
	IS(set_one(-PAGE, 64 * MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), -EFAULT);
	IS(svm_call(get, VA + 64 * MIB, MIB, 1, 1, attrs), -EFAULT);
	attrs[0].type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
	IS(svm_call(get, VA, MIB, 1, 1, attrs), -EINVAL);
	CHECK(counter("svm_ranges") == 0);

	/* Device memory is none, and where a buffer object is there is no range. */
	m = make(&gpu, VA + 128 * MIB, MIB, GTT);
	IS(set_one(VA + 128 * MIB, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), -EFAULT);
	map_user(VA + 128 * MIB, MIB);
	IS(set_one(VA + 128 * MIB, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), -EADDRINUSE);
	IS(unmap_gpu(&gpu, &m), 0);
	IS(free_gpu(&gpu, &m), 0);
	IS(set_one(VA + 128 * MIB, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), 0);
	IS(allocate(&gpu, &m, VA + 128 * MIB + 4096, 4096, VRAM | WRITABLE, 0), -EADDRINUSE);
	/* The range is found before a GPU that is unknown; behind a userptr there is none either. */
	other.id ^= 1;
	IS(allocate(&other, &m, VA + 128 * MIB, 4096, VRAM | WRITABLE, 0), -EADDRINUSE);
	IS(allocate(&gpu, &m, VA + 192 * MIB, 4096, USERPTR | WRITABLE, VA + 128 * MIB),
	   -EADDRINUSE);
	/* VRAM at 0 is VRAM without an address. */
	IS(allocate(&gpu, &m, 0, VA + 129 * MIB, GTT | WRITABLE, 0), -EADDRINUSE);
	IS(allocate(&gpu, &m, 0, VA + 129 * MIB, VRAM | WRITABLE, 0), -ENOMEM);
	munmap((void *)(VA + 128 * MIB), MIB);
	CHECK(counter("svm_ranges") == 0);
	IS(allocate(&gpu, &m, VA + 128 * MIB + 4096, 4096, VRAM | WRITABLE, 0), 0);
	IS(free_gpu(&gpu, &m), 0);
}

static void test_attributes(void)
{
	/* What memory has that nobody set anything for. */
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC) == ~0u);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFETCH_LOC) == ~0u);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_SET_FLAGS) == 3);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_CLR_FLAGS) == ~3u);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 9);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_ACCESS) == KFD_IOCTL_SVM_ATTR_NO_ACCESS);

	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, gpu.id), 0);
	CHECK(counter("svm_ranges") == 1);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_ACCESS) == KFD_IOCTL_SVM_ATTR_ACCESS);
	/* The middle gets attributes of its own: three ranges, and what all have in common. */
	IS(set_one(VA + 4 * PAGE, 4 * PAGE, KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu.id), 0);
	IS(set_one(VA + 4 * PAGE, 4 * PAGE, KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 2), 0);
	IS(set_one(VA + 4 * PAGE, 4 * PAGE, KFD_IOCTL_SVM_ATTR_SET_FLAGS, 16), 0);
	IS(set_one(VA + 4 * PAGE, 4 * PAGE, KFD_IOCTL_SVM_ATTR_GRANULARITY, 200), 0);
	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu.id), 0);
	CHECK(counter("svm_ranges") == 3);
	CHECK(get_one(VA + 4 * PAGE, 4 * PAGE, KFD_IOCTL_SVM_ATTR_ACCESS) ==
	      KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_ACCESS) == KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	CHECK(get_one(VA + 4 * PAGE, PAGE, KFD_IOCTL_SVM_ATTR_SET_FLAGS) == 17);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_SET_FLAGS) == 1);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_CLR_FLAGS) == ~19u);
	CHECK(get_one(VA + 4 * PAGE, PAGE, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 63);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 9);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC) == gpu.id);
	IS(set_one(VA, 2 * PAGE, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0), 0);
	CHECK(get_one(VA, PAGE, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC) == 0);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC) == ~0u);
	CHECK(counter("svm_ranges") == 4);
	/* What does not change does not split. */
	IS(set_one(VA + 3 * PAGE, PAGE, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu.id), 0);
	CHECK(counter("svm_ranges") == 4);
}

/* Ranges go with the memory, in whole or in part, and do not come back with it. */
static void test_unmap(void)
{
	munmap((void *)(VA + 6 * PAGE), PAGE);
	CHECK(counter("svm_ranges") == 5);
	CHECK(get_one(VA + 4 * PAGE, 2 * PAGE, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 63);
	CHECK(get_one(VA + 7 * PAGE, PAGE, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 63);
	map_user(VA + 6 * PAGE, PAGE);
	CHECK(get_one(VA + 6 * PAGE, PAGE, KFD_IOCTL_SVM_ATTR_GRANULARITY) == 9);
	map_user(VA, 3 * PAGE);
	CHECK(counter("svm_ranges") == 4);
	munmap((void *)VA, MIB);
	CHECK(counter("svm_ranges") == 0);
	map_user(VA, MIB);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_SET_FLAGS) == 3);
}

/* A long range is made of pieces whose length VRAM decides. */
static void test_long(void)
{
	MUST(mmap((void *)(VA + 1024 * MIB), 4096 * MIB, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED);
	IS(set_one(VA + 1024 * MIB, 4096 * MIB, KFD_IOCTL_SVM_ATTR_ACCESS, gpu.id), 0);
	CHECK(counter("svm_ranges") >= 4);
	munmap((void *)(VA + 1024 * MIB), 4096 * MIB);
	CHECK(counter("svm_ranges") == 0);
}

static void test_dump(struct blob *b)
{
	struct kfd_ioctl_criu_args a = {};
	const uint32_t want[5][2] = {
		{ KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu.id },
		{ KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, ~0u },
		{ KFD_IOCTL_SVM_ATTR_SET_FLAGS, 1 },
		{ KFD_IOCTL_SVM_ATTR_GRANULARITY, 9 },
		{ KFD_IOCTL_SVM_ATTR_ACCESS, gpu.id },
	};
	uint8_t *at = b->data + 16;

	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_ACCESS, gpu.id), 0);
	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu.id), 0);
	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_CLR_FLAGS, 2), 0);
	IS(set_one(VA, PAGE, KFD_IOCTL_SVM_ATTR_NO_ACCESS, gpu.id), 0);
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_PROCESS_INFO, &a), 0);
	CHECK(a.num_objects == 2 && a.num_bos == 0 && a.priv_data_size == 16 + 2 * BLOB_SVM_BYTES);
	blob_begin(b, gpu.id);
	a.devices = (uintptr_t)&b->device;
	a.bos = (uintptr_t)b->bos;
	a.priv_data = (uintptr_t)b->data;
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_CHECKPOINT, &a), 0);
	b->used = a.priv_data_size;
	b->nr_objects = a.num_objects;
	CHECK(get32(at) == 2 && get64(at + 8) == VA / PAGE && get64(at + 16) == 1);
	CHECK(get32(at + 24 + 4 * 8) == KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	at += BLOB_SVM_BYTES;
	CHECK(get32(at) == 2 && get64(at + 8) == VA / PAGE + 1 && get64(at + 16) == MIB / PAGE - 1);
	CHECK(!memcmp(at + 24, want, sizeof(want)));
	/* A range that goes between the two calls is a mismatch. */
	munmap((void *)VA, PAGE);
	IS(criu_op(gpu.kfd, KFD_CRIU_OP_CHECKPOINT, &a), -EINVAL);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0), 0);
}

static struct blob *saved;

static void restore(int memory, int want)
{
	gpu = open_gpu();
	IS(blob_restore(saved, &gpu), 0);
	CHECK(counter("svm_ranges") == 0);
	if (memory)
		map_user(VA, MIB);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), want);
}

static void child_restores(void)
{
	restore(1, 0);
	CHECK(counter("svm_ranges") == 2);
	CHECK(get_one(VA, PAGE, KFD_IOCTL_SVM_ATTR_ACCESS) == KFD_IOCTL_SVM_ATTR_NO_ACCESS);
	CHECK(get_one(VA + PAGE, PAGE, KFD_IOCTL_SVM_ATTR_ACCESS) == KFD_IOCTL_SVM_ATTR_ACCESS);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_SET_FLAGS) == 1);
	CHECK(get_one(VA, MIB, KFD_IOCTL_SVM_ATTR_PREFERRED_LOC) == gpu.id);
}

/* Without its memory a range is not set, and RESUME says so before it looks at anything else. */
static void child_without_memory(void)
{
	restore(0, -EFAULT);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), 0);
	IS(criu_simple(gpu.kfd, KFD_CRIU_OP_RESUME, getpid()), -EINVAL);
	CHECK(counter("svm_ranges") == 0);
}

/* Ranges are taken as they are and found wrong by RESUME. */
static void child_bad_range(void)
{
	put64(saved->data + 16 + 16, 0);
	restore(1, -EFAULT);
}

static void child_bad_attribute(void)
{
	put32(saved->data + 16 + 24, 50);
	restore(1, -EINVAL);
}

static void child_6_12(void)
{
	const struct kernel *later = kernel_now();

	behave_as(&kernels[KERNEL_OF_GUEST]);
	gpu = open_gpu();
	behave_as(later);
	map_user(VA, MIB);
	IS(set_one(VA, MIB, KFD_IOCTL_SVM_ATTR_GRANULARITY, 1), -EPERM);
	IS(blob_restore(saved, &gpu), -EINVAL);
}

static void child_main(void)
{
	gpu = open_gpu();
	MUST(!acquire(&gpu, gpu.render));
	map_user(VA, MIB);
	test_errors();
	test_attributes();
	test_unmap();
	test_long();
	test_dump(saved);
}

static void all_of(const struct kernel *kernel)
{
	behave_as(kernel);
	memset(saved, 0, sizeof(*saved));
	in_child("svm_test, a life", child_main);
	in_child("svm_test, restored", child_restores);
	in_child("svm_test, restored without memory", child_without_memory);
	in_child("svm_test, 6.12", child_6_12);
	in_child("svm_test, range that cannot be", child_bad_range);
	put64(saved->data + 16 + 16, 1);
	in_child("svm_test, attribute that cannot be", child_bad_attribute);
}

int main(void)
{
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (skip_on_real("Debian's 6.12 is built without SVM"))
		return report("svm_test");
	saved = shared_memory(sizeof(*saved));
	for (i = 0; i < KERNELS; i++)
		if (kernels[i].svm)
			all_of(&kernels[i]);
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("svm_test");
}
