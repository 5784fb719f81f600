// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts: one open of the device, bound to one address space. The sockets are released when the
 * address space ends (exit, exec, kill) even if a child still holds the file.
 */
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "internal.h"

struct o2g_context *o2g_context_create(void)
{
	struct o2g_context *ctx = kvzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);

	if (!ctx)
		return NULL;
	mutex_init(&ctx->config_mutex);
	spin_lock_init(&ctx->lock);
	xa_init(&ctx->ranks);
	init_waitqueue_head(&ctx->wait);
	init_waitqueue_head(&ctx->dump_wait);
	INIT_WORK(&ctx->work, o2g_work);
	INIT_DELAYED_WORK(&ctx->unpin_work, o2g_unpin_work);
	INIT_LIST_HEAD(&ctx->released_pins);
	INIT_LIST_HEAD(&ctx->work_list);
	INIT_LIST_HEAD(&ctx->pending_list);
	INIT_LIST_HEAD(&ctx->readable_list);
	INIT_LIST_HEAD(&ctx->ended_list);
	INIT_LIST_HEAD(&ctx->unexpected);
	INIT_LIST_HEAD(&ctx->free_unexpected);
	o2g_matcher_init(&ctx->queues);
	o2g_matcher_init(&ctx->blocked);
	return ctx;
}

static void o2g_unhook_all(struct o2g_context *ctx)
{
	struct o2g_connection *conn;
	unsigned long rank;

	xa_for_each(&ctx->ranks, rank, conn) {
		o2g_unhook(conn);
		cond_resched();
	}
	/* Callbacks that run without the socket lock: see o2g_error_report(). */
	if (ctx->socket_count)
		synchronize_rcu();
}

static void o2g_unpin_chunk(struct o2g_context *ctx, struct o2g_chunk *chunk)
{
	u32 i;

	if (!chunk->expected)
		return;
	spin_lock_bh(&ctx->lock);
	for (i = 0; i < O2G_CHUNK_SLOT_COUNT; i++) {
		o2g_pin_release(ctx, chunk->expected[i].pin);
		chunk->expected[i].pin = NULL;
	}
	spin_unlock_bh(&ctx->lock);
}

/* No socket is received from any more. */
static void o2g_unpin_all(struct o2g_context *ctx)
{
	u32 count = READ_ONCE(ctx->chunk_count);
	u32 number;

	for (number = 0; number < count; number++) {
		o2g_unpin_chunk(ctx, o2g_chunk_find(ctx, number));
		cond_resched();
	}
	o2g_unpin_released(ctx);
	o2g_dump_unpin(ctx);
}

/*
 * Called by O2G_IOC_FINI, at the end of the address space, and at the last close. After it, the
 * driver writes no memory of the process.
 */
void o2g_context_detach(struct o2g_context *ctx)
{
	mutex_lock(&ctx->config_mutex);
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->is_dead, true);
	spin_unlock_bh(&ctx->lock);
	o2g_stop(ctx);
	wake_up_interruptible_all(&ctx->wait);
	o2g_unhook_all(ctx);
	cancel_work_sync(&ctx->work);
	cancel_delayed_work_sync(&ctx->unpin_work);
	o2g_unpin_all(ctx);
	mutex_unlock(&ctx->config_mutex);
}

/* No thread of this address space is left. */
static void o2g_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct o2g_context *ctx = container_of(notifier, struct o2g_context, notifier);

	pr_debug("the process of a context has ended\n");
	o2g_context_detach(ctx);
}

static const struct mmu_notifier_ops o2g_notifier_ops = {
	.release = o2g_mm_release,
};

static int o2g_context_allocate(struct o2g_context *ctx, bool has_envelopes)
{
	ctx->shared_page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	ctx->chunks = kvcalloc(O2G_CHUNK_COUNT_MAX, sizeof(*ctx->chunks), GFP_KERNEL_ACCOUNT);
	if (has_envelopes)
		ctx->ring_pages = o2g_ring_create();
	if (!ctx->shared_page || !ctx->chunks || (has_envelopes && !ctx->ring_pages))
		return -ENOMEM;
	ctx->shared = page_address(ctx->shared_page);
	ctx->shared->abi = O2G_DRIVER_ABI;
	return 0;
}

static void o2g_context_free(struct o2g_context *ctx)
{
	if (ctx->shared_page)
		__free_page(ctx->shared_page);
	kvfree(ctx->chunks);
	o2g_ring_destroy(ctx->ring_pages);
	ctx->shared_page = NULL;
	ctx->chunks = NULL;
	ctx->ring_pages = NULL;
}

static int o2g_context_bind_locked(struct o2g_context *ctx, const struct o2g_binding *binding)
{
	bool has_envelopes = binding->flags & O2G_BIND_ENVELOPES;
	int error;

	if (ctx->mm)
		return ctx->mm == current->mm ? -EBUSY : -EPERM;
	error = o2g_context_allocate(ctx, has_envelopes);
	if (error)
		goto failed;
	ctx->has_envelopes = has_envelopes;
	ctx->head_size = has_envelopes ? sizeof(struct o2g_envelope) :
					 sizeof(struct o2g_wire_header);
	ctx->socket_count_max = binding->socket_count;
	ctx->user = get_uid(current_user());
	ctx->memcg = get_mem_cgroup_from_mm(current->mm);
	ctx->notifier.ops = &o2g_notifier_ops;
	error = mmu_notifier_register(&ctx->notifier, current->mm);
	if (error) {
		mem_cgroup_put(ctx->memcg);
		free_uid(ctx->user);
		goto failed;
	}
	smp_store_release(&ctx->mm, current->mm); /* pairs with o2g_check_caller() */
	return 0;
failed:
	o2g_context_free(ctx);
	return error;
}

