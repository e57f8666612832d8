/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What differs between the drivers that can be simulated. A process is treated by one of them all its life. */
#ifndef KFDSIM_BEHAVES_H
#define KFDSIM_BEHAVES_H

#include <linux/types.h>

/*
 * One driver, as Debian builds it. Files are those of drivers/gpu/drm/amd/{amdkfd,amdgpu}; the versions at which each
 * was read are in behaves.c.
 */
struct sim_kernel {
	const char *name;

	u32 kfd_minor;			/* include/uapi/linux/kfd_ioctl.h: KFD_IOCTL_MINOR_VERSION */
	u32 kfd_commands;		/* the same: AMDKFD_COMMAND_END */
	u32 kms_minor;			/* amdgpu_drv.c: KMS_DRIVER_MINOR */
	u64 create_flags;		/* amdgpu_gem.c:amdgpu_gem_create_ioctl: those it takes */
	bool lists_handles;		/* amdgpu_drv.c: GEM_LIST_HANDLES, operation 2 of GEM_OP */
	bool svm;			/* CONFIG_HSA_AMD_SVM: Debian's kernels have it from 7.x on */

	bool user_id_maps;		/* kfd_chardev.c:kfd_mmap looks a GPU up by the process's id of it */
	bool own_event_page;		/* kfd_events.c:allocate_signal_page */
	bool queues_outlive_mm;		/* kfd_process.c:kfd_process_notifier_release_internal leaves them */
	bool uses_freed_folder;		/* kfd_process.c:kfd_create_process, where sysfs has the PID already */
	bool dates_eviction_without_vm;	/* kfd_device_queue_manager.c:evict_process_queues_cpsch */

	bool pauses_every_time;		/* kfd_chardev.c:criu_process_info evicts a paused process once more */
	u32 bo_gpus;			/* amdgpu.h:MAX_GPU_INSTANCE, in kfd_chardev.c:kfd_criu_bo_priv_data */
	bool hides_address_0;		/* kfd_chardev.c:get_process_num_bos: a BO without an address is not saved */
	bool dmabuf_per_export;		/* kfd_chardev.c:criu_get_prime_handle */

	bool create_acquires;		/* kfd_chardev.c:kfd_ioctl_create_queue calls kfd_queue_acquire_buffers */
	bool restore_acquires;		/* kfd_process_queue_manager.c:kfd_criu_restore_queue does so, too */
	u32 saves_gfx;			/* kfd_mqd_manager_v*.c: the last generation with checkpoint_mqd */
	bool checks_mqd_size;		/* the same: mqd_size must be that of one MQD */
	bool saves_every_xcc;		/* kfd_device_queue_manager.c:get_queue_checkpoint_info */
	bool loses_ctl_stack;		/* kfd_mqd_manager_v9.c:mqd_manager_init_v9 asks too early for its size: 0 */
	bool ctl_stack_of_topology;	/* kfd_process_queue_manager.c:kfd_criu_restore_queue makes room for it */
	bool ctl_stack_by_device;	/* the same: set_queue_properties_from_criu divides by all XCCs of the device */
	bool refuses_mes;		/* the same: init_user_queue wants the write pointer's BO, else crashes */
};

/* behaves.c */
const struct sim_kernel *sim_behaves_as(void);

#endif
