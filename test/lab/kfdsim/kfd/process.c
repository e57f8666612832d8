// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Life of a KFD process: one per mm. It begins with the first open of /dev/kfd and ends when the last file is closed,
 * also those that others have of it. Its queues end with the mm (kfd_process.c:kfd_process_notifier_release_internal @
 * 7.2.13), of older kernels with the last file, too (kfd_process.c:kfd_process_wq_release @ 6.12.117).
 */
#include <linux/file.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include "kfdsim.h"

static LIST_HEAD(sim_processes);
static DEFINE_SPINLOCK(sim_processes_lock);
/* Serialises creation; outside mmap_lock, which mmu_notifier_register() takes. */
static DEFINE_MUTEX(sim_create_lock);

int sim_process_init(void)
{
	sim.wq = alloc_workqueue("kfdsim", WQ_UNBOUND, 0);
	return sim.wq ? 0 : -ENOMEM;
}

/* Every process holds a module reference: only their last steps can still be running. */
void sim_process_fini(void)
{
	mmu_notifier_synchronize();
	destroy_workqueue(sim.wq);
}

static void sim_process_release_mems(struct sim_process *p)
{
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int id;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++) {
		idr_for_each_entry(&pdd->mems, mem, id)
			sim_mem_remove(mem, id);
		idr_destroy(&pdd->mems);
	}
}

/* After the memory of all GPUs is gone: a VM may have mapped that of another one. */
static void sim_process_free_pdds(struct sim_process *p)
{
	struct sim_pdd *pdd;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++) {
		if (pdd->drm_file)
			fput(pdd->drm_file);
		free_pages(pdd->doorbells, get_order(SIM_DOORBELL_SLICE));
		free_page(pdd->mmio);
	}
}

/* After this nothing of p runs. */
static void sim_process_dequeue(struct sim_process *p)
{
	sim_worker_stop(p);
	mutex_lock(&p->lock);
	sim_queues_destroy(p);
	mutex_unlock(&p->lock);
}

static void sim_process_release_work(struct work_struct *work)
{
	struct sim_process *p = container_of(work, struct sim_process, release_work);

	sim_process_dequeue(p);
	sim_limit_wait_release();
	sim_procfs_remove(p);
	sim_events_free(p);
	sim_process_release_mems(p);
	sim_svm_free(p);
	sim_criu_drop_svm(p);
	sim_process_free_pdds(p);
	if (p->evicted)
		atomic64_dec(&sim_count.evicted);
	free_pages(p->own_event_page, get_order(SIM_EVENT_PAGE_SIZE));
	put_task_struct(p->lead);
	mmdrop(p->mm);
	kfree(p);
	atomic64_dec(&sim_count.processes);
	module_put(THIS_MODULE);
}

static void sim_process_release(struct kref *ref)
{
	struct sim_process *p = container_of(ref, struct sim_process, ref);

	/* The last reference may go in RCU or atomic context. */
	queue_work(sim.wq, &p->release_work);
}

void sim_process_put(struct sim_process *p)
{
	kref_put(&p->ref, sim_process_release);
}

/* The KFD process of an mm with a reference, or NULL. */
struct sim_process *sim_process_by_mm(struct mm_struct *mm)
{
	struct sim_process *p, *found = NULL;

	spin_lock(&sim_processes_lock);
	list_for_each_entry(p, &sim_processes, link) {
		if (p->mm == mm && kref_get_unless_zero(&p->ref)) {
			found = p;
			break;
		}
	}
	spin_unlock(&sim_processes_lock);
	return found;
}

/* The process on the GPU whose VM it is, with a reference to the process; NULL if there is none. */
struct sim_pdd *sim_pdd_of_vm(struct sim_vm *vm)
{
	struct sim_pdd *pdd, *found = NULL;
	struct sim_process *p;

	spin_lock(&sim_processes_lock);
	list_for_each_entry(p, &sim_processes, link)
		for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds && !found; pdd++)
			if (READ_ONCE(pdd->vm) == vm && kref_get_unless_zero(&p->ref))
				found = pdd;
	spin_unlock(&sim_processes_lock);
	return found;
}

/*
 * The process behind p, the first for NULL, with a reference; NULL at the end of the list, also if
 * p is not in it any more.
 */
struct sim_process *sim_process_after(struct sim_process *p)
{
	struct sim_process *next, *found = NULL;

	spin_lock(&sim_processes_lock);
	next = p ? p : list_entry(&sim_processes, struct sim_process, link);
	if (!p || !list_empty(&p->link)) {
		list_for_each_entry_continue(next, &sim_processes, link) {
			if (kref_get_unless_zero(&next->ref)) {
				found = next;
				break;
			}
		}
	}
	spin_unlock(&sim_processes_lock);
	return found;
}

