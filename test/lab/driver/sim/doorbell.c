// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Doorbells. The kernel's doorbells are calls that hooks redirect here. Doorbells of user queues are pages of a BAR.
 * While nothing happens, no page table has them, so ringing one faults. Then write pointers are polled for a while, and
 * the pages are unmapped again.
 */
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "sim.h"

#include "control.h"
#include "kfd_priv.h"

/* How long and how often write pointers are polled after a doorbell rang, ns. */
#define SIM_OPEN_NS	(2 * NSEC_PER_MSEC)
#define SIM_LOOK_NS	(100 * NSEC_PER_USEC)

/* Hook of sdma_v4_0.c. */
void sim_wdoorbell64(struct amdgpu_device *adev, u32 index, u64 v);
void sim_wdoorbell64(struct amdgpu_device *adev, u32 index, u64 v)
{
	struct sim_gpu *g = sim_gpu(adev);
	int i;

	amdgpu_mm_wdoorbell64(adev, index, v);
	for (i = 0; g && i < adev->sdma.num_instances; i++) {
		if (adev->sdma.instance[i].ring.doorbell_index != index)
			continue;
		WRITE_ONCE(g->ring[i].wptr, v);
		sim_wake(g);
	}
}

/* Hook of kfd_kernel_queue.c. */
void sim_kfd_doorbell64(void __iomem *db, u64 value);
void sim_kfd_doorbell64(void __iomem *db, u64 value)
{
	write_kernel_doorbell64(db, value);
	sim_wake_all();
}

/*
 * A device node through which doorbells are mapped. Each container has a node of its own, with pages of its own. It
 * stays while a mapping holds its file.
 */
struct sim_node {
	struct list_head link;
	struct address_space *mapping;
	unsigned int users;
};

static LIST_HEAD(nodes);
static DEFINE_MUTEX(nodes_lock);

static struct sim_node *node_of(const struct vm_area_struct *vma)
{
	struct sim_node *node;

	list_for_each_entry(node, &nodes, link)
		if (node->mapping == vma->vm_file->f_mapping)
			return node;
	return NULL;
}

/* One more mapping of doorbells through the node of vma. */
static int sim_node_use(const struct vm_area_struct *vma)
{
	struct sim_node *node;

	mutex_lock(&nodes_lock);
	node = node_of(vma);
	if (!node) {
		node = kzalloc(sizeof(*node), GFP_KERNEL);
		if (node) {
			node->mapping = vma->vm_file->f_mapping;
			list_add(&node->link, &nodes);
		}
	}
	if (node)
		node->users++;
	mutex_unlock(&nodes_lock);
	return node ? 0 : -ENOMEM;
}

static void sim_doorbell_vma_open(struct vm_area_struct *vma)
{
	/* The node is there already: this is a copy or a part of a mapping. */
	sim_node_use(vma);
}

static void sim_doorbell_vma_close(struct vm_area_struct *vma)
{
	struct sim_node *node;

	mutex_lock(&nodes_lock);
	node = node_of(vma);
	if (node && !--node->users) {
		list_del(&node->link);
		kfree(node);
	}
	mutex_unlock(&nodes_lock);
}

/* Unmaps every doorbell page of this GPU from all processes. */
void sim_doorbells_close(struct sim_gpu *g)
{
	struct kfd_dev *kfd = g->adev->kfd.dev;
	struct sim_node *node;
	u32 i;

	WRITE_ONCE(g->doorbells_open, 0);
	mutex_lock(&nodes_lock);
	list_for_each_entry(node, &nodes, link)
		for (i = 0; kfd && i < kfd->num_nodes; i++)
			if (kfd->nodes[i])
				unmap_mapping_range(node->mapping,
						    KFD_MMAP_TYPE_DOORBELL | KFD_MMAP_GPU_ID(kfd->nodes[i]->id),
						    kfd_doorbell_process_slice(kfd), 1);
	mutex_unlock(&nodes_lock);
}

/* Whether the time for polling write pointers has passed. Until then they are polled. */
bool sim_doorbells_expired(struct sim_gpu *g)
{
	u64 until = READ_ONCE(g->doorbells_open);

	if (!until)
		return false;
	if (until <= ktime_get_ns())
		return true;
	sim_wake_at(g, min(until, ktime_get_ns() + SIM_LOOK_NS));
	return false;
}

/*
 * With ticks of milliseconds there is no polling: every ring faults. A ring between two polls would have to wait for
 * the next one.
 */
static u64 sim_open_ns(void)
{
	return hrtimer_resolution > SIM_LOOK_NS ? 0 : SIM_OPEN_NS;
}

static vm_fault_t sim_doorbell_fault(struct vm_fault *vmf)
{
	u64 first = (u64)(uintptr_t)vmf->vma->vm_private_data;
	struct sim_gpu *g;
	vm_fault_t ret;
	unsigned int i;

	for (i = 0; i < SIM_GPUS; i++) {
		g = sim_gpu_at(i);
		if (g && (first << PAGE_SHIFT) - g->adev->doorbell.base < g->adev->doorbell.size)
			break;
	}
	if (i == SIM_GPUS)
		return VM_FAULT_SIGBUS;
	/*
	 * The page comes first. A later unmap then finds it, and the check below sees everything that was written
	 * before.
	 */
	ret = vmf_insert_pfn(vmf->vma, vmf->address, first + ((vmf->address - vmf->vma->vm_start) >> PAGE_SHIFT));
	atomic64_inc(&sim_count.doorbell_faults);
	WRITE_ONCE(g->doorbells_open, ktime_get_ns() + sim_open_ns());
	sim_wake(g);
	return ret;
}

static const struct vm_operations_struct sim_doorbell_ops = {
	.open = sim_doorbell_vma_open,
	.close = sim_doorbell_vma_close,
	.fault = sim_doorbell_fault,
};

/* Hook of kfd_doorbell.c: maps each page when it is touched, instead of all pages at once. */
int sim_map_doorbells(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size,
		      pgprot_t prot);
int sim_map_doorbells(struct vm_area_struct *vma, unsigned long addr, unsigned long pfn, unsigned long size,
		      pgprot_t prot)
{
	int ret = sim_node_use(vma);

	if (ret)
		return ret;
	vma->vm_page_prot = prot;
	vma->vm_private_data = (void *)(uintptr_t)pfn;
	vma->vm_ops = &sim_doorbell_ops;
	return 0;
}
