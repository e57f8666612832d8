/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The checks of the simulated GPU's own tests: say what failed and where, count, go on. */
#ifndef KFDSIM_TEST_CHECK_H
#define KFDSIM_TEST_CHECK_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static int checks, failures, differences, skips;

/* Is kfdsim the driver? Else it is the kernel's own one. */
static inline int on_kfdsim(void)
{
	return !access("/sys/module/amdgpu/parameters/behaves_as", F_OK);
}

/*
 * Is this failure one that the list names for this program and driver? KFDSIM_DIFFERENCES is the file; its lines are
 * "PROGRAM :: DRIVER :: PART OF THE TEXT :: REASON". The text is printed, so that entries of no use are found.
 */
static inline int is_known_difference(const char *text)
{
	const char *list = getenv("KFDSIM_DIFFERENCES"), *driver = on_kfdsim() ? "kfdsim" : "real";
	char line[1024], *part[4], *at;
	int i, found = 0;
	FILE *f = list ? fopen(list, "r") : NULL;

	while (f && !found && fgets(line, sizeof(line), f)) {
		for (i = 0, at = line; i < 4 && at; i++) {
			part[i] = at;
			at = strstr(at, " :: ");
			if (at) {
				*at = 0;
				at += 4;
			}
		}
		found = i == 4 && line[0] != '#' && !strcmp(part[1], driver) &&
			!strcmp(part[0], program_invocation_short_name) && strstr(text, part[2]);
		if (found)
			printf("DIFFERS %s :: %s :: %s\n", part[0], part[1], part[2]);
	}
	if (f)
		fclose(f);
	return found;
}

__attribute__((format(printf, 4, 5)))
static inline int check_at(const char *file, int line, int ok, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	checks++;
	if (ok)
		return 1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (is_known_difference(text)) {
		differences++;
		return 0;
	}
	failures++;
	printf("%s:%d: FAIL %s\n", file, line, text);
	return 0;
}

/* What can be asked of kfdsim alone: "if (skip_on_real(WHY)) return;". It is counted and listed. */
static inline int skip_on_real(const char *why)
{
	if (on_kfdsim())
		return 0;
	skips++;
	printf("SKIP %s\n", why);
	fflush(stdout); /* a child would print it again */
	return 1;
}

#define CHECK(cond) check_at(__FILE__, __LINE__, !!(cond), "%s (errno %d)", #cond, errno)

/* A call that must give this value, e.g. -EINVAL; calls return -errno here. */
#define IS(call, want)								\
	do {									\
		long is_got = (call), is_want = (want);				\
		check_at(__FILE__, __LINE__, is_got == is_want,			\
			 "%s gave %ld, wanted %ld", #call, is_got, is_want);	\
	} while (0)

/* What cannot be gone on without. */
#define MUST(cond)								\
	do {									\
		if (!CHECK(cond))						\
			exit(1);						\
	} while (0)

static inline int try_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* One value of /sys/kernel/debug/simgpu/counters, -1 if it cannot be read. */
static inline long long counter(const char *name)
{
	FILE *f = fopen("/sys/kernel/debug/simgpu/counters", "r");
	char key[64];
	long long value, found = -1;

	if (!f)
		return -1;
	while (fscanf(f, "%63s %lld", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	fclose(f);
	return found;
}

/* Are there no living objects within ms? Ends of processes take a moment. */
static inline int gone(int ms)
{
	static const char *const living[] = { "processes", "bos", "vram_bytes", "gtt_bytes",
					      "queues", "events", "vms", "contexts", "userptr",
					      "maps", "fences", "evicted", "pinned_pages",
					      "svm_ranges" };
	uint64_t end = now_ns() + ms * 1000000ull;
	size_t i, n = sizeof(living) / sizeof(*living);

	for (;;) {
		for (i = 0; i < n && !counter(living[i]); i++)
			;
		if (i == n)
			return 1;
		if (now_ns() > end) {
			printf("left: %s %lld\n", living[i], counter(living[i]));
			return 0;
		}
		usleep(20000);
	}
}

/* A module parameter that may be changed while the module is loaded. */
static inline void set_parameter(const char *name, const char *value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/module/amdgpu/parameters/%s", name);
	f = fopen(path, "w");
	MUST(f && fprintf(f, "%s", value) > 0 && !fclose(f));
}

static inline int report(const char *what)
{
	printf("%s: %d checks, %d failed, %d differences, %d skipped\n", what, checks, failures,
	       differences, skips);
	return failures ? 1 : 0;
}

#endif
