/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Faults of RESTORE and CHECKPOINT, several at once, and which of them is named. For criu_table_test alone. */
#ifndef KFDSIM_TEST_CRIU_ROWS_H
#define KFDSIM_TEST_CRIU_ROWS_H

#include "criu/criu_faults.h"

struct row {
	int want;
	void (*faults[3])(void);
	int other;			/* what is wanted of the kernels on[i] instead */
	int on;				/* BIT of an index of kernels[] each */
};

#define BIT(n) (1 << (n))
#define ACQUIRES_NOT (BIT(0) | BIT(1) | BIT(3) | BIT(4))

static const struct row restores[] = {
	{ .want = 0, .faults = {} },
	{ .want = -EINVAL, .faults = { no_devices, bad_blob } },
	{ .want = -EINVAL, .faults = { zero_devices, bad_blob } },
	{ .want = -EINVAL, .faults = { no_bos, bad_blob } },
	{ .want = -EINVAL, .faults = { no_blob, bad_devices } },
	{ .want = -EINVAL, .faults = { empty_blob, bad_blob } },
	{ .want = -EINVAL, .faults = { short_blob, bad_blob } },
	{ .want = -EFAULT, .faults = { bad_blob, two_devices } },
	{ .want = -EINVAL, .faults = { version, xnack } },
	{ .want = 0, .faults = { xnack } },
	{ .want = -EINVAL, .faults = { xnack, two_devices } },
	{ .want = -EINVAL, .faults = { two_devices, bad_devices } },
	{ .want = -EINVAL, .faults = { blob_of_a_process, bad_devices } },
	{ .want = -EFAULT, .faults = { bad_devices, bo_gpu } },
	{ .want = -EINVAL, .faults = { user_id_0, bad_bos } },
	{ .want = -EINVAL, .faults = { unknown_gpu, bad_bos } },
	{ .want = -EINVAL, .faults = { no_drm_fd, bad_bos } },
	{ .want = -EINVAL, .faults = { wrong_drm_fd, bad_bos } },
	{ .want = -EINVAL, .faults = { has_vm, bad_bos } },
	{ .want = -EINVAL, .faults = { blob_without_bos, bad_bos } },
	{ .want = -EFAULT, .faults = { bad_bos, queue_gpu } },
	{ .want = -ENODEV, .faults = { bo_gpu, bo_handle, bo_type } },
	{ .want = -EINVAL, .faults = { bo_handle, bo_too_large } },
	{ .want = -EINVAL, .faults = { bo_type, bo_handle_twice } },
	{ .want = -ENOMEM, .faults = { bo_too_large, bo_mapped } },
	{ .want = -EINVAL, .faults = { bo_mapped, bo_handle_twice } },
	{ .want = -ENOMEM, .faults = { bo_handle_twice, bo_doorbell_size } },
	{ .want = -EINVAL, .faults = { bo_address_twice, sdma_id } },
	{ .want = -EINVAL, .faults = { bo_doorbell_size, queue_id_twice } },
};

/* What is found wrong after the BOs were made. */
static const struct row late_restores[] = {
	{ .want = -EINVAL, .faults = { object_type, queue_id_twice } },
	{ .want = -EINVAL, .faults = { ends_in_type } },
	{ .want = -EINVAL, .faults = { ends_in_queue } },
	{ .want = -EINVAL, .faults = { ends_in_mqd } },
	{ .want = -EINVAL, .faults = { mqd_too_long } },
	{ .want = -EINVAL, .faults = { queue_gpu, queue_id_twice } },
	{ .want = -EINVAL, .faults = { queue_type, queue_id_twice } },
	{ .want = -EINVAL, .faults = { queue_id, queue_id_twice } },
	/* There are no engines of this kind, so none is free: found before the number. */
	{ .want = -ENOMEM, .faults = { xgmi_queue, sdma_id, queue_id_twice } },
	{ .want = -EINVAL, .faults = { sdma_id, queue_id_twice } },
	{ .want = -EINVAL, .faults = { sdma_doorbell, queue_id_twice } },
	/* Buffers are looked at by 6.12.117 alone. */
	{ .want = -EINVAL, .faults = { queue_ring, queue_id_twice }, .other = -ENOSPC, .on = ACQUIRES_NOT },
	{ .want = -EINVAL, .faults = { save_area, queue_id_twice }, .other = -ENOSPC, .on = ACQUIRES_NOT },
	{ .want = -ENOSPC, .faults = { queue_id_twice, event_type } },
	{ .want = -EINVAL, .faults = { event_page, event_twice } },
	{ .want = -EINVAL, .faults = { event_type, event_twice } },
	{ .want = -EINVAL, .faults = { event_id, event_twice } },
	{ .want = -ENOSPC, .faults = { event_twice, trailing } },
	/* The kernel's own event page is gone in 7.3. */
	{ .want = 0, .faults = { no_event_page }, .other = -ENOMEM, .on = BIT(4) },
	{ .want = -EINVAL, .faults = { trailing } },
	{ .want = -EINVAL, .faults = { one_object_less } },
	{ .want = -EINVAL, .faults = { one_object_more } },
};

static const struct row checkpoints[] = {
	{ .want = 0, .faults = {} },
	{ .want = -EINVAL, .faults = { null_devices, bad_blob } },
	{ .want = -EINVAL, .faults = { null_bos, bad_blob } },
	{ .want = -EINVAL, .faults = { null_blob, bad_devices } },
	{ .want = -EINVAL, .faults = { unpause, bad_blob } },
	{ .want = -EINVAL, .faults = { other_devices, bad_blob } },
	{ .want = -EINVAL, .faults = { other_bos, bad_blob } },
	{ .want = -EINVAL, .faults = { other_objects, bad_blob } },
	{ .want = -EINVAL, .faults = { other_size, bad_blob } },
	{ .want = -EINVAL, .faults = { racing_event, bad_blob } },
	{ .want = -EFAULT, .faults = { bad_blob, no_cwsr } },
	{ .want = -EFAULT, .faults = { bad_devices, no_cwsr } },
	{ .want = -EINVAL, .faults = { no_cwsr, bad_bos } },
	{ .want = -EFAULT, .faults = { bad_bos } },
};

#endif
