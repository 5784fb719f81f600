// SPDX-License-Identifier: GPL-2.0-only
/* /dev/o2g: the calls of tanada/o2g_driver.h, and the mapping of slots. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/uaccess.h>

#include "internal.h"

#define O2G_VERSION "0.1.0" /* that of the project */

unsigned int o2g_handler_bytes = 256 * 1024;
module_param_named(handler_bytes, o2g_handler_bytes, uint, 0644);
MODULE_PARM_DESC(handler_bytes,
		 "Bytes that one run of the protocol handler copies; a worker copies the rest (default 262144)");

unsigned int o2g_pin_limit = 1024;
module_param_named(pin_limit, o2g_pin_limit, uint, 0644);
MODULE_PARM_DESC(pin_limit,
		 "MiB of memory that one context can pin, in addition to RLIMIT_MEMLOCK (default 1024)");

struct workqueue_struct *o2g_workqueue;

static int o2g_open(struct inode *inode, struct file *file)
{
	struct o2g_context *ctx = o2g_context_create();

	if (!ctx)
		return -ENOMEM;
	file->private_data = ctx;
	return 0;
}

static int o2g_release(struct inode *inode, struct file *file)
{
	o2g_context_destroy(file->private_data);
	return 0;
}

static int o2g_check_caller(struct o2g_context *ctx)
{
	struct mm_struct *mm = smp_load_acquire(&ctx->mm); /* pairs with o2g_context_bind() */

	if (!mm)
		return -ENXIO;
	if (mm != current->mm)
		return -EPERM;
	return READ_ONCE(ctx->is_dead) ? -ENXIO : 0;
}

static long o2g_ioctl_init(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_binding init;

	if (copy_from_user(&init, arg, sizeof(init)))
		return -EFAULT;
	if (init.abi != O2G_DRIVER_ABI) {
		init.abi = O2G_DRIVER_ABI;
		return copy_to_user(arg, &init, sizeof(init)) ? -EFAULT : -EPROTONOSUPPORT;
	}
	if ((init.flags & ~O2G_BIND_ENVELOPES) || init.reserved || !init.socket_count ||
	    init.socket_count > O2G_SOCKET_COUNT_MAX)
		return -EINVAL;
	return o2g_context_bind(ctx, &init);
}

static long o2g_ioctl_register(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_register request;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	return o2g_register(ctx, &request);
}

