/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * kfdsim: a simulated AMD GPU behind the real amdgpu/KFD uapi.
 *
 * Lock order, outermost first:
 *   vm->handle_lock > process->lock > process->run_lock > process->event_lock
 *   any of them > vm->lock (leaf: no user memory is touched below it)
 *   any of them > mmap_lock (pins of userptr pages, copies to and from user)
 *   any of them, mmap_lock too > svm.lock (leaf: taken when memory is unmapped)
 * Nothing here takes another of these locks while holding mmap_lock; a doorbell fault, which
 * runs under it, only wakes the worker.
 *
 * What the files of a folder do for the others is in a header there; this one has them all.
 */
#ifndef KFDSIM_H
#define KFDSIM_H

#include "criu/criu_op.h"
#include "drm/render_node.h"
#include "engines/engines.h"
#include "faults.h"
#include "gpus/gpus.h"
#include "kfd/kfd.h"
#include "memory/memory.h"
#include "rates.h"

/* objects.c */
void sim_objects_init(struct dentry *dir);

/* debugfs.c */
void sim_debugfs_init(void);
void sim_debugfs_fini(void);

#endif
