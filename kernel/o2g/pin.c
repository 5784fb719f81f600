// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pinning of memory that the protocol handler writes. Pages are charged to RLIMIT_MEMLOCK of the
 * user, and to the module parameter pin_limit. Memory that is refused is not an error: threads of
 * the process write it.
 */
#include <linux/capability.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "internal.h"

#define O2G_PIN_BATCH 32
#define O2G_PIN_LIMIT_MAX (64 * 1024) /* MiB a context */
#define O2G_UNPIN_DELAY (HZ / 10)

static unsigned long o2g_pin_limit_pages(void)
{
	unsigned long limit = min_t(unsigned int, READ_ONCE(o2g_pin_limit), O2G_PIN_LIMIT_MAX);

	return limit << (20 - PAGE_SHIFT);
}

static unsigned long o2g_user_limit_pages(void)
{
	if (ns_capable_noaudit(&init_user_ns, CAP_IPC_LOCK))
		return LONG_MAX;
	return min_t(unsigned long, rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT, LONG_MAX);
}

static bool o2g_charge_to(atomic_long_t *counter, unsigned long page_count, unsigned long limit)
{
	long old = atomic_long_read(counter);

	do {
		if (old < 0 || old > limit || page_count > limit - old)
			return false;
	} while (!atomic_long_try_cmpxchg(counter, &old, old + page_count));
	return true;
}

static bool o2g_charge(struct o2g_context *ctx, unsigned long page_count)
{
	if (!o2g_charge_to(&ctx->pinned_page_count, page_count, o2g_pin_limit_pages()))
		return false;
	if (o2g_charge_to(&ctx->user->locked_vm, page_count, o2g_user_limit_pages()))
		return true;
	atomic_long_sub(page_count, &ctx->pinned_page_count);
	return false;
}

static void o2g_uncharge(struct o2g_context *ctx, unsigned long page_count)
{
	atomic_long_sub(page_count, &ctx->pinned_page_count);
	atomic_long_sub(page_count, &ctx->user->locked_vm);
}

/*
 * Pages of files must not stay writable while the file system writes them back. Anonymous and
 * shared memory have no such state.
 */
static bool o2g_may_keep(struct page *page)
{
	struct folio *folio = page_folio(page);

	return folio_test_swapbacked(folio) || folio_test_hugetlb(folio);
}

static size_t o2g_pin_some(struct o2g_pin *pin, u64 address, size_t count)
{
	struct page *pages[O2G_PIN_BATCH];
	int pinned_count = pin_user_pages_fast(address, min_t(size_t, count, O2G_PIN_BATCH),
					       FOLL_WRITE | FOLL_LONGTERM, pages);
	int i;

	for (i = 0; i < pinned_count; i++) {
		if (!o2g_may_keep(pages[i]))
			break;
		pin->pages[pin->page_count++] = (struct bio_vec){
			.bv_page = pages[i],
			.bv_len = PAGE_SIZE,
		};
	}
	if (i < pinned_count)
		unpin_user_pages(&pages[i], pinned_count - i);
	return max(i, 0);
}

static void o2g_unpin_pages(const struct o2g_pin *pin, bool is_dirty)
{
	struct page *pages[O2G_PIN_BATCH];
	unsigned long done = 0;

	while (done < pin->page_count) {
		unsigned long count = min_t(unsigned long, pin->page_count - done, O2G_PIN_BATCH);
		unsigned long i;

		for (i = 0; i < count; i++)
			pages[i] = pin->pages[done + i].bv_page;
		unpin_user_pages_dirty_lock(pages, count, is_dirty);
		done += count;
		cond_resched();
	}
}

/* Pins pages from the start on until one cannot be pinned. The pages are charged. */
static struct o2g_pin *o2g_pin_pages(u64 address, unsigned long page_count)
{
	struct o2g_pin *pin =
		kvmalloc(struct_size(pin, pages, page_count), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);

	if (!pin)
		return NULL;
	INIT_LIST_HEAD(&pin->link);
	pin->page_count = 0;
	address &= PAGE_MASK;
	while (pin->page_count < page_count && !fatal_signal_pending(current)) {
		if (!o2g_pin_some(pin, address + pin->page_count * PAGE_SIZE,
				  page_count - pin->page_count))
			break;
		cond_resched();
	}
	return pin;
}

