/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What the kernels this module is built for, 6.12 and 7.x, call differently. Code uses the newer
 * names; here they are given to the older kernels.
 */
#ifndef KFDSIM_KERNELS_H
#define KFDSIM_KERNELS_H

#include <linux/gfp.h>
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define SIM_NS_DMA_BUF DMA_BUF

static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#else
#define SIM_NS_DMA_BUF "DMA_BUF"
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define alloc_pages_bulk alloc_pages_bulk_array
/* A field of struct drm_driver that later ones do not have. */
#define SIM_DRIVER_DATE .date = "20150101",
#else
#define SIM_DRIVER_DATE
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
static inline void zap_special_vma_range(struct vm_area_struct *vma, unsigned long address,
					 unsigned long size)
{
	zap_vma_ptes(vma, address, size);
}

static inline bool vma_is_cow_mapping(const struct vm_area_struct *vma)
{
	return is_cow_mapping(vma->vm_flags);
}
#endif

#endif
