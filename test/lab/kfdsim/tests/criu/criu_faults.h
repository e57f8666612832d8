/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What can be wrong with a good image and its arguments. For criu_table_test alone. */
#ifndef KFDSIM_TEST_CRIU_FAULTS_H
#define KFDSIM_TEST_CRIU_FAULTS_H

#include "criu/good_image.h"

/* What can be wrong with a RESTORE, roughly in the order it is looked at. */
static void no_devices(void) { args.devices = 0; }
static void zero_devices(void) { args.num_devices = 0; }
static void no_bos(void) { args.bos = 0; }
static void no_blob(void) { args.priv_data = 0; }
static void empty_blob(void) { args.priv_data_size = 0; }
static void short_blob(void) { args.priv_data_size = 4; }
static void bad_blob(void) { args.priv_data = BAD; }
static void version(void) { put32(blob.data, 2); }
static void xnack(void) { put32(blob.data + 4, 1); }
static void two_devices(void) { args.num_devices = 2; }
static void blob_of_a_process(void) { args.priv_data_size = 8; }
static void bad_devices(void) { args.devices = BAD; }
static void user_id_0(void) { blob.device.user_gpu_id = 0; }
static void unknown_gpu(void) { blob.device.actual_gpu_id ^= 1; }
static void no_drm_fd(void) { blob.device.drm_fd = 999; }
static void wrong_drm_fd(void) { blob.device.drm_fd = gpu.kfd; }
static void has_vm(void) { MUST(!acquire(&gpu, gpu.render)); }
static void blob_without_bos(void) { args.priv_data_size = 100; }
static void bad_bos(void) { args.bos = BAD; }
static void bo_gpu(void) { blob.bos[0].gpu_id ^= 1; }
static void bo_handle(void) { put32(blob.data + BO(0) + 8, 1u << 31); }
static void bo_handle_twice(void) { put32(blob.data + BO(1) + 8, 0); }
static void bo_type(void) { blob.bos[0].alloc_flags = WRITABLE; }
static void bo_too_large(void) { blob.bos[0].size = 1ull << 40; }
static void bo_address_twice(void) { blob.bos[1].addr = VRAM_VA; }
static void bo_doorbell_size(void) { blob.bos[3].size = 4096; }
static void bo_mapped(void) { put32(blob.data + BO(0) + 12, 1); }
static void object_type(void) { put32(blob.data + SDMA, 3); }
static void ends_in_type(void) { args.priv_data_size = SDMA + 2; }
static void ends_in_queue(void) { args.priv_data_size = SDMA + 50; }
static void ends_in_mqd(void) { args.priv_data_size = SDMA + BLOB_QUEUE_BYTES + 50; }
static void mqd_too_long(void) { put32(blob.data + SDMA + 112, 1u << 30); }
static void queue_gpu(void) { put32(blob.data + SDMA + 64, 1); }
static void queue_ring(void) { put64(blob.data + SDMA + 16, RING_BYTES / 2); }
static void save_area(void) { put32(blob.data + COMPUTE + 104, PAGE_BYTES); }
static void queue_type(void) { put32(blob.data + SDMA + 68, 2); }
static void queue_id(void) { put32(blob.data + SDMA + 76, 5000); }
static void queue_id_twice(void) { put32(blob.data + COMPUTE + 76, 0); }
static void xgmi_queue(void) { put32(blob.data + SDMA + 68, 4); }
static void sdma_id(void) { put32(blob.data + SDMA + 96, 4000); }
static void sdma_doorbell(void) { put32(blob.data + SDMA + 88, 0); }
static void event_page(void) { put64(blob.data + EVENT + 8, 77); }
static void event_type(void) { put32(blob.data + EVENT + 24, 4); }
static void event_id(void) { put32(blob.data + EVENT + 16, 4096); }
static void event_twice(void) { put32(blob.data + EVENT + 64 + 16, 1); }
static void no_event_page(void) { put64(blob.data + EVENT + 8, 0); }
static void trailing(void) { args.priv_data_size++; }
static void one_object_less(void) { args.num_objects--; }
static void one_object_more(void) { args.num_objects++; }

/* What CHECKPOINT gets wrong; the process holds what good() describes. */
static void null_devices(void) { args.devices = 0; }
static void null_bos(void) { args.bos = 0; }
static void null_blob(void) { args.priv_data = 0; }
static void unpause(void) { MUST(!criu_simple(gpu.kfd, KFD_CRIU_OP_UNPAUSE, 0)); }
static void other_devices(void) { args.num_devices++; }
static void other_bos(void) { args.num_bos--; }
static void other_objects(void) { args.num_objects++; }
static void other_size(void) { args.priv_data_size--; }
static void racing_event(void)
{
	uint32_t id;

	MUST(!create_event(&gpu, KFD_IOC_EVENT_SIGNAL, 0, 0, &id));
}
static void no_cwsr(void) { set_parameter("cwsr_enable", "0"); }

#endif
