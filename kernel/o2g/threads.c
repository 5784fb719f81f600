// SPDX-License-Identifier: GPL-2.0-only
/*
 * What continues in a process: the driver's worker, dumper threads (section 4.5 of the paper), and
 * waiting.
 */
#include <linux/hrtimer.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "internal.h"

#define O2G_TURN_COUNT_MAX 64 /* in one call or one run of the worker */

static struct list_head *o2g_list_head(struct o2g_context *ctx, enum o2g_list list)
{
	switch (list) {
	case O2G_LIST_WORK:
		return &ctx->work_list;
	case O2G_LIST_PENDING:
		return &ctx->pending_list;
	case O2G_LIST_READABLE:
		return &ctx->readable_list;
	default:
		return &ctx->ended_list;
	}
}

/* Without dumper threads, any call that waits continues with the socket. */
static void o2g_wake_thread(struct o2g_context *ctx)
{
	if (ctx->thread_count)
		wake_up_interruptible(&ctx->dump_wait);
	else
		ctx->has_news = true;
}

/* context.lock is held. */
void o2g_list_move(struct o2g_connection *conn, enum o2g_list list)
{
	struct o2g_context *ctx = conn->context;

	lockdep_assert_held(&ctx->lock);
	if (conn->list == list)
		return;
	if (conn->list == O2G_LIST_PENDING)
		WRITE_ONCE(ctx->pending_count, ctx->pending_count - 1);
	if (conn->list == O2G_LIST_READABLE)
		WRITE_ONCE(ctx->readable_count, ctx->readable_count - 1);
	if (conn->list != O2G_LIST_NONE)
		list_del_init(&conn->link);
	WRITE_ONCE(conn->list, list);
	if (list != O2G_LIST_NONE)
		list_add_tail(&conn->link, o2g_list_head(ctx, list));
	if (list == O2G_LIST_PENDING) {
		WRITE_ONCE(ctx->pending_count, ctx->pending_count + 1);
		o2g_wake_thread(ctx);
	} else if (list == O2G_LIST_READABLE) {
		WRITE_ONCE(ctx->readable_count, ctx->readable_count + 1);
		ctx->has_news = true;
	} else if (list != O2G_LIST_NONE) {
		o2g_queue_work(ctx);
	}
	o2g_publish(ctx);
}

/*
 * Takes the connection from its list, and holds it. Returns its socket, which is held, too; NULL:
 * it was released.
 */
static struct sock *o2g_take(struct o2g_connection *conn)
{
	struct sock *sk = conn->sk;

	o2g_list_move(conn, O2G_LIST_NONE);
	refcount_inc(&conn->references);
	if (sk)
		sock_hold(sk);
	return sk;
}

static struct o2g_connection *o2g_take_first(struct o2g_context *ctx, enum o2g_list list,
					     struct sock **sk)
{
	struct o2g_connection *conn;

	spin_lock_bh(&ctx->lock);
	conn = list_first_entry_or_null(o2g_list_head(ctx, list), struct o2g_connection, link);
	if (conn)
		*sk = o2g_take(conn);
	o2g_unlock(ctx);
	return conn;
}

/* Puts what o2g_take() holds. */
static void o2g_run_turn(struct o2g_connection *conn, struct sock *sk, enum o2g_turn_kind kind)
{
	if (sk) {
		lock_sock(sk);
		o2g_receive(conn, sk, kind);
		release_sock(sk);
		sock_put(sk);
	}
	o2g_connection_put(conn);
}

static bool o2g_run_next(struct o2g_context *ctx, enum o2g_list list, enum o2g_turn_kind kind)
{
	struct sock *sk = NULL;
	struct o2g_connection *conn = o2g_take_first(ctx, list, &sk);

	if (!conn)
		return false;
	o2g_run_turn(conn, sk, kind);
	return true;
}

/* A thread of the process continues with this connection, unless it has ended. */
void o2g_run_connection(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	struct sock *sk;

	spin_lock_bh(&ctx->lock);
	if (conn->list == O2G_LIST_ENDED || conn->list == O2G_LIST_READABLE) {
		spin_unlock_bh(&ctx->lock);
		return;
	}
	sk = o2g_take(conn);
	o2g_unlock(ctx);
	o2g_run_turn(conn, sk, O2G_TURN_THREAD);
}

