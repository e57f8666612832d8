/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Calls on /dev/kfd that Linux 6.12 answers alike with and without a GPU, and what it
 * answers: calls_test makes them of kfdsim and of the real driver. Order matters, a call
 * may use what an earlier one has made. No GPU has the id NO_GPU.
 */
#ifndef KFDSIM_TEST_CALLS_H
#define KFDSIM_TEST_CALLS_H

#include <errno.h>
#include <linux/kfd_ioctl.h>
#include <stdint.h>

#define NO_GPU 0xfffe
#define NO_HANDLE ((uint64_t)NO_GPU << 32 | 1)
#define NO_POINTER 0x10			/* nothing is ever mapped there */
#define KERNEL_POINTER 0xffff888000000000
#define NOT_SUPPORTED 524		/* ENOTSUPP, which is not for user space, reaches it here */

union call_args {
	uint64_t words[64];
	struct kfd_ioctl_create_queue_args create_queue;
	struct kfd_ioctl_update_queue_args update_queue;
	struct kfd_ioctl_set_memory_policy_args policy;
	struct kfd_ioctl_create_event_args create_event;
	struct kfd_ioctl_set_event_args event;
	struct kfd_ioctl_wait_events_args wait;
	struct kfd_ioctl_acquire_vm_args acquire;
	struct kfd_ioctl_alloc_memory_of_gpu_args alloc;
	struct kfd_ioctl_free_memory_of_gpu_args free;
	struct kfd_ioctl_map_memory_to_gpu_args map;
	struct kfd_ioctl_set_cu_mask_args cu_mask;
	struct kfd_ioctl_import_dmabuf_args import;
	struct kfd_ioctl_export_dmabuf_args export;
	struct kfd_ioctl_set_xnack_mode_args xnack;
	struct kfd_ioctl_criu_args criu;
	struct kfd_ioctl_get_queue_wave_state_args wave_state;
	struct kfd_ioctl_alloc_queue_gws_args gws;
	struct kfd_ioctl_get_process_apertures_new_args apertures;
	struct kfd_ioctl_dbg_trap_args debug;
};

struct call {
	const char *what;
	unsigned long cmd;
	union call_args in;
	int want;			/* 0 or -errno */
};

#define KFD(name) AMDKFD_IOC_##name
#define QUEUE .gpu_id = NO_GPU, .queue_type = KFD_IOC_QUEUE_TYPE_SDMA, .ring_size = 4096, \
	      .ring_base_address = 0x100000, .queue_percentage = 100

static uint64_t some_words[64];
static struct kfd_event_data no_event = { .event_id = 77 }, first_event = { .event_id = 1 };

