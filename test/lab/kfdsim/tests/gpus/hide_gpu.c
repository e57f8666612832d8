// SPDX-License-Identifier: GPL-2.0 OR MIT
/* hide_gpu MINOR COMMAND...: runs COMMAND where the device cgroup denies that render node. */
#include <stdlib.h>
#include <sys/wait.h>

#include "gpus/devcgroup.h"

int main(int argc, char **argv)
{
	char path[128];
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: %s MINOR COMMAND...\n", argv[0]);
		return 2;
	}
	if (enter_filtered(atoi(argv[1]), path, sizeof(path))) {
		perror(path);
		return 2;
	}
	if (!fork()) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	wait(&status);
	if (leave_filtered(path))
		perror(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
