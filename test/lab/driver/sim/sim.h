/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The simulated hardware below the real driver: the shared types and functions of its parts. */
#ifndef SIM_H
#define SIM_H

#include <linux/firmware.h>
#include <linux/mutex.h>
#include <linux/wait.h>

#include "amdgpu.h"
#include "v9_structs.h"

#define SIM_GPUS	8
#define SIM_QUEUES	256
#define SIM_ENGINES	16	/* SDMA engines of one GPU, at most */
#define SIM_XCCS	8	/* dies that compute, of one GPU, at most */
#define SIM_VMIDS	16
#define SIM_TLB_ENTRIES	4096
#define SIM_NEVER	U64_MAX

/*
 * Sets of page table registers, each with a TLB, numbered like the VM hubs of the driver. Shaders and the CP use
 * SIM_GFX + XCC. SDMA uses SIM_MM + the die of the engine.
 */
enum sim_hub { SIM_GFX, SIM_MM = SIM_XCCS, SIM_HUBS = SIM_MM + 4 };

enum sim_place { SIM_SYSTEM, SIM_OWN_VRAM, SIM_PEER_VRAM };

struct sim_chip;

/* The page that an address of the GPU translates to. */
struct sim_page {
	void *at;		/* the CPU's address of the page's first byte */
	bool readable, writeable;
	enum sim_place place;
};

struct sim_tlb_entry {
	u64 tag;		/* page number and VMID, 0: none */
	u32 flushes;		/* flushes of that VMID when it was filled */
	struct sim_page page;
};

/* A sequence of SDMA packets: where they are read, for whom, and the progress of the current one. */
struct sim_stream {
	struct sim_gpu *g;
	u32 engine, ring_id, vmid;
	enum sim_hub hub;
	u64 done;		/* bytes that the current packet has moved */
	bool begun;		/* requested faults were checked for it */
	u64 flip;		/* bit that is inverted at its end, -1: none */
	u64 fault;		/* address that is not mapped, after -EFAULT */
	bool write;
};

/* A ring of the kernel's on an SDMA engine. */
struct sim_ring {
	struct sim_stream ring, ib;
	u64 rptr, wptr;		/* bytes, ever rising */
	u64 ib_va, ib_left;	/* remaining dwords of the current IB */
	u64 busy_until;		/* ns: its engine is busy until then */
	bool hung;
};

/* State of a stopped dispatch in the save area. The control stack has its place and checksum. */
struct sim_wave {
	u32 magic, op;
	u64 address, size;
	u32 value, step_us;
	u64 progress, start, reserved[2];
};

/* A queue of a process while it is on the hardware. */
struct sim_queue {
	bool used, sdma, aql, halted, synced;
	u32 engine, slot;	/* pipe and queue, or SDMA engine and queue */
	u32 xcc, xccs;		/* first XCC that runs it, and their number */
	enum sim_hub hub;
	u32 vmid;
	void *mqd;		/* NULL: at mqd_va, of VMID 0 */
	u64 mqd_va;
	u32 stride;		/* distance of two XCCs' MQDs */
	u64 ring, size, rptr, rptr_va, wptr_va;
	u64 save, save_size;	/* of the first XCC; areas of the others follow */
	u32 stack;		/* bytes of control stack */
	u64 ready_at;		/* ns: it does nothing before */
	u64 asked;		/* read pointer + 1 of the packet for which requested faults were checked */
	u64 waits_since;	/* ns: start of its wait for a word of memory; 0: it does not wait */
	struct sim_stream stream;
	struct sim_wave wave;
};

struct sim_runlist {
	u64 va;
	u32 dwords;
	u32 processes;
	u32 first;		/* process with the first VMID, when there are more processes than VMIDs */
	u64 next_turn;		/* ns: time of the next turn */
};

/* The state of an XCC's firmware for a KFD node. The first XCC of a partition leads the others. */
struct sim_scheduler {
	u64 hiq, hiq_size, hiq_rptr, hiq_rptr_va, hiq_wptr_va;
	struct sim_runlist runlist;
};

struct sim_gpu {
	struct amdgpu_device *adev;
	const struct sim_chip *chip;
	unsigned int index;	/* of the module's GPUs */
	struct task_struct *thread;
	wait_queue_head_t wake;
	bool rung;
	u64 wake_at;		/* ns: time of the next work */
	u64 doorbells_open;	/* ns: until then user queues are polled */
	struct mutex lock;	/* held by the hardware while it works */

	struct sim_ring ring[SIM_ENGINES];
	struct sim_queue queue[SIM_QUEUES];
	struct sim_scheduler scheduler[SIM_XCCS];
	struct v9_mqd mqd;	/* buffer for reading one */
	u16 pasid[SIM_XCCS][SIM_VMIDS];

	u32 ih_wptr;

	struct sim_tlb_entry tlb[SIM_HUBS][SIM_TLB_ENTRIES];
	atomic_t flushes[SIM_HUBS][SIM_VMIDS];
	atomic_t access;	/* odd: memory is accessed by a translation */
};

