// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What memory KFD gives away (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_reserve_mem_limit @ 6.12.117). */
#define _GNU_SOURCE
#include <sys/sysinfo.h>

#include "child.h"
#include "drm/gem.h"

#define KEPT (8 * MIB) /* at least: amdgpu_vm.h:AMDGPU_VM_RESERVED_VRAM */
#define USED "/sys/class/drm/renderD128/device/mem_info_vram_used"

static struct gpu with_vm(void)
{
	struct gpu g = open_gpu();

	MUST(!acquire(&g, g.render));
	return g;
}

static uint64_t ram(void)
{
	struct sysinfo si;

	MUST(!sysinfo(&si));
	return (uint64_t)si.totalram * si.mem_unit;
}

static struct drm_amdgpu_memory_info memory_info(int fd)
{
	struct drm_amdgpu_memory_info info = {};
	struct drm_amdgpu_info a = { .return_pointer = (uintptr_t)&info, .return_size = sizeof(info),
				     .query = AMDGPU_INFO_MEMORY };

	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_INFO, &a));
	return info;
}

/* It is told less than there is, in units of 2 MiB, and knows nothing of what GEM has. */
static void test_vram(void)
{
	struct gpu g = with_vm();
	uint64_t before = available(&g);
	struct memory m, rest;

	CHECK(before % (2 * MIB) == 0 && before + KEPT <= memory_info(g.render).vram.total_heap_size);
	IS(allocate(&g, &m, VA, 4096, VRAM | WRITABLE, 0), 0);
	CHECK(available(&g) == before - 2 * MIB);
	IS(free_gpu(&g, &m), 0);
	create(g.render, 4 * MIB, AMDGPU_GEM_DOMAIN_VRAM, 0);
	CHECK(available(&g) == before);
	IS(allocate(&g, &rest, VA, before + 4 * MIB, VRAM | WRITABLE, 0), -ENOMEM);
}

/* Half of the machine's memory as GTT, for all GPUs. */
static void test_gtt(void)
{
	struct gpu g = with_vm();
	uint64_t gtt = memory_info(g.render).gtt.total_heap_size;
	struct memory m;

	CHECK(gtt <= ram() / 2 && gtt + 4096 > ram() / 2);
	IS(allocate(&g, &m, VA, gtt + 4096, GTT | WRITABLE, 0), -ENOMEM);
	IS(allocate(&g, &m, VA, MIB, GTT | WRITABLE, 0), 0);
}

static uint64_t vram_used(void)
{
	unsigned long long used;
	FILE *f = fopen(USED, "r");

	MUST(f && fscanf(f, "%llu", &used) == 1);
	fclose(f);
	return used;
}

static void user_of_vram(void)
{
	struct gpu g = with_vm();
	struct memory m;

	MUST(!allocate(&g, &m, VA, 16 * MIB, VRAM | WRITABLE, 0));
}

/* Memory of a process that has ended is there some time later. */
static void test_late(void)
{
	uint64_t before = vram_used();
	int status;

	if (skip_on_real("there it takes the time that it takes"))
		return;
	set_parameter("release_ms", "300");
	if (!fork()) {
		user_of_vram();
		_exit(failures);
	}
	wait(&status);
	CHECK(!status && vram_used() == before + 16 * MIB);
	usleep(100000);
	CHECK(vram_used() == before + 16 * MIB);
	CHECK(gone(2000) && vram_used() == before);
	set_parameter("release_ms", "0");
}

int main(void)
{
	in_child("limits_test, VRAM", test_vram);
	in_child("limits_test, GTT", test_gtt);
	test_late();
	return report("limits_test");
}
