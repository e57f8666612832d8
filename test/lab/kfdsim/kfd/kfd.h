/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* /dev/kfd: processes, events, small ioctls. */
#ifndef KFDSIM_KFD_H
#define KFDSIM_KFD_H

#include "kfd/process_types.h"

/* process.c */
int sim_process_init(void);
void sim_process_fini(void);
struct sim_process *sim_process_open(void);
struct sim_process *sim_process_by_mm(struct mm_struct *mm);
struct sim_pdd *sim_pdd_of_vm(struct sim_vm *vm);
struct sim_process *sim_process_after(struct sim_process *p);
void sim_process_put(struct sim_process *p);

/* evict.c */
void sim_process_evict(struct sim_process *p);
void sim_process_evict_locked(struct sim_process *p);
void sim_process_unevict(struct sim_process *p);

/* pdd.c */
struct sim_pdd *sim_pdd_by_id(struct sim_process *p, u32 user_gpu_id);
struct sim_pdd *sim_pdd_with_vm(struct sim_process *p, u32 user_gpu_id);
struct sim_pdd *sim_pdd_by_gpu(struct sim_process *p, struct sim_gpu *gpu);
bool sim_process_has_vm(struct sim_process *p);
int sim_pdd_bind_vm(struct sim_pdd *pdd, int drm_fd);

/* kfd_ioctl.c */
int sim_kfd_init(void);
void sim_kfd_fini(void);

/* kfd_device.c */
int sim_kfd_get_version(struct sim_process *p, void *data);
int sim_kfd_get_clock_counters(struct sim_process *p, void *data);
int sim_kfd_get_apertures(struct sim_process *p, void *data);
int sim_kfd_get_apertures_new(struct sim_process *p, void *data);
int sim_kfd_acquire_vm(struct sim_process *p, void *data);
bool sim_process_may_retry(struct sim_process *p);
int sim_kfd_set_xnack_mode(struct sim_process *p, void *data);
int sim_kfd_runtime_enable(struct sim_process *p, void *data);
int sim_kfd_check_gpu_policy(struct sim_process *p, void *data);
int sim_kfd_check_gpu_scratch(struct sim_process *p, void *data);
int sim_kfd_check_gpu_trap(struct sim_process *p, void *data);
u64 sim_gpu_clock(void);

/* events.c */
int sim_kfd_create_event(struct sim_process *p, void *data);
int sim_kfd_destroy_event(struct sim_process *p, void *data);
int sim_kfd_set_event(struct sim_process *p, void *data);
int sim_kfd_reset_event(struct sim_process *p, void *data);
void sim_event_set(struct sim_process *p, struct sim_event *ev);
int sim_event_set_page(struct sim_process *p, u64 handle);
int sim_event_insert(struct sim_process *p, struct sim_event *ev, int want_id);
void sim_event_interrupt(struct sim_process *p, u32 id);
void sim_event_memory_fault(struct sim_pdd *pdd, u64 va, bool write);
void sim_events_free(struct sim_process *p);

/* event_wait.c */
bool sim_event_awaited(struct sim_event *ev);
void sim_event_wake(struct sim_process *p, struct sim_event *ev);
void sim_event_forget(struct sim_process *p, struct sim_event *ev);
int sim_kfd_wait_events(struct sim_process *p, void *data);

/* process_sysfs.c */
int sim_procfs_init(struct device *kfd);
void sim_procfs_fini(void);
void sim_procfs_add(struct sim_process *p);
void sim_procfs_remove(struct sim_process *p);

/* queue_sysfs.c */
void sim_procfs_add_queue(struct sim_process *p, struct sim_queue *q);
void sim_procfs_remove_queue(struct sim_queue *q);

#endif
