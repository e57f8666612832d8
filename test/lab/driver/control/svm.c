// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Ranges of shared virtual memory. Debian's 6.12 is built without them. */
#include <linux/interval_tree.h>
#include <linux/seq_file.h>

#include "sim.h"

#include "control.h"
#include "kfd_svm.h"

#if IS_ENABLED(CONFIG_HSA_AMD_SVM)

/* Sorted by address. */
static struct svm_range *sim_svm_first(struct kfd_process *p)
{
	struct interval_tree_node *node = interval_tree_iter_first(&p->svms.objects, 0, ULONG_MAX);

	return node ? container_of(node, struct svm_range, it_node) : NULL;
}

static struct svm_range *sim_svm_next(struct svm_range *r)
{
	struct interval_tree_node *node = interval_tree_iter_next(&r->it_node, 0, ULONG_MAX);

	return node ? container_of(node, struct svm_range, it_node) : NULL;
}

s64 sim_svm_count(struct kfd_process *p)
{
	struct svm_range *r;
	s64 n = 0;

	mutex_lock(&p->svms.lock);
	for (r = sim_svm_first(p); r; r = sim_svm_next(r))
		n++;
	mutex_unlock(&p->svms.lock);
	return n;
}

/* Bit i of access and in_place stands for the process's GPU number i. */
void sim_svm_show(struct seq_file *m, struct kfd_process *p)
{
	struct svm_range *r;

	mutex_lock(&p->svms.lock);
	for (r = sim_svm_first(p); r; r = sim_svm_next(r))
		seq_printf(m, "svm first=%#lx last=%#lx preferred=%#x prefetch=%#x flags=%#x granularity=%u "
			      "access=%#lx in_place=%#lx\n",
			   r->start, r->last, r->preferred_loc, r->prefetch_loc, r->flags, r->granularity,
			   r->bitmap_access[0], r->bitmap_aip[0]);
	mutex_unlock(&p->svms.lock);
}

#else

s64 sim_svm_count(struct kfd_process *p)
{
	return 0;
}

void sim_svm_show(struct seq_file *m, struct kfd_process *p)
{
}

#endif
