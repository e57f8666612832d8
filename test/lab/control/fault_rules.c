// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * debugfs simgpu/faults: what is to go wrong. One rule a write, numbers as C has them:
 *
 *   kfd NR N ERRNO      the Nth call of /dev/kfd ioctl NR from now on fails with ERRNO, undone
 *   drm NR N ERRNO      the same on render and primary nodes; a driver ioctl's NR is 0x40 and up
 *   copy N fail         the Nth SDMA copy packet from now on moves nothing: its submission ends
 *                       in -ETIME as after a reset of the engine, a user queue faults
 *   copy N delay MS     it takes MS milliseconds longer, with everything behind it
 *   copy N flip BIT     this bit of what it has written is inverted
 *   sdma GPU ENGINE     no SDMA queue on the engine of the GPU (its gpu_id): -EBUSY
 *   vram GPU BYTES      the GPU has no more VRAM than this
 *   resume hold         RESUME's work in the background never ends
 *   pause N ERRNO       the Nth PROCESS_INFO that stops queues fails when it has
 *   unpause N ERRNO     the Nth UNPAUSE fails when queues run again
 *   checkpoint N ERRNO  the Nth buffer that CHECKPOINT makes a dma-buf of cannot have one
 *   restore N ERRNO     the Nth buffer of RESTORE cannot be made
 *   object N ERRNO      the Nth queue, event or SVM range of RESTORE cannot be made
 *   resume N ERRNO      the Nth SVM range of RESUME cannot be set
 *   packet N fault      the Nth packet of a user queue from now on meets an address that is not mapped
 *   submission N hang   the engine that gets the Nth submission of a process stands still until it is reset
 *   interrupt N lost    the Nth interrupt of the GPU from now on does not reach the driver
 *   clear               forget all rules; what was held goes on
 *
 * A driver may refuse rules that it cannot follow. A counted rule is gone once it has struck, the others stay.
 * Reading lists what is left.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "fault_rules.h"

#define SIM_FAULT_MAX_RULES	64
#define SIM_FAULT_MAX_LINE	128
#define SIM_FAULT_MAX_DELAY_MS	(3600 * MSEC_PER_SEC)

/* How each kind is written and read back: S, N and V are numbers, subject, left and value. */
static const char *const sim_fault_forms[] = {
	[SIM_FAULT_KFD] = "kfd S N V",
	[SIM_FAULT_DRM] = "drm S N V",
	[SIM_FAULT_COPY_FAIL] = "copy N fail",
	[SIM_FAULT_COPY_DELAY] = "copy N delay V",
	[SIM_FAULT_COPY_FLIP] = "copy N flip V",
	[SIM_FAULT_SDMA] = "sdma S V",
	[SIM_FAULT_VRAM] = "vram S V",
	[SIM_FAULT_RESUME] = "resume hold",
	[SIM_FAULT_PAUSE] = "pause N V",
	[SIM_FAULT_UNPAUSE] = "unpause N V",
	[SIM_FAULT_SAVED_BO] = "checkpoint N V",
	[SIM_FAULT_RESTORED_BO] = "restore N V",
	[SIM_FAULT_OBJECT] = "object N V",
	[SIM_FAULT_SVM_RANGE] = "resume N V",
	[SIM_FAULT_PACKET] = "packet N fault",
	[SIM_FAULT_INTERRUPT] = "interrupt N lost",
	[SIM_FAULT_SUBMISSION] = "submission N hang",
};

static void sim_faults_clear(void)
{
	struct sim_fault *f, *next;

	spin_lock(&sim_faults_lock);
	list_for_each_entry_safe(f, next, &sim_faults, link)
		kfree(f);
	INIT_LIST_HEAD(&sim_faults);
	sim_nr_faults = 0;
	spin_unlock(&sim_faults_lock);
}