static bool sim_process_has_userptr(struct sim_process *p)
{
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int id;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++)
		idr_for_each_entry(&pdd->mems, mem, id)
			if (mem->bo->kind == SIM_BO_USERPTR)
				return true;
	return false;
}

/*
 * The mm ends: nothing of this process may touch it from here on. Queues that outlive it go on, unless the process has
 * memory of its own that the GPU uses: that it goes evicts them (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_evict_userptr @
 * 6.12.117).
 */
static void sim_mn_release(struct mmu_notifier *mn, struct mm_struct *mm)
{
	struct sim_process *p = container_of(mn, struct sim_process, mn);

	spin_lock(&sim_processes_lock);
	list_del_init(&p->link);
	spin_unlock(&sim_processes_lock);
	mutex_lock(&p->lock);
	p->dead = true;
	p->outlives = p->kernel->queues_outlive_mm && !sim_process_has_userptr(p);
	mutex_unlock(&p->lock);
	/* dead keeps anybody from queueing it again. */
	cancel_delayed_work_sync(&p->resume_work);
	if (!p->kernel->queues_outlive_mm)
		sim_process_dequeue(p);
	else
		sim_worker_kick(p);
	mmu_notifier_put(mn);
}

static int sim_mn_invalidate(struct mmu_notifier *mn, const struct mmu_notifier_range *range)
{
	return sim_svm_unmapped(container_of(mn, struct sim_process, mn), range);
}

static void sim_mn_free(struct mmu_notifier *mn)
{
	sim_process_put(container_of(mn, struct sim_process, mn));
}

static const struct mmu_notifier_ops sim_mn_ops = {
	.release = sim_mn_release,
	.invalidate_range_start = sim_mn_invalidate,
	.free_notifier = sim_mn_free,
};

static void sim_process_init_fields(struct sim_process *p)
{
	kref_init(&p->ref);
	INIT_LIST_HEAD(&p->link);
	INIT_WORK(&p->release_work, sim_process_release_work);
	INIT_DELAYED_WORK(&p->resume_work, sim_criu_resume_work);
	mutex_init(&p->lock);
	mutex_init(&p->run_lock);
	mutex_init(&p->event_lock);
	idr_init(&p->events);
	INIT_LIST_HEAD(&p->queues);
	init_waitqueue_head(&p->worker_wq);
	init_waitqueue_head(&p->event_wq);
	p->kernel = sim_behaves_as();
	sim_svm_init(p);
}

/* One pdd for each GPU the device cgroup of the opener allows, in the order of the topology. */
static int sim_process_init_pdds(struct sim_process *p)
{
	struct sim_pdd *pdd;
	unsigned int i;

	for (i = 0; i < sim.nr_gpus; i++) {
		if (!sim_gpu_visible(&sim.gpus[i]))
			continue;
		pdd = &p->pdds[p->nr_pdds++];
		pdd->p = p;
		pdd->gpu = &sim.gpus[i];
		pdd->user_gpu_id = pdd->gpu->gpu_id;
		idr_init(&pdd->mems);
		pdd->doorbells = __get_free_pages(GFP_KERNEL | __GFP_ZERO,
						  get_order(SIM_DOORBELL_SLICE));
		pdd->mmio = get_zeroed_page(GFP_KERNEL);
		if (!pdd->doorbells || !pdd->mmio)
			return -ENOMEM;
	}
	return 0;
}

static struct sim_process *sim_process_create(void)
{
	struct sim_process *p = kzalloc(sizeof(*p), GFP_KERNEL);
	int ret;

	if (!p)
		return ERR_PTR(-ENOMEM);
	sim_process_init_fields(p);
	ret = sim_process_init_pdds(p);
	if (ret)
		goto err;
	p->mm = current->mm;
	p->mn.ops = &sim_mn_ops;
	ret = mmu_notifier_register(&p->mn, p->mm);
	if (ret)
		goto err;
	mmgrab(p->mm);
	p->lead = get_task_struct(current->group_leader);
	__module_get(THIS_MODULE);
	atomic64_inc(&sim_count.processes);
	sim_procfs_add(p);
	spin_lock(&sim_processes_lock);
	list_add(&p->link, &sim_processes);
	spin_unlock(&sim_processes_lock);
	return p;

err:
	sim_process_free_pdds(p);
	kfree(p);
	return ERR_PTR(ret);
}

/* The KFD process of the caller, made if need be; one reference for the caller. */
struct sim_process *sim_process_open(void)
{
	struct sim_process *p;

	if (!current->mm || current->group_leader->mm != current->mm)
		return ERR_PTR(-EINVAL);
	mutex_lock(&sim_create_lock);
	p = sim_process_by_mm(current->mm);
	if (!p) {
		/* The first reference belongs to the mmu notifier. */
		p = sim_process_create();
		if (!IS_ERR(p))
			kref_get(&p->ref);
	}
	mutex_unlock(&sim_create_lock);
	return p;
}
