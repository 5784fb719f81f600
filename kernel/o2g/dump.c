// SPDX-License-Identifier: GPL-2.0-only
/*
 * The dump area: memory of the process for unexpected messages. The metadata of its allocations are
 * in the kernel. The protocol handler writes the prefix that is pinned.
 */
#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/mm.h>

#include "internal.h"

#define O2G_DUMP_SIZE_MIN 1024
#define O2G_DUMP_SIZE_MAX BIT_ULL(44)
#define O2G_DUMP_UNIT_SHIFT_MIN 8
#define O2G_DUMP_UNIT_COUNT_MAX BIT_ULL(20) /* bounds the search for free memory */

static int o2g_dump_create_map(struct o2g_dump_memory *dump)
{
	dump->unit_shift = O2G_DUMP_UNIT_SHIFT_MIN;
	while (dump->size >> dump->unit_shift > O2G_DUMP_UNIT_COUNT_MAX)
		dump->unit_shift++;
	dump->unit_count = dump->size >> dump->unit_shift;
	dump->free_count = dump->unit_count;
	dump->used = kvcalloc(BITS_TO_LONGS(dump->unit_count), sizeof(*dump->used),
			      GFP_KERNEL_ACCOUNT);
	return dump->used ? 0 : -ENOMEM;
}

static int o2g_dump_create(struct o2g_context *ctx, const struct o2g_dump_area *area)
{
	struct o2g_dump_memory dump = {
		.address = area->address,
		.size = area->size,
		.fit_size_max = U64_MAX,
	};
	u32 chunk;
	int error = o2g_dump_create_map(&dump);

	if (error)
		return error;
	error = o2g_chunk_create(ctx, true, &chunk);
	if (error) {
		kvfree(dump.used);
		return error;
	}
	dump.pin = o2g_pin_prefix(ctx, dump.address, dump.size, &dump.pinned_size);
	spin_lock_bh(&ctx->lock);
	ctx->dump = dump;
	spin_unlock_bh(&ctx->lock);
	return 0;
}

int o2g_set_dump_area(struct o2g_context *ctx, struct o2g_dump_area *area)
{
	int error = 0;

	if (area->size < O2G_DUMP_SIZE_MIN || area->size > O2G_DUMP_SIZE_MAX ||
	    !access_ok((void __user *)area->address, area->size))
		return -EINVAL;
	mutex_lock(&ctx->config_mutex);
	if (ctx->is_dead)
		error = -ENXIO;
	else if (ctx->dump.used)
		error = -EBUSY;
	else
		error = o2g_dump_create(ctx, area);
	mutex_unlock(&ctx->config_mutex);
	if (error)
		return error;
	area->pinned_size = ctx->dump.pinned_size;
	pr_debug("dump area of %llu bytes, %llu pinned\n", area->size, area->pinned_size);
	o2g_unblock_fitting(ctx);
	return 0;
}

/* An empty message takes memory, too, so that the area bounds the number of messages. */
static u64 o2g_dump_unit_count(const struct o2g_dump_memory *dump, u64 size)
{
	return (max(size, 1ULL) + BIT_ULL(dump->unit_shift) - 1) >> dump->unit_shift;
}

/* context.lock is held. */
bool o2g_dump_allocate(struct o2g_dump_memory *dump, u64 size, u64 *offset)
{
	u64 count = o2g_dump_unit_count(dump, size);
	unsigned long first;

	if (!dump->used || size > dump->fit_size_max || count > dump->free_count)
		return false;
	first = bitmap_find_next_zero_area(dump->used, dump->unit_count, 0, count, 0);
	if (first >= dump->unit_count) {
		dump->fit_size_max = max(size, 1ULL) - 1;
		return false;
	}
	bitmap_set(dump->used, first, count);
	dump->free_count -= count;
	*offset = (u64)first << dump->unit_shift;
	return true;
}

void o2g_dump_free(struct o2g_dump_memory *dump, u64 offset, u64 size)
{
	u64 count = o2g_dump_unit_count(dump, size);

	bitmap_clear(dump->used, offset >> dump->unit_shift, count);
	dump->free_count += count;
	dump->fit_size_max = U64_MAX;
}

u64 o2g_dump_free_size(const struct o2g_dump_memory *dump)
{
	return (u64)dump->free_count << dump->unit_shift;
}

/* Returns whether the iterator can be written in any context. */
bool o2g_dump_iter(const struct o2g_dump_memory *dump, u64 offset, u64 size,
		   struct iov_iter *iter)
{
	if (size == 0)
		return true;
	if (offset + size <= dump->pinned_size) {
		o2g_pin_iter(dump->pin, dump->address, offset, size, iter);
		return true;
	}
	iov_iter_ubuf(iter, ITER_DEST, (void __user *)(dump->address + offset), size);
	return false;
}

/* No socket is received from any more. */
void o2g_dump_unpin(struct o2g_context *ctx)
{
	struct o2g_pin *pin = NULL;

	spin_lock_bh(&ctx->lock);
	swap(pin, ctx->dump.pin);
	ctx->dump.pinned_size = 0;
	spin_unlock_bh(&ctx->lock);
	o2g_pin_destroy(ctx, pin);
}