static bool sim_fault_valid(const struct sim_fault *f)
{
	switch (f->kind) {
	case SIM_FAULT_KFD:
	case SIM_FAULT_DRM:
	case SIM_FAULT_PAUSE:
	case SIM_FAULT_UNPAUSE:
	case SIM_FAULT_SAVED_BO:
	case SIM_FAULT_RESTORED_BO:
	case SIM_FAULT_OBJECT:
	case SIM_FAULT_SVM_RANGE:
		return f->left && f->value && f->value <= MAX_ERRNO;
	case SIM_FAULT_COPY_DELAY:
		return f->left && f->value <= SIM_FAULT_MAX_DELAY_MS;
	case SIM_FAULT_COPY_FAIL:
	case SIM_FAULT_COPY_FLIP:
	case SIM_FAULT_PACKET:
	case SIM_FAULT_INTERRUPT:
	case SIM_FAULT_SUBMISSION:
		return f->left;
	default:
		return true;
	}
}

/* The number a word of a form stands for; NULL if it stands for itself. */
static u64 *sim_fault_number(struct sim_fault *f, const char *word, size_t len)
{
	if (len != 1)
		return NULL;
	return *word == 'S' ? &f->subject : *word == 'N' ? &f->left :
	       *word == 'V' ? &f->value : NULL;
}

/* Does line say a rule of this kind, and nothing else? */
static bool sim_fault_parse(struct sim_fault *f, enum sim_fault_kind kind, const char *line)
{
	const char *form = sim_fault_forms[kind];
	char digits[24];
	u64 *number;

	memset(f, 0, sizeof(*f));
	f->kind = kind;
	while (*form) {
		size_t want = strcspn(form, " "), have = strcspn(line, " ");

		number = sim_fault_number(f, form, want);
		if (number) {
			if (have >= sizeof(digits))
				return false;
			memcpy(digits, line, have);
			digits[have] = 0;
			if (kstrtou64(digits, 0, number))
				return false;
		} else if (want != have || memcmp(form, line, want)) {
			return false;
		}
		form = skip_spaces(form + want);
		line = skip_spaces(line + have);
	}
	return !*line && sim_fault_valid(f);
}

static int sim_fault_add(const char *line)
{
	struct sim_fault *f = kzalloc(sizeof(*f), GFP_KERNEL);
	unsigned int kind;
	int ret = -EINVAL;

	if (!f)
		return -ENOMEM;
	for (kind = 0; kind < ARRAY_SIZE(sim_fault_forms); kind++)
		if (sim_fault_parse(f, kind, line))
			break;
	if (kind < ARRAY_SIZE(sim_fault_forms) && !(sim_fault_kinds & BIT(kind))) {
		ret = -EOPNOTSUPP;
	} else if (kind < ARRAY_SIZE(sim_fault_forms)) {
		spin_lock(&sim_faults_lock);
		ret = sim_nr_faults < SIM_FAULT_MAX_RULES ? 0 : -ENOSPC;
		if (!ret) {
			list_add_tail(&f->link, &sim_faults);
			sim_nr_faults++;
		}
		spin_unlock(&sim_faults_lock);
	}
	if (ret)
		kfree(f);
	return ret;
}

static int sim_faults_show(struct seq_file *m, void *unused)
{
	const char *form;
	struct sim_fault *f;
	u64 *number;
	size_t len;

	spin_lock(&sim_faults_lock);
	list_for_each_entry(f, &sim_faults, link) {
		for (form = sim_fault_forms[f->kind]; *form; form = skip_spaces(form + len)) {
			len = strcspn(form, " ");
			number = sim_fault_number(f, form, len);
			if (number)
				seq_printf(m, "%llu", *number);
			else
				seq_write(m, form, len);
			seq_putc(m, form[len] ? ' ' : '\n');
		}
	}
	spin_unlock(&sim_faults_lock);
	return 0;
}

static ssize_t sim_faults_write(struct file *file, const char __user *user, size_t len,
				loff_t *pos)
{
	char line[SIM_FAULT_MAX_LINE];
	int ret = 0;

	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, user, len))
		return -EFAULT;
	line[len] = 0;
	if (!strcmp(strim(line), "clear"))
		sim_faults_clear();
	else
		ret = sim_fault_add(strim(line));
	if (!ret)
		ret = sim_faults_changed();
	return ret ? ret : len;
}
DEFINE_SHOW_STORE_ATTRIBUTE(sim_faults);

void sim_faults_init(struct dentry *dir)
{
	debugfs_create_file("faults", 0600, dir, NULL, &sim_faults_fops);
}

/* After the file is gone: nobody adds a rule any more. */
void sim_faults_fini(void)
{
	sim_faults_clear();
}
