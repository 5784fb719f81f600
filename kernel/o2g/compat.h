/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels from 6.1 on. */
#ifndef O2G_COMPAT_H
#define O2G_COMPAT_H

#include <linux/eventfd.h>
#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "o2g needs Linux 6.1 or newer"
#endif
#ifndef CONFIG_64BIT
#error "o2g needs a 64-bit processor"
#endif
#ifndef CONFIG_MMU_NOTIFIER
#error "o2g needs a kernel with CONFIG_MMU_NOTIFIER"
#endif

/* Flags became read-only outside helper functions. */
static inline void o2g_vma_change_flags(struct vm_area_struct *vma, vm_flags_t set,
					vm_flags_t clear)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

/* The count that is added became always 1. */
static inline void o2g_eventfd_signal(struct eventfd_ctx *eventfd)
{
	if (!eventfd_signal_allowed())
		return;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
	eventfd_signal(eventfd);
#else
	eventfd_signal(eventfd, 1);
#endif
}

#endif
