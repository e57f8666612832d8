// SPDX-License-Identifier: GPL-2.0 OR MIT
/* GEM handles: lists, mappings, changed numbers; ids of contexts and BO lists. */
#define _GNU_SOURCE
#include <sys/utsname.h>
#include <sys/wait.h>

#include "drm/gem.h"
#include "kernel.h"

/* The core has the ioctl since 6.18, switched off; then the driver alone cannot make it absent. */
static int core_knows_change_handle(void)
{
	struct utsname name;
	unsigned int major = 0, minor = 0;

	MUST(!uname(&name));
	MUST(sscanf(name.release, "%u.%u", &major, &minor) == 2);
	return major > 6 || (major == 6 && minor >= 18);
}

static int list_maps(int fd, uint32_t handle, struct sim_gem_vm_entry *entries, uint32_t *n)
{
	struct sim_gem_op a = { .handle = handle, .op = SIM_GEM_OP_GET_MAPPING_INFO,
				.value = (uintptr_t)entries, .num_entries = *n };
	int ret = try_ioctl(fd, DRM_IOCTL_SIM_GEM_OP, &a);

	*n = a.num_entries;
	return ret;
}

static int change(int fd, uint32_t handle, uint32_t new_handle)
{
	struct sim_gem_change_handle a = { handle, new_handle };

	return try_ioctl(fd, DRM_IOCTL_SIM_GEM_CHANGE_HANDLE, &a);
}

static void test_list(void)
{
	struct sim_gem_handle_entry e[4] = {};
	struct sim_gem_list_handles bad = { .num_entries = 4, .padding = 1 };
	void *page = aligned_alloc(4096, 8192);
	struct drm_amdgpu_gem_userptr user = { .addr = (uintptr_t)page, .size = 8192,
					       .flags = AMDGPU_GEM_USERPTR_REGISTER };
	int fd = open_node();
	uint32_t n = 4;

	IS(list_handles(fd, e, &n), -EINVAL);
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_LIST_HANDLES, NULL), -EINVAL);
	set_parameter("gem_list_handles", "disabled");
	IS(list_handles(fd, e, &n), -EINVAL);
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_LIST_HANDLES, NULL), -EFAULT);
	set_parameter("gem_list_handles", "working\n");
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_LIST_HANDLES, &bad), -EINVAL);

	IS(list_handles(fd, e, &n), 0);
	CHECK(n == 0);
	CHECK(create(fd, 12 * KIB, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_CPU_GTT_USWC) == 1);
	CHECK(create(fd, 4 * KIB, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_EXPLICIT_SYNC) == 2);
	MUST(page && !try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &user));
	CHECK(user.handle == 3);
	n = 2;
	IS(list_handles(fd, e, &n), 0);
	CHECK(n == 3 && !e[0].gem_handle);
	IS(list_handles(fd, (void *)8, &n), -EFAULT);
	n = 4;
	IS(list_handles(fd, e, &n), 0);
	CHECK(n == 3 && e[0].gem_handle == 1 && e[1].gem_handle == 2 && e[2].gem_handle == 3);
	CHECK(e[0].size == 12 * KIB && e[0].preferred_domains == AMDGPU_GEM_DOMAIN_VRAM);
	CHECK(e[0].alloc_flags ==
	      (AMDGPU_GEM_CREATE_CPU_GTT_USWC | AMDGPU_GEM_CREATE_VRAM_CLEARED));
	CHECK(e[0].alignment == 8192 && !e[0].flags);
	CHECK(e[1].preferred_domains == AMDGPU_GEM_DOMAIN_GTT && e[2].size == 8192);
	CHECK(!e[3].gem_handle);

	/* Handles are the lowest free numbers. */
	MUST(!drmCloseBufferHandle(fd, 2));
	IS(list_handles(fd, e, &n), 0);
	CHECK(n == 2 && e[1].gem_handle == 3);
	CHECK(create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0) == 2);
	close(fd);
	free(page);
	set_parameter("gem_list_handles", "absent");
}

