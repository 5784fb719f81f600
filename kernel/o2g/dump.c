// SPDX-License-Identifier: GPL-2.0-only
/*
 * The dump area: memory of the process for unexpected messages. The metadata of its allocations are
 * in the kernel. The protocol handler writes the prefix that is pinned.
 */
#include <linux/bits.h>
#include <linux/genalloc.h>

#include "internal.h"

#define O2G_DUMP_SIZE_MIN 1024
#define O2G_DUMP_SIZE_MAX BIT_ULL(44)
#define O2G_DUMP_ORDER_MIN 8
#define O2G_DUMP_UNIT_COUNT_MAX BIT_ULL(20) /* bounds the search for free memory */

static int o2g_dump_create_pool(struct o2g_dump_memory *dump)
{
	int order = O2G_DUMP_ORDER_MIN;

	while (dump->size >> order > O2G_DUMP_UNIT_COUNT_MAX)
		order++;
	dump->pool = gen_pool_create(order, NUMA_NO_NODE);
	if (!dump->pool)
		return -ENOMEM;
	dump->base = 1ULL << order;
	if (!gen_pool_add(dump->pool, dump->base, round_down(dump->size, 1ULL << order),
			  NUMA_NO_NODE))
		return 0;
	gen_pool_destroy(dump->pool);
	return -ENOMEM;
}

static int o2g_dump_create(struct o2g_context *ctx, const struct o2g_dump_area *area)
{
	struct o2g_dump_memory dump = {
		.address = area->address,
		.size = area->size,
		.fit_size_max = U64_MAX,
	};
	u32 chunk;
	int error = o2g_dump_create_pool(&dump);

	if (error)
		return error;
	error = o2g_chunk_create(ctx, true, &chunk);
	if (error) {
		gen_pool_destroy(dump.pool);
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
	else if (ctx->dump.pool)
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

/*
 * An empty message takes memory, too, so that the area bounds the number of messages. context.lock
 * is held.
 */
bool o2g_dump_allocate(struct o2g_dump_memory *dump, u64 size, u64 *offset)
{
	u64 allocated;

	size = max(size, 1ULL);
	if (!dump->pool || size > dump->fit_size_max)
		return false;
	allocated = gen_pool_alloc(dump->pool, size);
	if (!allocated) {
		dump->fit_size_max = size - 1;
		return false;
	}
	*offset = allocated - dump->base;
	return true;
}

void o2g_dump_free(struct o2g_dump_memory *dump, u64 offset, u64 size)
{
	gen_pool_free(dump->pool, dump->base + offset, max(size, 1ULL));
	dump->fit_size_max = U64_MAX;
}

u64 o2g_dump_free_size(const struct o2g_dump_memory *dump)
{
	return dump->pool ? gen_pool_avail(dump->pool) : 0;
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

void o2g_dump_destroy(struct o2g_context *ctx)
{
	struct o2g_unexpected *u;

	if (!ctx->dump.pool)
		return;
	list_for_each_entry(u, &ctx->unexpected, link)
		o2g_dump_free(&ctx->dump, u->offset, u->size);
	gen_pool_destroy(ctx->dump.pool);
}
