// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What a driver asks before it does something: is there a rule of debugfs simgpu/faults that wants it to go wrong? */
#include <linux/slab.h>

#include "fault_rules.h"

atomic64_t sim_faults_injected;

LIST_HEAD(sim_faults);
DEFINE_SPINLOCK(sim_faults_lock);
unsigned int sim_nr_faults;

/*
 * Count one event of this kind; true with the rule's value when it is the one that was
 * waited for. Every rule counts on its own, so two may strike at once: the last is taken.
 */
static bool sim_fault_strikes(enum sim_fault_kind kind, u64 subject, u64 *value)
{
	struct sim_fault *f, *next;
	bool hit = false;

	if (list_empty(&sim_faults))
		return false;
	spin_lock(&sim_faults_lock);
	list_for_each_entry_safe(f, next, &sim_faults, link) {
		if (f->kind != kind || f->subject != subject || --f->left)
			continue;
		hit = true;
		*value = f->value;
		list_del(&f->link);
		kfree(f);
		sim_nr_faults--;
	}
	spin_unlock(&sim_faults_lock);
	if (hit)
		atomic64_inc(&sim_faults_injected);
	return hit;
}

/* Is there a lasting rule, with this value unless NULL? *found gets its value. */
static bool sim_fault_holds(enum sim_fault_kind kind, u64 subject, const u64 *value, u64 *found)
{
	struct sim_fault *f;
	bool hit = false;

	if (list_empty(&sim_faults))
		return false;
	spin_lock(&sim_faults_lock);
	list_for_each_entry(f, &sim_faults, link) {
		if (f->kind != kind || f->subject != subject || (value && f->value != *value))
			continue;
		hit = true;
		if (found)
			*found = f->value;
	}
	spin_unlock(&sim_faults_lock);
	return hit;
}

static int sim_fault_errno(enum sim_fault_kind kind, u64 subject)
{
	u64 err;

	return sim_fault_strikes(kind, subject, &err) ? -(int)err : 0;
}

/* -errno if this call is to fail, else 0. */
int sim_fault_kfd_ioctl(unsigned int nr)
{
	return sim_fault_errno(SIM_FAULT_KFD, nr);
}

int sim_fault_drm_ioctl(unsigned int nr)
{
	return sim_fault_errno(SIM_FAULT_DRM, nr);
}

/* -errno if CRIU_OP is to fail here, in the middle; kind is one of SIM_FAULT_PAUSE to SIM_FAULT_SVM_RANGE. */
int sim_fault_criu(enum sim_fault_kind kind)
{
	return sim_fault_errno(kind, 0);
}

/* What is to happen to the next copy packet. */
struct sim_copy_fault sim_fault_copy(void)
{
	struct sim_copy_fault c = {};
	u64 ms;

	c.fail = sim_fault_strikes(SIM_FAULT_COPY_FAIL, 0, &ms);
	c.flip = sim_fault_strikes(SIM_FAULT_COPY_FLIP, 0, &c.bit);
	if (sim_fault_strikes(SIM_FAULT_COPY_DELAY, 0, &ms))
		c.delay = ms * NSEC_PER_MSEC;
	return c;
}

bool sim_fault_refuses_sdma(u32 gpu_id, u32 engine)
{
	const u64 want = engine;

	return sim_fault_holds(SIM_FAULT_SDMA, gpu_id, &want, NULL);
}

bool sim_fault_packet(void)
{
	u64 unused;

	return sim_fault_strikes(SIM_FAULT_PACKET, 0, &unused);
}

bool sim_fault_interrupt(void)
{
	u64 unused;

	return sim_fault_strikes(SIM_FAULT_INTERRUPT, 0, &unused);
}

bool sim_fault_submission(void)
{
	u64 unused;

	return sim_fault_strikes(SIM_FAULT_SUBMISSION, 0, &unused);
}

bool sim_fault_holds_resume(void)
{
	return sim_fault_holds(SIM_FAULT_RESUME, 0, NULL, NULL);
}

/* Bytes of VRAM a GPU of this size is to have. */
u64 sim_fault_vram(u32 gpu_id, u64 bytes)
{
	u64 limit = bytes;

	sim_fault_holds(SIM_FAULT_VRAM, gpu_id, NULL, &limit);
	return min(limit, bytes);
}
