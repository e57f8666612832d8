/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* User queues, and the engines that run them and what is submitted. */
#ifndef KFDSIM_ENGINES_H
#define KFDSIM_ENGINES_H

#include "faults.h"
#include "kfd/process_types.h"

/* engine.c */
static inline u32 sim_num_engines(const struct sim_gpu *gpu)
{
	return gpu->num_sdma + gpu->num_xgmi;
}
int sim_engines_init(struct sim_gpu *gpu);
void sim_engines_fini(struct sim_gpu *gpu);
u64 sim_engine_busy_until(const struct sim_gpu *gpu, unsigned int engine);
u64 sim_engine_run(struct sim_gpu *gpu, unsigned int engine, u64 begin, u64 ns);
u64 sim_copy_ns(const struct sim_sdma *s, u64 dst, u64 src, u64 bytes);
u64 sim_fill_ns(const struct sim_sdma *s, u64 dst, u64 bytes);
void sim_engine_note_cs(struct sim_gpu *gpu, unsigned int engine, u64 done);
int sim_sleep_until(u64 when, u64 deadline);

/* sdma.c */
enum {
	SDMA_OP_NOP = 0,
	SDMA_OP_COPY = 1,
	SDMA_OP_FENCE = 5,
	SDMA_OP_TRAP = 6,
	SDMA_OP_POLL_REGMEM = 8,
	SDMA_OP_ATOMIC = 10,
	SDMA_OP_CONST_FILL = 11,
	SDMA_OP_TIMESTAMP = 13,
	SDMA_OP_GCR = 17,
};

#define SDMA_SUBOP_COPY_LINEAR	0
#define SDMA_SUBOP_COPY_RECT	4

u32 sim_sdma_count_mask(const struct sim_gpu *gpu);
int sim_sdma_packet_dwords(u32 header);
int sim_sdma_exec(struct sim_sdma *s, const u32 *packet);
int sim_sdma_flip(struct sim_sdma *s, u64 dst, u64 bit);
int sim_sdma_begin_copy(struct sim_sdma *s, u64 dst, struct sim_copy_fault *fault);

/* sdma_rect.c */
int sim_sdma_rect(struct sim_sdma *s, const u32 *packet);

/* sdma_queue.c */
void sim_queue_retire(struct sim_queue *q);
enum sim_step sim_sdma_step(struct sim_process *p, struct sim_queue *q, u64 now);

/* aql.c */
enum sim_step sim_aql_step(struct sim_process *p, struct sim_queue *q, u64 now);

/* microop.c */
bool sim_wave_valid(const struct sim_wave *w);
int sim_dispatch_step(struct sim_queue *q, const struct sim_aql_packet *pkt, u64 now,
		      struct sim_gpu_fault *fault);
void sim_wave_preempt(struct sim_queue *q, u64 now);
u64 sim_wave_end(struct sim_queue *q);

/* save_area.c */
void sim_wave_save(struct sim_queue *q);
void sim_wave_load(struct sim_process *p, struct sim_queue *q);

/* mqd.c */
struct sim_mqd;
void sim_queue_preempt(struct sim_queue *q, u64 now);
void sim_queue_save(const struct sim_queue *q, struct sim_mqd *m, struct sim_stack_entry *stack);
int sim_queue_load(struct sim_queue *q, const struct sim_mqd *m, const struct sim_stack_entry *stack);
int sim_kfd_get_wave_state(struct sim_process *p, void *data);

/* doorbell.c */
void sim_doorbell_mmap(struct vm_area_struct *vma, struct sim_pdd *pdd);
void sim_doorbell_arm(struct sim_process *p);

/* queue.c */
int sim_queue_insert(struct sim_process *p, struct sim_queue *q, bool restore);
void sim_queue_remove(struct sim_process *p, struct sim_queue *q);
void sim_queues_destroy(struct sim_process *p);
struct sim_queue *sim_queue_find(struct sim_process *p, u32 id);
int sim_kfd_create_queue(struct sim_process *p, void *data);
int sim_kfd_destroy_queue(struct sim_process *p, void *data);
int sim_kfd_update_queue(struct sim_process *p, void *data);
int sim_kfd_set_cu_mask(struct sim_process *p, void *data);

/* queue_hw.c */
bool sim_is_sdma(u32 type);
u32 sim_queue_engine(const struct sim_queue *q);
int sim_queue_hw_take(struct sim_queue *q, bool restore);
void sim_queue_hw_release(struct sim_queue *q);

/* queue_buffers.c */
int sim_queue_buffers_get(struct sim_queue *q);
int sim_queue_ring_change(struct sim_queue *q, u64 ring, u64 size);
void sim_queue_buffers_put(struct sim_queue *q);

/* queue_run.c */
enum sim_step sim_queue_step(struct sim_process *p, struct sim_queue *q, u64 now);
bool sim_queue_pending(struct sim_process *p, struct sim_queue *q, u64 now, u64 *wptr,
		       enum sim_step *step);
void sim_queue_fault(struct sim_process *p, struct sim_queue *q, u64 va, bool write);
void sim_queue_halt(struct sim_process *p, struct sim_queue *q, const char *what, u32 code);

/* worker.c */
int sim_worker_start(struct sim_process *p);
void sim_worker_stop(struct sim_process *p);
void sim_worker_kick(struct sim_process *p);
void sim_run_lock(struct sim_process *p);

#endif
