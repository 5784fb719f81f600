// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots: the description of entries that the process maps. The pages are accounted to the
 * process's memory cgroup.
 */
#include <linux/nospec.h>
#include <linux/slab.h>

#include "internal.h"

static struct o2g_slot *o2g_slot_at(struct o2g_chunk *chunk, u32 index)
{
	size_t offset = index * sizeof(struct o2g_slot);

	return page_address(chunk->pages[offset / PAGE_SIZE]) + offset_in_page(offset);
}

void o2g_chunk_destroy(struct o2g_chunk *chunk)
{
	size_t i;

	for (i = 0; i < O2G_CHUNK_PAGE_COUNT; i++)
		if (chunk->pages[i])
			__free_page(chunk->pages[i]);
	kvfree(chunk->expected);
	kvfree(chunk->unexpected);
	kfree(chunk);
}

static struct o2g_chunk *o2g_chunk_allocate(bool is_unexpected)
{
	struct o2g_chunk *chunk = kzalloc(sizeof(*chunk), GFP_KERNEL_ACCOUNT);
	size_t i;

	if (!chunk)
		return NULL;
	for (i = 0; i < O2G_CHUNK_PAGE_COUNT; i++) {
		chunk->pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!chunk->pages[i])
			goto failed;
	}
	if (is_unexpected)
		chunk->unexpected = kvcalloc(O2G_CHUNK_SLOT_COUNT, sizeof(*chunk->unexpected),
					     GFP_KERNEL_ACCOUNT);
	else
		chunk->expected = kvcalloc(O2G_CHUNK_SLOT_COUNT, sizeof(*chunk->expected),
					   GFP_KERNEL_ACCOUNT);
	if (chunk->unexpected || chunk->expected)
		return chunk;
failed:
	o2g_chunk_destroy(chunk);
	return NULL;
}

static void o2g_chunk_fill(struct o2g_context *ctx, struct o2g_chunk *chunk, u32 number)
{
	u32 i;

	for (i = 0; i < O2G_CHUNK_SLOT_COUNT; i++) {
		struct o2g_entry *entry = chunk->expected ? &chunk->expected[i].entry :
							    &chunk->unexpected[i].entry;

		entry->slot = o2g_slot_at(chunk, i);
		entry->number = number * O2G_CHUNK_SLOT_COUNT + i;
		entry->is_unexpected = !chunk->expected;
		if (entry->is_unexpected)
			list_add_tail(&chunk->unexpected[i].link, &ctx->free_unexpected);
	}
	if (chunk->unexpected)
		ctx->free_unexpected_count += O2G_CHUNK_SLOT_COUNT;
}

/* Returns -ENOMEM also if there are O2G_CHUNK_COUNT_MAX. */
int o2g_chunk_create(struct o2g_context *ctx, bool is_unexpected, u32 *number)
{
	struct o2g_chunk *chunk;

	if (READ_ONCE(ctx->chunk_count) == O2G_CHUNK_COUNT_MAX)
		return -ENOMEM;
	chunk = o2g_chunk_allocate(is_unexpected);
	if (!chunk)
		return -ENOMEM;
	spin_lock_bh(&ctx->lock);
	if (ctx->chunk_count == O2G_CHUNK_COUNT_MAX) {
		spin_unlock_bh(&ctx->lock);
		o2g_chunk_destroy(chunk);
		return -ENOMEM;
	}
	*number = ctx->chunk_count;
	o2g_chunk_fill(ctx, chunk, *number);
	smp_store_release(&ctx->chunks[*number], chunk); /* pairs with o2g_chunk_find() */
	WRITE_ONCE(ctx->chunk_count, *number + 1);
	spin_unlock_bh(&ctx->lock);
	pr_debug("chunk %u has slots for %s messages\n", *number,
		 is_unexpected ? "unexpected" : "expected");
	return 0;
}

struct o2g_chunk *o2g_chunk_find(struct o2g_context *ctx, u64 number)
{
	if (number >= O2G_CHUNK_COUNT_MAX)
		return NULL;
	number = array_index_nospec(number, O2G_CHUNK_COUNT_MAX);
	return smp_load_acquire(&ctx->chunks[number]); /* pairs with o2g_chunk_create() */
}

struct o2g_expected *o2g_expected_find(struct o2g_context *ctx, u32 slot)
{
	struct o2g_chunk *chunk = o2g_chunk_find(ctx, slot / O2G_CHUNK_SLOT_COUNT);

	if (!chunk || !chunk->expected)
		return NULL;
	return &chunk->expected[slot % O2G_CHUNK_SLOT_COUNT];
}

struct o2g_unexpected *o2g_unexpected_find(struct o2g_context *ctx, u32 slot)
{
	struct o2g_chunk *chunk = o2g_chunk_find(ctx, slot / O2G_CHUNK_SLOT_COUNT);

	if (!chunk || !chunk->unexpected)
		return NULL;
	return &chunk->unexpected[slot % O2G_CHUNK_SLOT_COUNT];
}

void o2g_ring_destroy(struct page **pages)
{
	size_t i;

	if (!pages)
		return;
	for (i = 0; i < O2G_RING_PAGE_COUNT; i++)
		if (pages[i])
			__free_page(pages[i]);
	kfree(pages);
}

struct page **o2g_ring_create(void)
{
	struct page **pages = kcalloc(O2G_RING_PAGE_COUNT, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	size_t i;

	if (!pages)
		return NULL;
	for (i = 0; i < O2G_RING_PAGE_COUNT; i++) {
		pages[i] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!pages[i]) {
			o2g_ring_destroy(pages);
			return NULL;
		}
	}
	return pages;
}

/* The process sees it with the next o2g_publish(). */
void o2g_ring_add(struct o2g_context *ctx, u32 slot)
{
	size_t offset = ctx->completed_count % O2G_RING_COUNT * sizeof(u32);
	u32 *place = page_address(ctx->ring_pages[offset / PAGE_SIZE]) + offset_in_page(offset);

	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(*place, slot);
	ctx->completed_count++;
}

void o2g_set_flags(struct o2g_entry *entry, u32 add, u32 remove)
{
	entry->flags = (entry->flags | add) & ~remove;
	/* A process that has seen a flag can read everything that was written before. */
	smp_store_release(&entry->slot->flags, entry->flags);
}
