// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The flags of GEM_CREATE that each kernel takes: amdgpu_gem.c:amdgpu_gem_create_ioctl @ 6.1.192, 6.12.118, 7.3.4. */
#include "child.h"
#include "drm/gem.h"
#include "kernel.h"

static const struct {
	uint64_t flag;
	const char *since;
} flags[] = {
	{ AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED, "6.1" },
	{ AMDGPU_GEM_CREATE_VRAM_CLEARED, "6.1" },
	{ AMDGPU_GEM_CREATE_DISCARDABLE, "6.1" },
	{ 1 << 16, "6.12.107" },			/* GFX12_DCC */
	{ AMDGPU_GEM_CREATE_VRAM_WIPE_ON_RELEASE, "7.2" },
	{ AMDGPU_GEM_CREATE_COHERENT, "7.2" },
	{ AMDGPU_GEM_CREATE_UNCACHED, "7.2" },
	{ 1 << 15, "7.2" },				/* EXT_COHERENT */
	{ AMDGPU_GEM_CREATE_VRAM_CONTIGUOUS, "never" },
	{ 1ull << 40, "never" },
};

static int place(const char *name)
{
	int i;

	for (i = 0; i < KERNELS && strcmp(kernels[i].name, name); i++)
		;
	return i;
}

static void test_flags(void)
{
	int fd = open_node();

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
		union drm_amdgpu_gem_create c = { .in = { .bo_size = 4096, .domains = AMDGPU_GEM_DOMAIN_VRAM,
							  .domain_flags = flags[i].flag } };
		int taken = kernel_now() - kernels >= place(flags[i].since);

		IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &c), taken ? 0 : -EINVAL);
	}
	close(fd);
}

int main(void)
{
	for (int i = 0; i < KERNELS; i++)
		if (behave_as(&kernels[i]))
			test_flags();
	behave_as(&kernels[KERNEL_OF_GUEST]);
	return report("gem_flags_test");
}
