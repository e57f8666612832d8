// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A render file is the VM of one KFD process in all its life: what has a process_info already is refused
 * (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_acquire_process_vm @ 6.12.117).
 */
#define _GNU_SOURCE
#include "child.h"
#include "kfd/kfd.h"

static int render;

static struct gpu with_file(void)
{
	struct gpu g = open_gpu();

	close(g.render);
	g.render = render;
	return g;
}

static void first(void)
{
	struct gpu g = with_file();

	IS(acquire(&g, render), 0);
	close(g.kfd);
}

static void second(void)
{
	struct gpu g = with_file();
	int fresh = open(RENDER_NODE, O_RDWR | O_CLOEXEC);

	IS(acquire(&g, render), -EINVAL);
	IS(acquire(&g, fresh), 0);
}

static int no_process(void)
{
	for (int i = 0; i < 100 && counter("processes"); i++)
		usleep(20000);
	return !counter("processes");
}

static void both(void)
{
	int status;

	render = open(RENDER_NODE, O_RDWR | O_CLOEXEC);
	MUST(render >= 0);
	if (!fork()) {
		failures = 0;
		first();
		exit(failures);
	}
	wait(&status);
	CHECK(!status && no_process());
	second();
}

int main(void)
{
	in_child("acquire_test, two processes", both);
	return report("acquire_test");
}
