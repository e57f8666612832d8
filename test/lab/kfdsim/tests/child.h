/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Parts of a test that are processes of their own: what they leave behind goes with them. */
#ifndef KFDSIM_TEST_CHILD_H
#define KFDSIM_TEST_CHILD_H

#include <sys/wait.h>

#include "check.h"

/*
 * Runs a part, which reports under its name and ends, or may end itself. That it failed is one
 * failure here; afterwards nothing may be left on the GPU.
 */
static inline void in_child(const char *name, void (*part)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		checks = failures = differences = skips = 0;
		part();
		exit(report(name));
	}
	MUST(waitpid(pid, &status, 0) == pid);
	check_at(__FILE__, __LINE__, !status, "%s ended with status %#x", name, status);
	CHECK(gone(5000));
}

#endif
