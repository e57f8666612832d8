/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What debugfs lists of this process. */
#pragma once
#include "child.h"

static char listing[64 * 1024];

/* The lines of this process, from its own on. */
static inline const char *own_objects(void)
{
	FILE *f = fopen("/sys/kernel/debug/simgpu/objects", "r");
	char own[40], *at, *end;
	size_t n;

	MUST(f);
	n = fread(listing, 1, sizeof(listing) - 1, f);
	listing[n] = 0;
	fclose(f);
	snprintf(own, sizeof(own), "process pid=%d ", getpid());
	at = strstr(listing, own);
	MUST(at);
	end = strstr(at + 1, "process pid=");
	if (end)
		*end = 0;
	return at;
}