int o2g_context_bind(struct o2g_context *ctx, const struct o2g_binding *binding)
{
	int error;

	mutex_lock(&ctx->config_mutex);
	error = o2g_context_bind_locked(ctx, binding);
	mutex_unlock(&ctx->config_mutex);
	return error;
}

static void o2g_free_connections(struct o2g_context *ctx)
{
	struct o2g_connection *conn;
	unsigned long rank;

	xa_for_each(&ctx->ranks, rank, conn)
		kfree(conn);
	xa_destroy(&ctx->ranks);
}

static void o2g_context_unbind(struct o2g_context *ctx)
{
	u32 number;

	o2g_context_detach(ctx);
	mmu_notifier_unregister(&ctx->notifier, ctx->mm);
	o2g_set_eventfd(ctx, -1);
	o2g_matcher_fini(&ctx->blocked);
	o2g_matcher_fini(&ctx->queues);
	kvfree(ctx->dump.used);
	o2g_free_connections(ctx);
	for (number = 0; number < ctx->chunk_count; number++)
		o2g_chunk_destroy(ctx->chunks[number]);
	mem_cgroup_put(ctx->memcg);
	free_uid(ctx->user);
	o2g_context_free(ctx);
}

/* The last close: no call is in progress. */
void o2g_context_destroy(struct o2g_context *ctx)
{
	if (ctx->mm)
		o2g_context_unbind(ctx);
	kvfree(ctx);
}

/* Write the page that the process reads. context.lock is held. */
void o2g_publish(struct o2g_context *ctx)
{
	struct o2g_shared *shared = ctx->shared;

	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(shared->open_count, ctx->open_count);
	WRITE_ONCE(shared->unclaimed_count, ctx->queues.arrived_count);
	WRITE_ONCE(shared->pending_count, ctx->pending_count);
	WRITE_ONCE(shared->blocked_count, ctx->blocked.arrived_count);
	WRITE_ONCE(shared->readable_count, ctx->readable_count);
	/* The process loads them before what it counts: see struct o2g_shared. */
	smp_store_release(&shared->sequence, ctx->sequence);
	smp_store_release(&shared->completed_count, ctx->completed_count); /* as above */
	smp_store_release(&shared->event_count, ctx->event_count); /* as above */
}

void o2g_count_event(struct o2g_context *ctx)
{
	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(ctx->event_count, ctx->event_count + 1);
	if (!ctx->quiet_size)
		ctx->has_news = true;
}

static void o2g_notify(struct o2g_context *ctx)
{
	struct eventfd_ctx *eventfd;

	if (wq_has_sleeper(&ctx->wait))
		wake_up_interruptible_poll(&ctx->wait, EPOLLIN | EPOLLRDNORM);
	rcu_read_lock();
	eventfd = rcu_dereference(ctx->eventfd);
	if (eventfd)
		o2g_eventfd_signal(eventfd);
	rcu_read_unlock();
}

/* Unlock context.lock, and wake those who wait for what has happened meanwhile. */
void o2g_unlock(struct o2g_context *ctx) __releases(&ctx->lock)
{
	bool has_news = ctx->has_news;

	ctx->has_news = false;
	spin_unlock_bh(&ctx->lock);
	if (has_news)
		o2g_notify(ctx);
}

void o2g_queue_work(struct o2g_context *ctx)
{
	lockdep_assert_held(&ctx->lock);
	if (!ctx->is_dead)
		queue_work(o2g_workqueue, &ctx->work);
}

void o2g_arm(struct o2g_context *ctx, const struct o2g_arm *request)
{
	bool is_seen;

	spin_lock_bh(&ctx->lock);
	is_seen = ctx->event_count == request->event_count;
	WRITE_ONCE(ctx->waited_count, request->event_count);
	WRITE_ONCE(ctx->quiet_size, is_seen ? request->quiet_size : 0);
	/* A caller of poll() may sleep since a call with a larger quiet_size. */
	ctx->has_news = o2g_has_news(ctx, request->event_count);
	o2g_unlock(ctx);
}

int o2g_set_eventfd(struct o2g_context *ctx, int fd)
{
	struct eventfd_ctx *eventfd = NULL;

	if (fd >= 0) {
		eventfd = eventfd_ctx_fdget(fd);
		if (IS_ERR(eventfd))
			return PTR_ERR(eventfd);
	}
	mutex_lock(&ctx->config_mutex);
	eventfd = rcu_replace_pointer(ctx->eventfd, eventfd, lockdep_is_held(&ctx->config_mutex));
	mutex_unlock(&ctx->config_mutex);
	if (!eventfd)
		return 0;
	synchronize_rcu();
	eventfd_ctx_put(eventfd);
	return 0;
}