/* Without dumper threads, the calling thread does their work. */
void o2g_run_pending(struct o2g_context *ctx)
{
	int i;

	for (i = 0; i < O2G_TURN_COUNT_MAX; i++) {
		if (!READ_ONCE(ctx->pending_count) || READ_ONCE(ctx->thread_count) ||
		    signal_pending(current))
			return;
		o2g_run_next(ctx, O2G_LIST_PENDING, O2G_TURN_THREAD);
		cond_resched();
	}
}

static void o2g_grow_unexpected(struct o2g_context *ctx)
{
	struct mem_cgroup *memcg;
	u32 chunk;
	int error;

	if (!READ_ONCE(ctx->needs_unexpected))
		return;
	memcg = set_active_memcg(ctx->memcg);
	error = o2g_chunk_create(ctx, true, &chunk);
	set_active_memcg(memcg);
	if (error)
		pr_debug("no memory for unexpected messages beyond %llu\n", ctx->unexpected_count);
	spin_lock_bh(&ctx->lock);
	ctx->needs_unexpected = false;
	spin_unlock_bh(&ctx->lock);
	if (!error)
		o2g_unblock_fitting(ctx);
}

static void o2g_check_disconnected(struct o2g_context *ctx)
{
	struct o2g_connection *conn;
	unsigned long rank;

	if (!xchg(&ctx->needs_check, false))
		return;
	rcu_read_lock();
	xa_for_each(&ctx->ranks, rank, conn) {
		if (!READ_ONCE(conn->is_disconnected))
			continue;
		spin_lock_bh(&ctx->lock);
		if (conn->list == O2G_LIST_NONE && conn->sk)
			o2g_list_move(conn, O2G_LIST_WORK);
		spin_unlock_bh(&ctx->lock);
	}
	rcu_read_unlock();
}

/* Counts the end of the connection, once. */
void o2g_close_connection(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	lockdep_assert_held(&ctx->lock);
	if (!conn->is_open)
		return;
	conn->is_open = false;
	WRITE_ONCE(ctx->open_count, ctx->open_count - 1);
	o2g_count_event(ctx);
	o2g_publish(ctx);
}

/* All entries that wait for these connections have failed. */
static void o2g_count_ended(struct o2g_context *ctx, struct o2g_connection *conn)
{
	spin_lock_bh(&ctx->lock);
	list_del_init(&conn->link);
	o2g_close_connection(conn);
	o2g_unlock(ctx);
}

/* The process reads the end of each connection, and detaches it. */
static void o2g_finish_readable(struct o2g_context *ctx)
{
	struct o2g_connection *conn;
	struct sock *sk = NULL;

	while ((conn = o2g_take_first(ctx, O2G_LIST_ENDED, &sk))) {
		o2g_unhook(conn);
		if (sk)
			sock_put(sk);
		spin_lock_bh(&ctx->lock);
		if (conn->is_open)
			o2g_list_move(conn, O2G_LIST_READABLE);
		o2g_close_connection(conn);
		o2g_unlock(ctx);
		o2g_connection_put(conn);
		cond_resched();
	}
}

static void o2g_finish_ended(struct o2g_context *ctx)
{
	struct o2g_connection *conn, *next;
	LIST_HEAD(ended);

	if (ctx->has_envelopes) {
		o2g_finish_readable(ctx);
		return;
	}
	spin_lock_bh(&ctx->lock);
	list_splice_init(&ctx->ended_list, &ended);
	spin_unlock_bh(&ctx->lock);
	if (list_empty(&ended))
		return;
	o2g_fail_ended_sources(ctx);
	list_for_each_entry_safe(conn, next, &ended, link) {
		o2g_unhook(conn);
		o2g_count_ended(ctx, conn);
		cond_resched();
	}
}

/* The worker. Sockets get turns in the order in which they came. */
void o2g_work(struct work_struct *work)
{
	struct o2g_context *ctx = container_of(work, struct o2g_context, work);
	int i;

	o2g_grow_unexpected(ctx);
	o2g_check_disconnected(ctx);
	o2g_finish_ended(ctx);
	for (i = 0; i < O2G_TURN_COUNT_MAX; i++) {
		if (!o2g_run_next(ctx, O2G_LIST_WORK, O2G_TURN_WORKER))
			return;
		cond_resched();
	}
	spin_lock_bh(&ctx->lock);
	o2g_queue_work(ctx);
	spin_unlock_bh(&ctx->lock);
}

