// SPDX-License-Identifier: GPL-2.0 OR MIT
/* AMDKFD_IOC_CRIU_OP: dispatch, PROCESS_INFO's pause, UNPAUSE and RESUME. */
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

#include "criu/criu.h"
#include "kfdsim.h"

#define SIM_RESUME_RETRY_MS 10

/* Where it fails the queues are not evicted any more all the same: kfd_device_queue_manager.c:
 * restore_process_queues_cpsch @ 6.12.117. The process is still paused. */
static int sim_criu_unpause(struct sim_process *p)
{
	int ret = -EINVAL;

	mutex_lock(&p->lock);
	if (p->paused) {
		sim_process_unevict(p);
		ret = sim_fault_criu(SIM_FAULT_UNPAUSE);
		p->paused = ret;
	}
	mutex_unlock(&p->lock);
	return ret;
}

/*
 * Userptr BOs get their pages before a queue may run. One without memory behind it is no error: the GPU faults there
 * (amdgpu_amdkfd_gpuvm.c:update_invalid_user_pages @ 6.12.117). Another error is tried again.
 */
static int sim_criu_validate_userptrs(struct sim_process *p)
{
	struct sim_pdd *pdd;
	struct sim_mem *mem;
	int id, ret;

	for (pdd = p->pdds; pdd < p->pdds + p->nr_pdds; pdd++) {
		idr_for_each_entry(&pdd->mems, mem, id) {
			if (mem->bo->kind != SIM_BO_USERPTR)
				continue;
			ret = sim_bo_probe_user(mem->bo);
			WRITE_ONCE(mem->bo->lost, ret == -EFAULT);
			if (ret && ret != -EFAULT)
				return ret;
		}
	}
	return 0;
}

/* The late half of RESUME, which tells nobody what became of it. */
void sim_criu_resume_work(struct work_struct *work)
{
	struct sim_process *p = container_of(to_delayed_work(work), struct sim_process,
					     resume_work);

	mutex_lock(&p->lock);
	if (p->dead)
		;
	else if (sim_fault_holds_resume() || sim_criu_validate_userptrs(p))
		queue_delayed_work(sim.wq, &p->resume_work,
				   msecs_to_jiffies(SIM_RESUME_RETRY_MS));
	else
		sim_process_unevict(p);
	mutex_unlock(&p->lock);
}

static struct sim_process *sim_process_by_pid(u32 nr)
{
	struct sim_process *p = NULL;
	struct task_struct *task;
	struct mm_struct *mm;
	struct pid *pid = find_get_pid(nr);

	if (!pid)
		return NULL;
	task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (!task)
		return NULL;
	mm = get_task_mm(task);
	put_task_struct(task);
	if (!mm)
		return NULL;
	p = sim_process_by_mm(mm);
	mmput_async(mm);
	return p;
}

static int sim_criu_resume(struct kfd_ioctl_criu_args *args)
{
	struct sim_process *p = sim_process_by_pid(args->pid);
	int ret;

	if (!p)
		return -ESRCH;
	mutex_lock(&p->lock);
	ret = p->dead ? -ESRCH : sim_criu_resume_svm(p);
	if (ret) {
		;
	} else if (!sim_process_has_vm(p)) {
		/* The real 6.12 and 7.3 drivers dereference NULL here. */
		pr_warn_ratelimited("RESUME of pid %d without a VM: this crashes a real kernel\n",
				    task_pid_nr(p->lead));
		atomic64_inc(&sim_count.resume_without_vm);
		ret = -EINVAL;
	} else if (!p->restoring) {
		atomic64_inc(&sim_count.resume_unrestored);
		ret = -EINVAL;
	} else {
		p->restoring = false;
		queue_delayed_work(sim.wq, &p->resume_work, 0);
	}
	mutex_unlock(&p->lock);
	sim_process_put(p);
	return ret;
}

int sim_kfd_criu_op(struct sim_process *p, void *data)
{
	struct kfd_ioctl_criu_args *args = data;

	switch (args->op) {
	case KFD_CRIU_OP_PROCESS_INFO:
		return sim_criu_process_info(p, args);
	case KFD_CRIU_OP_CHECKPOINT:
		return sim_criu_checkpoint(p, args);
	case KFD_CRIU_OP_UNPAUSE:
		return sim_criu_unpause(p);
	case KFD_CRIU_OP_RESTORE:
		return sim_criu_restore(p, args);
	case KFD_CRIU_OP_RESUME:
		return sim_criu_resume(args);
	default:
		return -EINVAL;
	}
}