static void test_mappings(void)
{
	struct sim_gem_vm_entry e[3] = {};
	struct drm_amdgpu_gem_op old = { .op = SIM_GEM_OP_GET_MAPPING_INFO };
	struct sim_gem_op bad = { .op = SIM_GEM_OP_GET_MAPPING_INFO, .padding = 1 };
	int fd = open_node(), other = open_node(), dmabuf;
	uint32_t h = create(fd, 64 * KIB, AMDGPU_GEM_DOMAIN_VRAM, 0), n = 3, foreign;
	long long maps = counter("maps");

	IS(list_maps(fd, h, e, &n), -EINVAL);
	set_parameter("gem_mapping_info", "disabled");
	IS(list_maps(fd, h, e, &n), -EINVAL);
	set_parameter("gem_mapping_info", "working");
	IS(list_maps(fd, h + 1, e, &n), -ENOENT);
	bad.handle = h;
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_OP, &bad), -EINVAL);
	IS(list_maps(fd, h, e, &n), 0);
	CHECK(n == 0);
	IS(map_va(fd, h, VA, 32 * KIB, 16 * KIB), 0);
	IS(map_va(fd, h, VA + MIB, 64 * KIB, 0), 0);
	/* The structure of 6.12 has no room for a number: only asks whether there are any. */
	old.handle = h;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_OP, &old), 0);
	n = 1;
	IS(list_maps(fd, h, e, &n), 0);
	CHECK(n == 2 && !e[0].size);
	IS(list_maps(fd, h, (void *)8, &n), -EFAULT);
	n = 3;
	IS(list_maps(fd, h, e, &n), 0);
	CHECK(n == 2 && !e[2].size);
	CHECK(e[0].addr == VA + MIB && e[0].size == 64 * KIB && !e[0].offset);
	CHECK(e[1].addr == VA && e[1].size == 32 * KIB && e[1].offset == 16 * KIB);
	CHECK(e[0].flags == MAP_FLAGS && e[1].flags == MAP_FLAGS);

	/* Another file has its own address space. */
	dmabuf = share(fd, h);
	MUST(!drmPrimeFDToHandle(other, dmabuf, &foreign));
	IS(list_maps(other, foreign, e, &n), 0);
	CHECK(n == 0);
	IS(map_va(other, foreign, VA, 64 * KIB, 0), 0);
	CHECK(counter("maps") == maps + 3);
	/* Mappings go with the last handle of their file, though others have the BO still. */
	MUST(!drmCloseBufferHandle(fd, h));
	CHECK(counter("maps") == maps + 1);
	MUST(!drmPrimeFDToHandle(fd, dmabuf, &h));
	n = 3;
	IS(list_maps(fd, h, e, &n), 0);
	CHECK(n == 0);
	close(dmabuf);
	close(fd);
	close(other);
	set_parameter("gem_mapping_info", "absent");
}

static void test_change(void)
{
	union drm_amdgpu_gem_mmap m = {};
	struct sim_gem_vm_entry e;
	int fd = open_node(), dmabuf, again;
	uint32_t h = create(fd, 64 * KIB, AMDGPU_GEM_DOMAIN_VRAM, 0), same, n = 1, *p;
	uint32_t second = create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);

	IS(change(fd, h, 57), -EINVAL);
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_CHANGE_HANDLE, NULL), core_knows_change_handle() ? -EFAULT : -EINVAL);
	set_parameter("gem_change_handle", "disabled");
	IS(change(fd, h, 57), -EINVAL);
	IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_CHANGE_HANDLE, NULL), -EFAULT);
	set_parameter("gem_change_handle", "working");
	IS(change(fd, 99, 57), -ENOENT);
	IS(change(fd, h, second), -ENOSPC);
	IS(change(fd, h, 0), -EINVAL);
	IS(change(fd, h, 0x7fffffff), -EINVAL);
	IS(change(fd, h, ~0u), -EINVAL);
	IS(change(fd, h, h), 0);

	dmabuf = share(fd, h);
	p = map_dmabuf(dmabuf, 64 * KIB);
	IS(map_va(fd, h, VA, 64 * KIB, 0), 0);
	p[7] = 0xc4a6;
	IS(change(fd, h, 57), 0);
	IS(change(fd, h, 58), -ENOENT);
	CHECK(drmCloseBufferHandle(fd, h) < 0 && errno == EINVAL);
	/* Identity, mappings and offset are those of before. */
	MUST(!drmPrimeFDToHandle(fd, dmabuf, &same));
	CHECK(same == 57);
	again = share(fd, 57);
	CHECK(inode(again) == inode(dmabuf));
	close(again);
	set_parameter("gem_mapping_info", "working");
	IS(list_maps(fd, 57, &e, &n), 0);
	CHECK(n == 1 && e.addr == VA);
	set_parameter("gem_mapping_info", "absent");
	m.in.handle = 57;
	MUST(!try_ioctl(fd, DRM_IOCTL_AMDGPU_GEM_MMAP, &m));
	munmap(p, 64 * KIB);
	p = mmap(NULL, 64 * KIB, PROT_READ, MAP_SHARED, fd, m.out.addr_ptr);
	CHECK(p != MAP_FAILED && p[7] == 0xc4a6);
	munmap(p, 64 * KIB);
	CHECK(create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0) == h);
	/* One that was never shared, to the highest number there is and back. */
	IS(change(fd, second, 0x7ffffffe), 0);
	IS(change(fd, 0x7ffffffe, second), 0);
	IS(drmCloseBufferHandle(fd, 57), 0);
	MUST(!drmPrimeFDToHandle(fd, dmabuf, &same));
	CHECK(same == 3);
	close(dmabuf);
	close(fd);
	set_parameter("gem_change_handle", "absent");
}