static unsigned long o2g_page_count(u64 address, u64 size)
{
	return (offset_in_page(address) + size + PAGE_SIZE - 1) >> PAGE_SHIFT;
}

/* Returns NULL if not all of the buffer can be pinned. */
struct o2g_pin *o2g_pin_buffer(struct o2g_context *ctx, u64 address, u64 size)
{
	unsigned long page_count = o2g_page_count(address, size);
	struct o2g_pin *pin;

	if (size == 0 || !o2g_charge(ctx, page_count))
		return NULL;
	pin = o2g_pin_pages(address, page_count);
	if (pin && pin->page_count == page_count)
		return pin;
	if (pin) {
		o2g_unpin_pages(pin, false);
		kvfree(pin);
	}
	o2g_uncharge(ctx, page_count);
	return NULL;
}

static unsigned long o2g_unused_pages(const atomic_long_t *counter, unsigned long limit)
{
	unsigned long used = max(atomic_long_read(counter), 0L);

	return used < limit ? limit - used : 0;
}

/*
 * Pins as many of the first pages as are allowed. At most half of the limits is used: the rest is
 * for buffers.
 */
struct o2g_pin *o2g_pin_prefix(struct o2g_context *ctx, u64 address, u64 size, u64 *pinned_size)
{
	unsigned long page_count = o2g_page_count(address, size);
	unsigned long limit =
		min(o2g_unused_pages(&ctx->pinned_page_count, o2g_pin_limit_pages()),
		    o2g_unused_pages(&ctx->user->locked_vm, o2g_user_limit_pages()));
	struct o2g_pin *pin;

	*pinned_size = 0;
	page_count = min(page_count, limit / 2);
	if (page_count == 0 || !o2g_charge(ctx, page_count))
		return NULL;
	pin = o2g_pin_pages(address, page_count);
	o2g_uncharge(ctx, page_count - (pin ? pin->page_count : 0));
	if (!pin)
		return NULL;
	if (pin->page_count == 0) {
		kvfree(pin);
		return NULL;
	}
	*pinned_size = min_t(u64, size, pin->page_count * PAGE_SIZE - offset_in_page(address));
	return pin;
}

/* `size` bytes at `offset` of the memory at `address`, whose first page is the pin's first. */
void o2g_pin_iter(const struct o2g_pin *pin, u64 address, u64 offset, u64 size,
		  struct iov_iter *iter)
{
	u64 start = offset_in_page(address) + offset;
	unsigned long first = start >> PAGE_SHIFT;

	iov_iter_bvec(iter, ITER_DEST, pin->pages + first, pin->page_count - first,
		      offset_in_page(start) + size);
	iov_iter_advance(iter, offset_in_page(start));
}

/* Sleeps. */
void o2g_pin_destroy(struct o2g_context *ctx, struct o2g_pin *pin)
{
	if (!pin)
		return;
	o2g_unpin_pages(pin, true);
	o2g_uncharge(ctx, pin->page_count);
	kvfree(pin);
}

/* Unpin later, in a context that can sleep. context.lock is held. */
void o2g_pin_release(struct o2g_context *ctx, struct o2g_pin *pin)
{
	lockdep_assert_held(&ctx->lock);
	if (!pin)
		return;
	list_add_tail(&pin->link, &ctx->released_pins);
	if (!ctx->is_dead)
		queue_delayed_work(o2g_workqueue, &ctx->unpin_work, O2G_UNPIN_DELAY);
}

void o2g_unpin_released(struct o2g_context *ctx)
{
	struct o2g_pin *pin, *next;
	LIST_HEAD(pins);

	if (list_empty_careful(&ctx->released_pins))
		return;
	spin_lock_bh(&ctx->lock);
	list_splice_init(&ctx->released_pins, &pins);
	spin_unlock_bh(&ctx->lock);
	list_for_each_entry_safe(pin, next, &pins, link)
		o2g_pin_destroy(ctx, pin);
}

void o2g_unpin_work(struct work_struct *work)
{
	o2g_unpin_released(container_of(to_delayed_work(work), struct o2g_context, unpin_work));
}