static int o2g_dump_loop(struct o2g_context *ctx)
{
	while (!READ_ONCE(ctx->is_stopping)) {
		if (wait_event_interruptible_exclusive(ctx->dump_wait,
						       READ_ONCE(ctx->is_stopping) ||
						       READ_ONCE(ctx->pending_count)))
			return -EINTR;
		o2g_run_next(ctx, O2G_LIST_PENDING, O2G_TURN_THREAD);
		o2g_unpin_released(ctx);
		cond_resched();
		if (signal_pending(current))
			return -EINTR;
	}
	return 0;
}

static void o2g_leave_threads(struct o2g_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->thread_count, ctx->thread_count - 1);
	/* A wake-up may have been for a socket that this thread leaves. */
	if (ctx->pending_count)
		o2g_wake_thread(ctx);
	o2g_unlock(ctx);
}

/* The caller becomes a dumper thread. */
int o2g_dump(struct o2g_context *ctx)
{
	int error = 0;

	spin_lock_bh(&ctx->lock);
	if (ctx->thread_count == O2G_THREAD_COUNT_MAX)
		error = -EMFILE;
	else
		WRITE_ONCE(ctx->thread_count, ctx->thread_count + 1);
	spin_unlock_bh(&ctx->lock);
	if (error)
		return error;
	error = o2g_dump_loop(ctx);
	o2g_leave_threads(ctx);
	return error;
}

void o2g_stop(struct o2g_context *ctx)
{
	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->is_stopping, true);
	spin_unlock_bh(&ctx->lock);
	wake_up_interruptible_all(&ctx->dump_wait);
}

/* Whether a caller that has seen `event_count` must not wait. */
bool o2g_has_news(struct o2g_context *ctx, u64 event_count)
{
	bool has_events = READ_ONCE(ctx->event_count) != event_count;

	return (has_events && !READ_ONCE(ctx->quiet_size)) || READ_ONCE(ctx->readable_count) ||
	       (!READ_ONCE(ctx->open_count) && !ctx->has_envelopes) || READ_ONCE(ctx->is_dead) ||
	       (READ_ONCE(ctx->pending_count) && !READ_ONCE(ctx->thread_count));
}

/* Returns 1 if the caller must wait. */
static int o2g_wait_status(struct o2g_context *ctx, struct o2g_wait *request)
{
	int status = 0;

	spin_lock_bh(&ctx->lock);
	WRITE_ONCE(ctx->quiet_size, 0);
	if (ctx->is_dead) {
		status = -ENXIO;
	} else if (ctx->event_count != request->event_count) {
		request->event_count = ctx->event_count;
		WRITE_ONCE(ctx->waited_count, ctx->event_count);
	} else {
		status = ctx->open_count ? 1 : -EPIPE;
	}
	spin_unlock_bh(&ctx->lock);
	return status;
}

static ktime_t o2g_deadline(u64 timeout_ns)
{
	return timeout_ns >= KTIME_MAX ? KTIME_MAX : ktime_add_safe(ktime_get(), timeout_ns);
}

int o2g_wait(struct o2g_context *ctx, struct o2g_wait *request)
{
	u64 seen = request->event_count;
	ktime_t deadline = o2g_deadline(request->timeout_ns);

	o2g_unpin_released(ctx);
	for (;;) {
		ktime_t left = KTIME_MAX;
		int status;

		o2g_run_pending(ctx);
		status = o2g_wait_status(ctx, request);
		if (status <= 0)
			return status;
		if (deadline != KTIME_MAX)
			left = ktime_sub(deadline, ktime_get());
		if (left <= 0)
			return -ETIMEDOUT;
		status = wait_event_interruptible_hrtimeout(ctx->wait, o2g_has_news(ctx, seen),
							    left);
		if (status && status != -ETIME)
			return -EINTR;
		if (signal_pending(current))
			return -EINTR;
	}
}
