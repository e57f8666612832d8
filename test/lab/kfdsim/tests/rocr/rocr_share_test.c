// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * ROCr: VRAM shared by two processes: a dma-buf of an allocation, and a handle of the virtual
 * memory calls. IPC handles proper need a call (0x81) that only AMD's out-of-tree driver
 * has in ROCr 6.1, so they are refused as on a kernel of kernel.org.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <sys/wait.h>

#include "rocr/rocr.h"

#define SIZE (2u << 20)		/* what the virtual memory calls take at least */

static void send_with_fd(int to, const void *data, size_t size, int fd)
{
	struct iovec iov = { (void *)data, size };
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	MUST(sendmsg(to, &msg, 0) == (ssize_t)size);
}

static int receive_with_fd(int from, void *data, size_t size)
{
	struct iovec iov = { data, size };
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	MUST(recvmsg(from, &msg, MSG_WAITALL) == (ssize_t)size);
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* Is the memory filled with from? It is filled with to afterwards. */
static void exchange(void *memory, uint32_t from, uint32_t to)
{
	uint32_t *seen = pool_memory(host, SIZE), *wanted = pool_memory(host, SIZE);

	copy(seen, cpu, memory, gpu, SIZE);
	fill_words(wanted, SIZE, from);
	CHECK(!memcmp(seen, wanted, SIZE));
	fill_words(wanted, SIZE, to);
	copy(memory, gpu, wanted, cpu, SIZE);
	OK(hsa_amd_memory_pool_free(seen));
	OK(hsa_amd_memory_pool_free(wanted));
}

/* The handle somewhere in the address space, for the GPU. */
static void *map_handle(hsa_amd_vmem_alloc_handle_t handle)
{
	hsa_amd_memory_access_desc_t access = { HSA_ACCESS_PERMISSION_RW, gpu };
	void *at;

	OK(hsa_amd_vmem_address_reserve(&at, SIZE, 0, 0));
	OK(hsa_amd_vmem_map(at, SIZE, 0, handle, 0));
	OK(hsa_amd_vmem_set_access(at, SIZE, &access, 1));
	return at;
}

static void unmap_handle(hsa_amd_vmem_alloc_handle_t handle, void *at)
{
	OK(hsa_amd_vmem_unmap(at, SIZE));
	OK(hsa_amd_vmem_address_free(at, SIZE));
	OK(hsa_amd_vmem_handle_release(handle));
}

static int other(int peer)
{
	hsa_amd_vmem_alloc_handle_t handle;
	uint64_t offset;
	size_t size;
	void *memory;
	char byte;
	int fd;

	start_rocr();
	fd = receive_with_fd(peer, &byte, 1);
	MUST(fd >= 0);
	OK(hsa_amd_vmem_import_shareable_handle(fd, &handle));
	close(fd);
	memory = map_handle(handle);
	exchange(memory, 1, 2);
	unmap_handle(handle, memory);
	send_with_fd(peer, "", 1, -1);

	fd = receive_with_fd(peer, &offset, sizeof(offset));
	MUST(fd >= 0);
	OK(hsa_amd_interop_map_buffer(1, &gpu, fd, 0, &size, &memory, NULL, NULL));
	CHECK(size >= offset + SIZE);
	exchange((char *)memory + offset, 3, 4);
	OK(hsa_amd_interop_unmap_buffer(memory));
	close(fd);
	send_with_fd(peer, "", 1, -1);
	OK(hsa_shut_down());
	return report("rocr_share_test, the other process");
}

static void put_words(void *memory, uint32_t seed)
{
	uint32_t *words = pool_memory(host, SIZE);

	fill_words(words, SIZE, seed);
	copy(memory, gpu, words, cpu, SIZE);
	OK(hsa_amd_memory_pool_free(words));
}

int main(void)
{
	hsa_amd_vmem_alloc_handle_t handle;
	hsa_amd_ipc_memory_t ipc;
	int peers[2], status, fd;
	uint64_t offset;
	void *memory;
	char byte;

	setvbuf(stdout, NULL, _IONBF, 0);
	MUST(!socketpair(AF_UNIX, SOCK_STREAM, 0, peers));
	/* Before ROCr has threads and a GPU: neither survives a fork. */
	if (!fork()) {
		close(peers[0]);
		exit(other(peers[1]));
	}
	close(peers[1]);
	start_rocr();
	OK(hsa_amd_vmem_handle_create(vram, SIZE, MEMORY_TYPE_NONE, 0, &handle));
	memory = map_handle(handle);
	put_words(memory, 1);
	OK(hsa_amd_vmem_export_shareable_handle(&fd, handle, 0));
	send_with_fd(peers[0], "", 1, fd);
	close(fd);
	MUST(read(peers[0], &byte, 1) == 1);
	exchange(memory, 2, 0);
	unmap_handle(handle, memory);

	memory = pool_memory(vram, SIZE);
	put_words(memory, 3);
	CHECK(hsa_amd_ipc_memory_create(memory, SIZE, &ipc) != HSA_STATUS_SUCCESS);
	OK(hsa_amd_portable_export_dmabuf(memory, SIZE, &fd, &offset));
	send_with_fd(peers[0], &offset, sizeof(offset), fd);
	OK(hsa_amd_portable_close_dmabuf(fd));
	MUST(read(peers[0], &byte, 1) == 1);
	exchange(memory, 4, 0);
	OK(hsa_amd_memory_pool_free(memory));
	OK(hsa_shut_down());
	wait(&status);
	CHECK(status == 0);
	return report("rocr_share_test");
}