/* engine.c */
struct sim_gpu *sim_gpu(struct amdgpu_device *adev);
struct sim_gpu *sim_gpu_at(unsigned int index);
int sim_gpu_start(struct amdgpu_device *adev, const struct sim_chip *chip);
void sim_gpu_stop(struct amdgpu_device *adev);
void sim_gpu_reset(struct amdgpu_device *adev);
void sim_wake(struct sim_gpu *g);
void sim_wake_all(void);
void sim_wake_at(struct sim_gpu *g, u64 ns);
u64 sim_clock(void);

/* doorbell.c */
void sim_doorbells_close(struct sim_gpu *g);
bool sim_doorbells_expired(struct sim_gpu *g);

/* interrupts.c */
void sim_irq(struct sim_gpu *g, enum sim_hub hub, u32 client, u32 source, u32 ring, u32 vmid, const u32 *data);
void sim_page_fault(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, bool write);

/* tlb.c */
bool sim_tlb_find(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, struct sim_page *page);
void sim_tlb_fill(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, const struct sim_page *page);
void sim_tlb_flush(struct sim_gpu *g, enum sim_hub hub, u32 vmids);
void sim_access_begin(struct sim_gpu *g);
void sim_access_end(struct sim_gpu *g);

/* partitions.c */
u32 sim_xccs(struct sim_gpu *g);
u32 sim_partitions(struct sim_gpu *g);
u32 sim_first_engine(struct sim_gpu *g, u32 xcc);
enum sim_hub sim_engine_hub(struct sim_gpu *g, u32 engine);
enum sim_hub sim_xcc_mm(struct sim_gpu *g, u32 xcc);
u32 sim_ih_node(struct sim_gpu *g, enum sim_hub hub);
u32 sim_pasid(struct sim_gpu *g, enum sim_hub hub, u32 vmid);

/* registers.c */
struct amdgpu_vmhub *sim_hub(struct sim_gpu *g, enum sim_hub hub);
u32 sim_register(struct amdgpu_device *adev, u32 reg);
void sim_set_register(struct amdgpu_device *adev, u32 reg, u32 value);

/* translate.c */
int sim_translate(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, struct sim_page *page);

/* memory.c: accesses of the hardware; 0 or -EFAULT */
int sim_read(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, void *to, u64 len);
int sim_write(struct sim_gpu *g, enum sim_hub hub, u32 vmid, u64 va, const void *from, u64 len);
int sim_copy(struct sim_stream *s, u64 to, u64 from, u64 len, enum sim_place *far);
int sim_fill(struct sim_stream *s, u64 to, u32 value, u64 len, enum sim_place *far);

/* packets.c, copies.c */
int sim_packet(struct sim_stream *s, const u32 *dw, u64 va, u64 left);
u32 sim_packet_dwords(const u32 *dw);
int sim_packet_copy(struct sim_stream *s, const u32 *dw);
int sim_packet_rectangle(struct sim_stream *s, const u32 *dw);
int sim_packet_fill(struct sim_stream *s, const u32 *dw);
bool sim_engine_busy(struct sim_gpu *g, u32 engine);
u64 sim_retry_at(u64 *since);

/* rings.c */
bool sim_rings_run(struct sim_gpu *g);

/* queue.c */
struct sim_queue *sim_queue_at(struct sim_gpu *g, bool sdma, u32 xcc, u32 engine, u32 slot);
struct sim_queue *sim_queue_free(struct sim_gpu *g);
int sim_queue_load(struct sim_gpu *g, struct sim_queue *q);
void sim_queue_save(struct sim_gpu *g, struct sim_queue *q);
bool sim_queue_wptr(struct sim_gpu *g, struct sim_queue *q, u64 *wptr);
void sim_queue_halt(struct sim_gpu *g, struct sim_queue *q, u64 va, bool write);
bool sim_queue_faults(struct sim_queue *q);
bool sim_queues_run(struct sim_gpu *g);
int sim_mqd_read(struct sim_gpu *g, struct sim_queue *q, u32 at, void *to, u32 len);
void sim_mqd_write(struct sim_gpu *g, struct sim_queue *q, u32 at, const void *from, u32 len);

/* wave.c */
void sim_wave_load(struct sim_gpu *g, struct sim_queue *q, u32 offset);
void sim_wave_check(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 offset);
u32 sim_wave_save(struct sim_gpu *g, struct sim_queue *q, u32 xcc, u32 *wave_end);

/* scheduler.c, kfd_calls.c, sdma_queue.c, aql.c, microop.c */
bool sim_scheduler_run(struct sim_gpu *g);
int sim_set_pasid(struct amdgpu_device *adev, u32 pasid, unsigned int vmid, uint32_t inst);
void sim_kfd_calls(const struct sim_chip *chip);
int sim_sdma_load(struct sim_gpu *g, struct sim_queue *q);
void sim_sdma_save(struct sim_gpu *g, struct sim_queue *q);
bool sim_run_sdma(struct sim_gpu *g, struct sim_queue *q);
bool sim_run_aql(struct sim_gpu *g, struct sim_queue *q);
void sim_microop_stop(struct sim_queue *q);
int sim_microop(struct sim_gpu *g, struct sim_queue *q, const u64 *packet, u64 *va);

extern const struct amdgpu_ip_block_version sim_gfx9_ip_block, sim_gfx10_ip_block;
#endif