static long o2g_ioctl_set_dump_area(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_dump_area area;
	int error;

	if (copy_from_user(&area, arg, sizeof(area)))
		return -EFAULT;
	error = o2g_set_dump_area(ctx, &area);
	if (!error && copy_to_user(arg, &area, sizeof(area)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_grow(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_grow grow;
	int error;

	if (copy_from_user(&grow, arg, sizeof(grow)))
		return -EFAULT;
	if (grow.kind != O2G_CHUNK_EXPECTED)
		return -EINVAL;
	error = o2g_chunk_create(ctx, false, &grow.chunk);
	if (!error && copy_to_user(arg, &grow, sizeof(grow)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_put(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_put request;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	return o2g_put(ctx, &request);
}

static long o2g_ioctl_put_message(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_put_message request;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	return o2g_put_message(ctx, &request);
}

static long o2g_ioctl_readable(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_readable request;
	int error;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	error = o2g_readable(ctx, &request);
	if (!error && copy_to_user(arg, &request, sizeof(request)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_arm(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_arm request;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	o2g_arm(ctx, &request);
	return 0;
}

static long o2g_ioctl_read(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_read request;
	int error;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	error = o2g_read(ctx, &request);
	if (!error && copy_to_user(arg, &request, sizeof(request)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_find(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_find request;
	int error;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	error = o2g_find(ctx, &request);
	if ((!error || error == -ENOENT) && copy_to_user(arg, &request, sizeof(request)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_next(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_next request;
	int error;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	error = o2g_next(ctx, &request);
	if (!error && copy_to_user(arg, &request, sizeof(request)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_wait(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_wait request;
	int error;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	error = o2g_wait(ctx, &request);
	if (!error && copy_to_user(arg, &request, sizeof(request)))
		error = -EFAULT;
	return error;
}

static long o2g_ioctl_counters(struct o2g_context *ctx, void __user *arg)
{
	struct o2g_counters counters;

	o2g_count(ctx, &counters);
	return copy_to_user(arg, &counters, sizeof(counters)) ? -EFAULT : 0;
}

/* The calls for headers only. */
static long o2g_call_headers(struct o2g_context *ctx, unsigned int command, unsigned long value)
{
	void __user *arg = (void __user *)value;

	if (ctx->has_envelopes)
		return -EOPNOTSUPP;
	switch (command) {
	case O2G_IOC_SET_DUMP_AREA:
		return o2g_ioctl_set_dump_area(ctx, arg);
	case O2G_IOC_PUT:
		return o2g_ioctl_put(ctx, arg);
	case O2G_IOC_FIND:
		return o2g_ioctl_find(ctx, arg);
	case O2G_IOC_NEXT:
		return o2g_ioctl_next(ctx, arg);
	default: /* O2G_IOC_FREE */
		return value > U32_MAX ? -EINVAL : o2g_free(ctx, value);
	}
}

/* The calls for envelopes only. */
static long o2g_call_envelopes(struct o2g_context *ctx, unsigned int command, unsigned long value)
{
	void __user *arg = (void __user *)value;

	if (!ctx->has_envelopes)
		return -EOPNOTSUPP;
	switch (command) {
	case O2G_IOC_PUT_MESSAGE:
		return o2g_ioctl_put_message(ctx, arg);
	case O2G_IOC_READABLE:
		return o2g_ioctl_readable(ctx, arg);
	case O2G_IOC_READ:
		return o2g_ioctl_read(ctx, arg);
	case O2G_IOC_DETACH:
		return value > S32_MAX ? -ENOENT : o2g_detach(ctx, value);
	default: /* O2G_IOC_ARM */
		return o2g_ioctl_arm(ctx, arg);
	}
}

static long o2g_ioctl(struct file *file, unsigned int command, unsigned long value)
{
	struct o2g_context *ctx = file->private_data;
	void __user *arg = (void __user *)value;
	int error;

	if (_IOC_TYPE(command) != O2G_IOC_MAGIC)
		return -ENOTTY;
	if (command == O2G_IOC_INIT)
		return o2g_ioctl_init(ctx, arg);
	error = o2g_check_caller(ctx);
	/* A dumper thread that a signal has interrupted finds the context detached. */
	if (error == -ENXIO && command == O2G_IOC_DUMP && ctx->mm)
		return 0;
	if (error)
		return error;
	switch (command) {
	case O2G_IOC_SET_DUMP_AREA:
	case O2G_IOC_PUT:
	case O2G_IOC_FIND:
	case O2G_IOC_NEXT:
	case O2G_IOC_FREE:
		return o2g_call_headers(ctx, command, value);
	case O2G_IOC_PUT_MESSAGE:
	case O2G_IOC_READABLE:
	case O2G_IOC_READ:
	case O2G_IOC_DETACH:
	case O2G_IOC_ARM:
		return o2g_call_envelopes(ctx, command, value);
	case O2G_IOC_REGISTER:
		return o2g_ioctl_register(ctx, arg);
	case O2G_IOC_DUMP:
		return o2g_dump(ctx);
	case O2G_IOC_STOP:
		o2g_stop(ctx);
		return 0;
	case O2G_IOC_GROW:
		return o2g_ioctl_grow(ctx, arg);
	case O2G_IOC_CANCEL:
		return value > U32_MAX ? -EINVAL : o2g_cancel(ctx, value);
	case O2G_IOC_WAIT:
		return o2g_ioctl_wait(ctx, arg);
	case O2G_IOC_RANK_STATUS:
		return value > S32_MAX ? -ENOENT : o2g_rank_status(ctx, value);
	case O2G_IOC_COUNTERS:
		return o2g_ioctl_counters(ctx, arg);
	case O2G_IOC_EVENTFD:
		return o2g_set_eventfd(ctx, (int)value);
	case O2G_IOC_FINI:
		o2g_context_detach(ctx);
		return 0;
	default:
		return -ENOTTY;
	}
}

static int o2g_map_pages(struct vm_area_struct *vma, struct page **pages, unsigned long count)
{
	unsigned long i;
	int error = 0;

	if (vma_pages(vma) != count)
		return -EINVAL;
	for (i = 0; i < count && !error; i++)
		error = vm_insert_page(vma, vma->vm_start + i * PAGE_SIZE, pages[i]);
	return error;
}

static int o2g_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct o2g_context *ctx = file->private_data;
	struct o2g_chunk *chunk;
	int error = o2g_check_caller(ctx);

	if (error)
		return error;
	if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC))
		return -EINVAL;
	o2g_vma_change_flags(vma, VM_DONTCOPY | VM_DONTEXPAND, VM_MAYEXEC);
	if (vma->vm_pgoff == 0)
		return o2g_map_pages(vma, &ctx->shared_page, 1);
	if (vma->vm_pgoff == O2G_RING_OFFSET / PAGE_SIZE && ctx->has_envelopes)
		return o2g_map_pages(vma, ctx->ring_pages, O2G_RING_PAGE_COUNT);
	if (vma->vm_pgoff % O2G_CHUNK_PAGE_COUNT)
		return -EINVAL;
	chunk = o2g_chunk_find(ctx, vma->vm_pgoff / O2G_CHUNK_PAGE_COUNT - 1);
	return chunk ? o2g_map_pages(vma, chunk->pages, O2G_CHUNK_PAGE_COUNT) : -EINVAL;
}

static __poll_t o2g_poll(struct file *file, struct poll_table_struct *table)
{
	struct o2g_context *ctx = file->private_data;

	if (o2g_check_caller(ctx))
		return EPOLLERR;
	poll_wait(file, &ctx->wait, table);
	return o2g_has_news(ctx, READ_ONCE(ctx->waited_count)) ? EPOLLIN | EPOLLRDNORM : 0;
}

static const struct file_operations o2g_fops = {
	.owner = THIS_MODULE,
	.open = o2g_open,
	.release = o2g_release,
	.unlocked_ioctl = o2g_ioctl,
	.mmap = o2g_mmap,
	.poll = o2g_poll,
};

static struct miscdevice o2g_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "o2g",
	.fops = &o2g_fops,
	.mode = 0666,
};

static int __init o2g_module_init(void)
{
	int error;

	o2g_workqueue = alloc_workqueue("o2g", WQ_UNBOUND, 0);
	if (!o2g_workqueue)
		return -ENOMEM;
	error = misc_register(&o2g_device);
	if (error)
		destroy_workqueue(o2g_workqueue);
	return error;
}

static void __exit o2g_module_exit(void)
{
	misc_deregister(&o2g_device);
	destroy_workqueue(o2g_workqueue);
}

module_init(o2g_module_init);
module_exit(o2g_module_exit);
MODULE_DESCRIPTION("O2G: receive queues of MPI in the protocol handler of TCP");
MODULE_AUTHOR("The authors of tanada");
MODULE_VERSION(O2G_VERSION);
MODULE_LICENSE("GPL");