static const struct call calls[] = {
	{ "GET_VERSION", KFD(GET_VERSION), {}, 0 },
	{ "GET_VERSION, 4 bytes of it", _IOC(_IOC_READ, 'K', 1, 4), {}, 0 },
	{ "GET_VERSION, 500 bytes", _IOC(_IOC_READ, 'K', 1, 500), {}, 0 },
	{ "GET_VERSION without size and direction", _IO('K', 1), {}, 0 },
	{ "GET_VERSION of another type", _IOC(_IOC_READ, 'X', 1, 8), {}, 0 },
	{ "call 0", _IO('K', 0), {}, -ENOTTY },
	{ "call 0x27", _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x27, 8), {}, -ENOTTY },
	{ "call 0xff", _IO('K', 0xff), {}, -ENOTTY },

	{ "CREATE_QUEUE on no GPU", KFD(CREATE_QUEUE), { .create_queue = { QUEUE } }, -EINVAL },
	{ "CREATE_QUEUE at 101 %", KFD(CREATE_QUEUE),
	  { .create_queue = { .gpu_id = NO_GPU, .queue_percentage = 101 } }, -EINVAL },
	{ "CREATE_QUEUE with priority 16", KFD(CREATE_QUEUE),
	  { .create_queue = { QUEUE, .queue_priority = 16 } }, -EINVAL },
	{ "CREATE_QUEUE of type 99", KFD(CREATE_QUEUE),
	  { .create_queue = { .gpu_id = NO_GPU, .queue_type = 99 } }, -NOT_SUPPORTED },
	{ "CREATE_QUEUE with a ring of 3 bytes", KFD(CREATE_QUEUE),
	  { .create_queue = { .gpu_id = NO_GPU, .ring_size = 3 } }, -EINVAL },
	{ "CREATE_QUEUE with a ring in the kernel", KFD(CREATE_QUEUE),
	  { .create_queue = { .gpu_id = NO_GPU, .ring_base_address = KERNEL_POINTER,
			      .ring_size = 4096 } }, -EFAULT },
	{ "CREATE_QUEUE with a read pointer in the kernel", KFD(CREATE_QUEUE),
	  { .create_queue = { QUEUE, .read_pointer_address = KERNEL_POINTER } }, -EFAULT },
	{ "CREATE_QUEUE with a write pointer in the kernel", KFD(CREATE_QUEUE),
	  { .create_queue = { QUEUE, .write_pointer_address = KERNEL_POINTER } }, -EFAULT },
	{ "CREATE_QUEUE with an EOP buffer in the kernel", KFD(CREATE_QUEUE),
	  { .create_queue = { QUEUE, .eop_buffer_address = KERNEL_POINTER,
			      .eop_buffer_size = 4096 } }, -EFAULT },
	{ "CREATE_QUEUE with a save area in the kernel", KFD(CREATE_QUEUE),
	  { .create_queue = { QUEUE, .ctx_save_restore_address = KERNEL_POINTER,
			      .ctx_save_restore_size = 4096 } }, -EFAULT },
	{ "DESTROY_QUEUE without one", KFD(DESTROY_QUEUE), {}, -EINVAL },
	{ "UPDATE_QUEUE without one", KFD(UPDATE_QUEUE), {}, -EFAULT },
	{ "UPDATE_QUEUE with a ring of 3 bytes", KFD(UPDATE_QUEUE),
	  { .update_queue = { .ring_size = 3 } }, -EINVAL },
	{ "SET_CU_MASK of no bits", KFD(SET_CU_MASK), {}, -EINVAL },
	{ "SET_CU_MASK of 33 bits", KFD(SET_CU_MASK), { .cu_mask = { .num_cu_mask = 33 } }, -EINVAL },
	{ "SET_CU_MASK from nowhere", KFD(SET_CU_MASK),
	  { .cu_mask = { .num_cu_mask = 32, .cu_mask_ptr = NO_POINTER } }, -EFAULT },
	{ "SET_CU_MASK of no queue", KFD(SET_CU_MASK),
	  { .cu_mask = { .num_cu_mask = 32, .cu_mask_ptr = (uintptr_t)some_words } }, -EFAULT },
	{ "GET_QUEUE_WAVE_STATE of no queue", KFD(GET_QUEUE_WAVE_STATE), {}, -EFAULT },
	{ "ALLOC_QUEUE_GWS of no queue", KFD(ALLOC_QUEUE_GWS), { .gws = { .num_gws = 1 } }, -EINVAL },

	{ "SET_MEMORY_POLICY 2", KFD(SET_MEMORY_POLICY),
	  { .policy = { .gpu_id = NO_GPU, .default_policy = 2 } }, -EINVAL },
	{ "SET_MEMORY_POLICY of no GPU", KFD(SET_MEMORY_POLICY), { .policy = { .gpu_id = NO_GPU } },
	  -EINVAL },
	{ "SET_SCRATCH_BACKING_VA of no GPU", KFD(SET_SCRATCH_BACKING_VA), {}, -EINVAL },
	{ "SET_TRAP_HANDLER of no GPU", KFD(SET_TRAP_HANDLER), {}, -EINVAL },
	{ "GET_TILE_CONFIG of no GPU", KFD(GET_TILE_CONFIG), {}, -EINVAL },
	{ "GET_CLOCK_COUNTERS of no GPU", KFD(GET_CLOCK_COUNTERS), {}, 0 },
	{ "GET_PROCESS_APERTURES", KFD(GET_PROCESS_APERTURES), {}, 0 },
	{ "GET_PROCESS_APERTURES_NEW, how many", KFD(GET_PROCESS_APERTURES_NEW), {}, 0 },
	{ "AVAILABLE_MEMORY of no GPU", KFD(AVAILABLE_MEMORY), {}, -EINVAL },
	{ "SET_XNACK_MODE, what is it", KFD(SET_XNACK_MODE), { .xnack = { -1 } }, -EPERM },
	{ "SVM without support", KFD(SVM), {}, -EPERM },
	{ "SMI_EVENTS of no GPU", KFD(SMI_EVENTS), {}, -EINVAL },
	{ "DBG_REGISTER", KFD(DBG_REGISTER_DEPRECATED), {}, -EPERM },
	{ "DBG_UNREGISTER", KFD(DBG_UNREGISTER_DEPRECATED), {}, -EPERM },
	{ "DBG_ADDRESS_WATCH", KFD(DBG_ADDRESS_WATCH_DEPRECATED), {}, -EPERM },
	{ "DBG_WAVE_CONTROL", KFD(DBG_WAVE_CONTROL_DEPRECATED), {}, -EPERM },
	{ "DBG_TRAP of no process", KFD(DBG_TRAP), { .debug = { .pid = 0x7ffffff0, .op = 3 } }, -ESRCH },

	{ "ACQUIRE_VM of no GPU", KFD(ACQUIRE_VM), { .acquire = { .gpu_id = NO_GPU } }, -EINVAL },
	{ "ACQUIRE_VM of no file", KFD(ACQUIRE_VM), { .acquire = { -1, NO_GPU } }, -EINVAL },
	{ "ALLOC_MEMORY of no bytes", KFD(ALLOC_MEMORY_OF_GPU), { .alloc = { .gpu_id = NO_GPU,
		.flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM } }, -EINVAL },
	{ "ALLOC_MEMORY on no GPU", KFD(ALLOC_MEMORY_OF_GPU), { .alloc = { .gpu_id = NO_GPU,
		.size = 4096, .flags = KFD_IOC_ALLOC_MEM_FLAGS_VRAM } }, -EINVAL },
	{ "FREE_MEMORY of no handle", KFD(FREE_MEMORY_OF_GPU), { .free = { NO_HANDLE } }, -EINVAL },
	{ "MAP_MEMORY to no devices", KFD(MAP_MEMORY_TO_GPU), { .map = { .handle = NO_HANDLE } },
	  -EINVAL },
	{ "MAP_MEMORY, more done than wanted", KFD(MAP_MEMORY_TO_GPU), { .map = { .n_devices = 1,
		.n_success = 2, .device_ids_array_ptr = NO_POINTER } }, -EINVAL },
	{ "MAP_MEMORY to devices from nowhere", KFD(MAP_MEMORY_TO_GPU), { .map = { .n_devices = 1,
		.handle = NO_HANDLE, .device_ids_array_ptr = NO_POINTER } }, -EFAULT },
	{ "MAP_MEMORY of no handle", KFD(MAP_MEMORY_TO_GPU), { .map = { .n_devices = 1,
		.handle = NO_HANDLE, .device_ids_array_ptr = (uintptr_t)some_words } }, -EINVAL },
	{ "UNMAP_MEMORY from no devices", KFD(UNMAP_MEMORY_FROM_GPU), { .map = { .handle = NO_HANDLE } },
	  -EINVAL },
	{ "UNMAP_MEMORY from devices from nowhere", KFD(UNMAP_MEMORY_FROM_GPU), { .map = {
		.n_devices = 1, .handle = NO_HANDLE, .device_ids_array_ptr = NO_POINTER } }, -EFAULT },
	{ "UNMAP_MEMORY of no handle", KFD(UNMAP_MEMORY_FROM_GPU), { .map = { .n_devices = 1,
		.handle = NO_HANDLE, .device_ids_array_ptr = (uintptr_t)some_words } }, -EINVAL },
	{ "IMPORT_DMABUF of no file to no GPU", KFD(IMPORT_DMABUF), { .import = { .gpu_id = NO_GPU,
		.dmabuf_fd = -1 } }, -EINVAL },
	{ "EXPORT_DMABUF of no handle", KFD(EXPORT_DMABUF), { .export = { .handle = NO_HANDLE } },
	  -EINVAL },

	{ "CREATE_EVENT with a page of no GPU", KFD(CREATE_EVENT), { .create_event = {
		.event_page_offset = NO_HANDLE } }, -EINVAL },
	{ "CREATE_EVENT signal", KFD(CREATE_EVENT), {}, 0 },
	{ "CREATE_EVENT memory", KFD(CREATE_EVENT), { .create_event = {
		.event_type = KFD_IOC_EVENT_MEMORY } }, 0 },
	{ "CREATE_EVENT of type 9", KFD(CREATE_EVENT), { .create_event = { .event_type = 9 } }, 0 },
	{ "SET_EVENT signal", KFD(SET_EVENT), { .event = { 1 } }, 0 },
	{ "WAIT_EVENTS, one that is set", KFD(WAIT_EVENTS), { .wait = {
		.events_ptr = (uintptr_t)&first_event, .num_events = 1 } }, 0 },
	{ "RESET_EVENT signal", KFD(RESET_EVENT), { .event = { 1 } }, 0 },
	{ "WAIT_EVENTS, one that is not set", KFD(WAIT_EVENTS), { .wait = {
		.events_ptr = (uintptr_t)&first_event, .num_events = 1 } }, 0 },
	{ "WAIT_EVENTS for no event", KFD(WAIT_EVENTS), { .wait = {
		.events_ptr = (uintptr_t)&no_event, .num_events = 1 } }, -EINVAL },
	{ "WAIT_EVENTS for events from nowhere", KFD(WAIT_EVENTS), { .wait = {
		.events_ptr = NO_POINTER, .num_events = 1 } }, -EFAULT },
	{ "WAIT_EVENTS for nothing", KFD(WAIT_EVENTS), {}, 0 },
	{ "SET_EVENT memory", KFD(SET_EVENT), { .event = { 0x40000000 } }, -EINVAL },
	{ "SET_EVENT without one", KFD(SET_EVENT), { .event = { 77 } }, -EINVAL },
	{ "RESET_EVENT without one", KFD(RESET_EVENT), { .event = { 77 } }, -EINVAL },
	{ "DESTROY_EVENT without one", KFD(DESTROY_EVENT), { .event = { 77 } }, -EINVAL },
	{ "DESTROY_EVENT signal", KFD(DESTROY_EVENT), { .event = { 1 } }, 0 },
	{ "DESTROY_EVENT again", KFD(DESTROY_EVENT), { .event = { 1 } }, -EINVAL },

	{ "CRIU_OP 5", KFD(CRIU_OP), { .criu = { .op = 5 } }, -EINVAL },
	{ "CHECKPOINT without buffers", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_CHECKPOINT } },
	  -EINVAL },
	{ "UNPAUSE without a pause", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_UNPAUSE } }, -EINVAL },
	{ "RESTORE of nothing", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_RESTORE } }, -EINVAL },
	{ "RESTORE of BOs from nowhere", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_RESTORE,
		.num_bos = 1, .num_devices = 1, .devices = (uintptr_t)some_words,
		.priv_data = (uintptr_t)some_words, .priv_data_size = 16 } }, -EINVAL },
	{ "RESTORE of another version", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_RESTORE,
		.num_devices = 1, .devices = (uintptr_t)some_words,
		.priv_data = (uintptr_t)some_words, .priv_data_size = 16 } }, -EINVAL },
	{ "RESUME of no process", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_RESUME,
		.pid = 0x7ffffff0 } }, -ESRCH },
	{ "RESUME of a process without KFD", KFD(CRIU_OP), { .criu = { .op = KFD_CRIU_OP_RESUME,
		.pid = 1 } }, -ESRCH },
};

#endif