static void test_ids(void)
{
	struct drm_amdgpu_bo_list_entry entry = {};
	union drm_amdgpu_bo_list list = { .in = { .operation = AMDGPU_BO_LIST_OP_CREATE,
						  .bo_number = 1, .bo_info_size = sizeof(entry),
						  .bo_info_ptr = (uintptr_t)&entry } };
	union drm_amdgpu_ctx c;
	int fd = open_node(), other = open_node(), status;
	uint32_t ids[3], lists[3];

	entry.bo_handle = create(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, 0);
	for (int i = 0; i < 3; i++) {
		union drm_amdgpu_bo_list l = list;

		c = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
		IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
		ids[i] = c.out.alloc.ctx_id;
		IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &l), 0);
		lists[i] = l.out.list_handle;
	}
	CHECK(ids[0] == 1 && ids[1] == 2 && ids[2] == 3);
	CHECK(lists[0] == 1 && lists[1] == 2 && lists[2] == 3);
	c = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = 2 } };
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
	c = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
	CHECK(c.out.alloc.ctx_id == 2);
	c = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX } };
	IS(try_ioctl(other, DRM_IOCTL_AMDGPU_CTX, &c), 0);
	CHECK(c.out.alloc.ctx_id == 1);

	list.in.operation = AMDGPU_BO_LIST_OP_DESTROY;
	list.in.list_handle = 2;
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &list), 0);
	list.in = (struct drm_amdgpu_bo_list_in){ .operation = AMDGPU_BO_LIST_OP_UPDATE,
						  .list_handle = 2, .bo_number = 1,
						  .bo_info_size = 4,
						  .bo_info_ptr = (uintptr_t)&entry };
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &list), -ENOENT);
	list.in.operation = AMDGPU_BO_LIST_OP_CREATE;
	list.in.list_handle = 0;
	/* Entries of four bytes have no priority. */
	IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_BO_LIST, &list), 0);
	CHECK(list.out.list_handle == 2);

	if (!fork()) {
		failures = 0;
		MUST(!setuid(65534));
		c = (union drm_amdgpu_ctx){ .in = { .op = AMDGPU_CTX_OP_ALLOC_CTX,
						    .priority = AMDGPU_CTX_PRIORITY_HIGH } };
		IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), -EACCES);
		/* The answer is written although there is none. */
		CHECK(!c.out.alloc.ctx_id);
		c.in = (struct drm_amdgpu_ctx_in){ .op = AMDGPU_CTX_OP_ALLOC_CTX, .priority = 77 };
		IS(try_ioctl(fd, DRM_IOCTL_AMDGPU_CTX, &c), 0);
		exit(failures);
	}
	wait(&status);
	CHECK(status == 0);
	close(fd);
	close(other);
}

/* What each kernel has where nothing else is asked for: the version, and the calls of 7.x. */
static void test_kernels(void)
{
	static const char *const calls[] = { "gem_list_handles", "gem_mapping_info", "gem_change_handle" };
	struct sim_gem_handle_entry e[4];
	struct drm_version version;
	int fd = open_node();
	uint32_t n;

	for (int i = 0; i < 3; i++)
		set_parameter(calls[i], "kernel");
	for (int i = 0; i < KERNELS; i++) {
		behave_as(&kernels[i]);
		memset(&version, 0, sizeof(version));
		MUST(!try_ioctl(fd, DRM_IOCTL_VERSION, &version));
		IS(version.version_minor, kernels[i].kms_minor);
		n = 4;
		IS(list_handles(fd, e, &n), kernels[i].kms_minor > 61 ? 0 : -EINVAL);
		IS(try_ioctl(fd, DRM_IOCTL_SIM_GEM_CHANGE_HANDLE, NULL),
		   kernels[i].kms_minor > 61 || core_knows_change_handle() ? -EFAULT : -EINVAL);
		IS(change(fd, 1, 2), -EINVAL);
	}
	behave_as(&kernels[KERNEL_OF_GUEST]);
	close(fd);
}

int main(void)
{
	if (!skip_on_real("GEM_LIST_HANDLES, GET_MAPPING_INFO and GEM_CHANGE_HANDLE came after 6.12")) {
		test_list();
		test_mappings();
		test_change();
		test_kernels();
	}
	test_ids();
	CHECK(gone(2000));
	return report("handle_test");
}
