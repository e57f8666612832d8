// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * debugfs simgpu/counters: living objects from the driver's own structures, and totals. Living objects are 0 when
 * nobody uses a GPU: the driver's own allocations do not count.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "sim.h"

#include "control.h"
#include "faults.h"
#include "kfd_device_queue_manager.h"
#include "kernels.h"
#include "kfd_priv.h"

/* kfd_process.c */
extern struct hlist_head kfd_processes_table[];

struct sim_living {
	s64 processes, bos, vram_bytes, gtt_bytes, queues, events, vms, contexts, userptr, maps, fences, evicted, pinned_pages;
	s64 svm_ranges;
};

static struct { s64 vram, gtt, pinned; } sim_own[SIM_GPUS];

static s64 sim_used(struct ttm_resource_manager *man)
{
	return ttm_resource_manager_usage(man);
}

static s64 sim_pinned(struct amdgpu_device *adev)
{
	return (atomic64_read(&adev->vram_pin_size) + atomic64_read(&adev->gart_pin_size)) >> PAGE_SHIFT;
}

/* Hook of amdgpu_drv.c: the last allocation of the driver before the first user. */
int sim_device_is_up(struct amdgpu_device *adev);
int sim_device_is_up(struct amdgpu_device *adev)
{
	int r = amdgpu_amdkfd_drm_client_create(adev);
	struct sim_gpu *g = sim_gpu(adev);

	if (r || !g)
		return r;
	sim_own[g->index].vram = sim_used(&adev->mman.vram_mgr.manager);
	sim_own[g->index].gtt = sim_used(&adev->mman.gtt_mgr.manager);
	sim_own[g->index].pinned = sim_pinned(adev);
	return 0;
}

static s64 sim_idr_size(struct idr *idr)
{
	s64 n = 0;
	void *p;
	int id;

	idr_for_each_entry(idr, p, id)
		n++;
	return n;
}

static s64 sim_handles(struct drm_file *file)
{
	s64 n;

	spin_lock(&file->table_lock);
	n = sim_idr_size(&file->object_idr);
	spin_unlock(&file->table_lock);
	return n;
}

/* An open file of a render node. A file without an address space has not been used. */
static void sim_count_file(struct sim_living *n, struct drm_file *file)
{
	struct amdgpu_fpriv *fpriv = file->driver_priv;
	struct rb_node *node;

	n->bos += sim_handles(file);
	n->vms++;
	n->contexts += sim_contexts(&fpriv->ctx_mgr);
	if (amdgpu_bo_reserve(fpriv->vm.root.bo, true))
		return;
	for (node = rb_first_cached(&fpriv->vm.va); node; node = rb_next(node))
		n->maps++;
	amdgpu_bo_unreserve(fpriv->vm.root.bo);
}

static s64 sim_fences(struct amdgpu_device *adev)
{
	s64 n = 0;
	int i;

	for (i = 0; i < adev->sdma.num_instances; i++)
		n += amdgpu_fence_count_emitted(&adev->sdma.instance[i].ring);
	return n;
}

/* After a shortage of VRAM some of the driver's own buffers stay in GTT. */
static void sim_count_memory(struct sim_living *n, struct sim_gpu *g)
{
	s64 vram = sim_used(&g->adev->mman.vram_mgr.manager) - sim_own[g->index].vram;
	s64 gtt = sim_used(&g->adev->mman.gtt_mgr.manager) - sim_own[g->index].gtt;
	s64 moved = min(vram, 0);

	n->vram_bytes += vram - moved;
	n->gtt_bytes += gtt + moved;
}

static void sim_count_gpu(struct sim_living *n, struct sim_gpu *g)
{
	struct amdgpu_device *adev = g->adev;
	struct drm_device *dev = adev_to_drm(adev);
	struct drm_file *file;

	mutex_lock(&dev->filelist_mutex);
	list_for_each_entry(file, &dev->filelist, lhead)
		sim_count_file(n, file);
	mutex_unlock(&dev->filelist_mutex);
	if (adev->kfd.client.file)
		n->bos += sim_handles(adev->kfd.client.file);
	if (adev->kfd.dev && adev->kfd.dev->nodes[0]) {
		struct device_queue_manager *dqm = adev->kfd.dev->nodes[0]->dqm;

		n->queues += dqm->total_queue_count;
		n->processes = max_t(s64, n->processes, dqm->processes_count);
	}
	sim_count_memory(n, g);
	n->pinned_pages += sim_pinned(adev) - sim_own[g->index].pinned;
	n->fences += sim_fences(adev);
}

static void sim_count_process(struct sim_living *n, struct kfd_process *p)
{
	struct kgd_mem *mem;
	unsigned int i;
	bool evicted = false;
	int id;

	n->processes++;
	mutex_lock(&p->mutex);
	n->events += sim_idr_size(&p->event_idr);
	for (i = 0; i < p->n_pdds; i++) {
		evicted |= p->pdds[i]->qpd.evicted;
		idr_for_each_entry(&p->pdds[i]->alloc_idr, mem, id)
			n->userptr += !!(mem->alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR);
	}
	n->evicted += evicted;
	n->svm_ranges += sim_svm_count(p);
	mutex_unlock(&p->mutex);
}

static void sim_count_living(struct sim_living *n)
{
	struct kfd_process *p;
	unsigned int i;

	mutex_lock(&kfd_processes_mutex);
	for (i = 0; i < 1 << KFD_PROCESS_TABLE_SIZE; i++)
		hlist_for_each_entry(p, &kfd_processes_table[i], kfd_processes)
			sim_count_process(n, p);
	mutex_unlock(&kfd_processes_mutex);
	for (i = 0; i < SIM_GPUS; i++)
		if (sim_gpu_at(i))
			sim_count_gpu(n, sim_gpu_at(i));
}

#define SIM_SHOW(from, name) seq_printf(m, #name " %lld\n", (s64)(from).name)
#define SIM_TOTAL(name) seq_printf(m, #name " %lld\n", atomic64_read(&sim_count.name))

static int sim_counters_show(struct seq_file *m, void *unused)
{
	struct sim_living n = {};

	sim_count_living(&n);
	SIM_SHOW(n, processes);
	SIM_SHOW(n, bos);
	SIM_SHOW(n, vram_bytes);
	SIM_SHOW(n, gtt_bytes);
	SIM_SHOW(n, queues);
	SIM_SHOW(n, events);
	SIM_SHOW(n, vms);
	SIM_SHOW(n, contexts);
	SIM_SHOW(n, userptr);
	SIM_SHOW(n, maps);
	SIM_SHOW(n, fences);
	SIM_SHOW(n, evicted);
	SIM_SHOW(n, pinned_pages);
	SIM_SHOW(n, svm_ranges);
	SIM_TOTAL(cs_submitted);
	SIM_TOTAL(sdma_copies);
	SIM_TOTAL(sdma_bytes);
	SIM_TOTAL(gpu_faults);
	SIM_TOTAL(dispatches);
	SIM_TOTAL(doorbell_faults);
	SIM_TOTAL(resume_without_vm);
	SIM_TOTAL(resume_unrestored);
	SIM_TOTAL(paused_again);
	seq_printf(m, "blob_overruns 0\n");	/* RESTORE itself checks the sizes it is given */
	seq_printf(m, "faults_injected %lld\n", atomic64_read(&sim_faults_injected));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sim_counters);

void sim_counters_init(struct dentry *dir)
{
	debugfs_create_file("counters", 0444, dir, NULL, &sim_counters_fops);
}
