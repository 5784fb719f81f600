// SPDX-License-Identifier: GPL-2.0-only
/* The calls on entries: section 4.2 of the paper, and the race that section 4.6 describes. */
#include "internal.h"

static struct o2g_match_pattern o2g_pattern(s32 source, s32 tag, u32 context)
{
	bool is_any_tag = tag == O2G_ANY_TAG;

	return (struct o2g_match_pattern){
		.tag = (u64)context << 32 | (is_any_tag ? 0 : (u32)tag),
		.ignore = is_any_tag ? U32_MAX : 0,
		.source = source == O2G_ANY_SOURCE ? O2G_MATCH_ANY_PEER : (u32)source,
	};
}

static bool o2g_pattern_is_valid(s32 source, s32 tag)
{
	return source >= O2G_ANY_SOURCE && tag >= O2G_ANY_TAG;
}

static struct o2g_expected *o2g_expected_of(struct o2g_entry *entry)
{
	return container_of(entry, struct o2g_expected, entry);
}

/* The entry is no longer being received into. */
static void o2g_entry_retire(struct o2g_context *ctx, struct o2g_entry *entry, u64 received_size)
{
	lockdep_assert_held(&ctx->lock);
	WRITE_ONCE(entry->slot->received_size, received_size);
	o2g_count_event(ctx);
	if (entry->is_unexpected) {
		entry->state = O2G_ENTRY_DONE;
		return;
	}
	entry->state = O2G_ENTRY_FREE;
	o2g_pin_release(ctx, o2g_expected_of(entry)->pin);
	o2g_expected_of(entry)->pin = NULL;
	if (ctx->has_envelopes)
		o2g_ring_add(ctx, entry->number);
}

void o2g_entry_complete(struct o2g_context *ctx, struct o2g_entry *entry, u64 received_size,
			u32 flags)
{
	ctx->received_count++;
	o2g_entry_retire(ctx, entry, received_size);
	o2g_set_flags(entry, O2G_RECEIVED | flags, 0);
}

void o2g_entry_fail(struct o2g_context *ctx, struct o2g_entry *entry, u64 received_size, int error)
{
	o2g_entry_retire(ctx, entry, received_size);
	WRITE_ONCE(entry->slot->error, error);
	o2g_set_flags(entry, O2G_FAILED, O2G_QUEUED);
}

static int o2g_source_status(struct o2g_context *ctx, u32 source)
{
	struct o2g_connection *conn;

	if (source == O2G_MATCH_ANY_PEER || ctx->has_envelopes)
		return 0;
	conn = o2g_connection_find(ctx, source);
	return conn && conn->phase == O2G_PHASE_ENDED ? conn->code : 0;
}

static int o2g_put_check(struct o2g_context *ctx, const struct o2g_match_pattern *pattern,
			 u64 sequence)
{
	if (ctx->is_dead)
		return -ENXIO;
	if (o2g_match_is_raced(&ctx->queues, pattern, sequence)) {
		ctx->race_count++;
		return -EAGAIN;
	}
	if (o2g_match_find_arrived(&ctx->blocked, pattern))
		return 0;
	return o2g_source_status(ctx, pattern->source);
}

/* Reserves the slot, so that the buffer can be pinned without the lock. */
static int o2g_put_begin(struct o2g_context *ctx, struct o2g_expected *e,
			 const struct o2g_receive_request *request)
{
	int error = -EINVAL;

	spin_lock_bh(&ctx->lock);
	if (e->entry.state != O2G_ENTRY_FREE)
		goto out;
	error = o2g_put_check(ctx, &request->pattern, request->sequence);
	if (error)
		goto out;
	e->entry.state = O2G_ENTRY_PREPARING;
	e->posted.pattern = request->pattern;
	e->address = request->address;
	e->size = request->size;
	e->is_match_only = request->is_match_only;
out:
	o2g_unlock(ctx);
	return error;
}

static void o2g_put_reset_slot(struct o2g_expected *e)
{
	const struct o2g_match_pattern *pattern = &e->posted.pattern;
	struct o2g_slot *slot = e->entry.slot;

	WRITE_ONCE(slot->source, (s32)pattern->source);
	WRITE_ONCE(slot->tag, pattern->ignore ? O2G_ANY_TAG : (s32)pattern->tag);
	WRITE_ONCE(slot->context, pattern->tag >> 32);
	WRITE_ONCE(slot->error, 0);
	WRITE_ONCE(slot->message_size, 0);
	WRITE_ONCE(slot->received_size, 0);
	WRITE_ONCE(slot->sequence, 0);
	o2g_set_flags(&e->entry, 0, ~0u);
}

/* The oldest message of a blocked connection that matches the entry is received into it. */
static struct o2g_connection *o2g_put_unblock(struct o2g_context *ctx, struct o2g_expected *e)
{
	struct o2g_arrived_entry *blocked =
		o2g_match_find_arrived(&ctx->blocked, &e->posted.pattern);
	struct o2g_connection *conn;

	if (!blocked)
		return NULL;
	conn = container_of(blocked, struct o2g_connection, blocked);
	if (e->is_match_only) {
		o2g_match_remove_arrived(&ctx->blocked, blocked);
		o2g_set_phase(conn, O2G_PHASE_READ);
		return NULL;
	}
	refcount_inc(&conn->references);
	o2g_receive_expected(conn, e);
	return conn;
}

/* Messages of blocked connections are older than those still to be received: they match first. */
static int o2g_put_end(struct o2g_context *ctx, struct o2g_expected *e, u64 sequence,
		       struct o2g_pin *pin, struct o2g_connection **unblocked)
{
	int error;

	spin_lock_bh(&ctx->lock);
	error = o2g_put_check(ctx, &e->posted.pattern, sequence);
	if (error) {
		e->entry.state = O2G_ENTRY_FREE;
		goto out;
	}
	e->pin = pin;
	o2g_put_reset_slot(e);
	*unblocked = o2g_put_unblock(ctx, e);
	if (!*unblocked) {
		e->entry.state = O2G_ENTRY_QUEUED;
		o2g_set_flags(&e->entry, O2G_QUEUED, 0);
		o2g_match_add_posted(&ctx->queues, &e->posted);
	}
out:
	o2g_unlock(ctx);
	return error;
}

int o2g_put_receive(struct o2g_context *ctx, const struct o2g_receive_request *request)
{
	struct o2g_expected *e = o2g_expected_find(ctx, request->slot);
	struct o2g_connection *unblocked = NULL;
	struct o2g_pin *pin = NULL;
	int error;

	if (!e || !access_ok((void __user *)request->address, request->size))
		return -EINVAL;
	o2g_unpin_released(ctx);
	error = o2g_put_begin(ctx, e, request);
	if (error)
		return error;
	if (!request->is_match_only)
		pin = o2g_pin_buffer(ctx, request->address, request->size);
	error = o2g_put_end(ctx, e, request->sequence, pin, &unblocked);
	if (error) {
		o2g_pin_destroy(ctx, pin);
		return error;
	}
	if (unblocked) {
		o2g_run_connection(unblocked);
		o2g_connection_put(unblocked);
	}
	o2g_run_pending(ctx);
	return 0;
}

int o2g_put(struct o2g_context *ctx, const struct o2g_put *put)
{
	struct o2g_receive_request request = {
		.slot = put->slot,
		.pattern = o2g_pattern(put->source, put->tag, put->context),
		.sequence = put->sequence,
		.address = put->address,
		.size = put->size,
	};

	if (!o2g_pattern_is_valid(put->source, put->tag))
		return -EINVAL;
	return o2g_put_receive(ctx, &request);
}

int o2g_cancel(struct o2g_context *ctx, u32 slot)
{
	struct o2g_expected *e = o2g_expected_find(ctx, slot);
	struct o2g_pin *pin = NULL;
	int error = 0;

	if (!e)
		return -EINVAL;
	spin_lock_bh(&ctx->lock);
	if (e->entry.state == O2G_ENTRY_QUEUED) {
		o2g_match_remove_posted(&ctx->queues, &e->posted);
		e->entry.state = O2G_ENTRY_FREE;
		swap(pin, e->pin);
		o2g_set_flags(&e->entry, 0, O2G_QUEUED);
	} else if (e->entry.flags & (O2G_MATCHED | O2G_FAILED)) {
		ctx->race_count++;
		error = -EAGAIN;
	} else {
		error = -EINVAL;
	}
	spin_unlock_bh(&ctx->lock);
	o2g_pin_destroy(ctx, pin);
	return error;
}

int o2g_find(struct o2g_context *ctx, struct o2g_find *request)
{
	struct o2g_match_pattern pattern =
		o2g_pattern(request->source, request->tag, request->context);
	struct o2g_arrived_entry *arrived;
	struct o2g_unexpected *u;
	int error = 0;

	if (!o2g_pattern_is_valid(request->source, request->tag))
		return -EINVAL;
	o2g_run_pending(ctx);
	spin_lock_bh(&ctx->lock);
	arrived = o2g_match_find_arrived(&ctx->queues, &pattern);
	if (arrived) {
		u = container_of(arrived, struct o2g_unexpected, arrived);
		o2g_match_remove_arrived(&ctx->queues, arrived);
		o2g_set_flags(&u->entry, O2G_CLAIMED, 0);
		o2g_publish(ctx);
		request->slot = u->entry.number;
	} else {
		request->sequence = ctx->sequence;
		error = -ENOENT;
	}
	spin_unlock_bh(&ctx->lock);
	return error;
}

int o2g_next(struct o2g_context *ctx, struct o2g_next *request)
{
	struct list_head *link = &ctx->unexpected;
	struct o2g_unexpected *u = NULL;
	int error = 0;

	if (request->after != O2G_SLOT_NONE) {
		u = o2g_unexpected_find(ctx, request->after);
		if (!u)
			return -EINVAL;
		link = &u->link;
	}
	spin_lock_bh(&ctx->lock);
	if (u && u->entry.state == O2G_ENTRY_FREE)
		error = -EINVAL;
	else if (list_is_last(link, &ctx->unexpected))
		request->slot = O2G_SLOT_NONE;
	else
		request->slot = list_entry(link->next, struct o2g_unexpected, link)->entry.number;
	spin_unlock_bh(&ctx->lock);
	return error;
}

static int o2g_free_locked(struct o2g_context *ctx, struct o2g_unexpected *u)
{
	if (u->entry.state == O2G_ENTRY_FREE)
		return -EINVAL;
	if (u->entry.state != O2G_ENTRY_DONE)
		return -EBUSY;
	if (u->arrived.is_queued)
		o2g_match_remove_arrived(&ctx->queues, &u->arrived);
	o2g_dump_free(&ctx->dump, u->offset, u->size);
	list_move(&u->link, &ctx->free_unexpected);
	ctx->unexpected_count--;
	ctx->free_unexpected_count++;
	u->entry.state = O2G_ENTRY_FREE;
	o2g_set_flags(&u->entry, 0, ~0u);
	o2g_publish(ctx);
	return 0;
}

int o2g_free(struct o2g_context *ctx, u32 slot)
{
	struct o2g_unexpected *u = o2g_unexpected_find(ctx, slot);
	bool has_blocked;
	int error;

	if (!u)
		return -EINVAL;
	spin_lock_bh(&ctx->lock);
	error = o2g_free_locked(ctx, u);
	has_blocked = ctx->blocked.arrived_count != 0;
	spin_unlock_bh(&ctx->lock);
	if (!error && has_blocked)
		o2g_unblock_fitting(ctx);
	return error;
}

static void o2g_fail_if_source_ended(struct o2g_context *ctx, struct o2g_expected *e)
{
	int error;

	if (e->entry.state != O2G_ENTRY_QUEUED)
		return;
	error = o2g_source_status(ctx, e->posted.pattern.source);
	if (!error)
		return;
	o2g_match_remove_posted(&ctx->queues, &e->posted);
	o2g_entry_fail(ctx, &e->entry, 0, error);
	o2g_publish(ctx);
}

/* Fails the queued entries whose source is a connection that has ended. */
void o2g_fail_ended_sources(struct o2g_context *ctx)
{
	u32 count = READ_ONCE(ctx->chunk_count);
	u32 number, i;

	for (number = 0; number < count; number++) {
		struct o2g_chunk *chunk = o2g_chunk_find(ctx, number);

		if (!chunk->expected)
			continue;
		spin_lock_bh(&ctx->lock);
		for (i = 0; i < O2G_CHUNK_SLOT_COUNT; i++)
			o2g_fail_if_source_ended(ctx, &chunk->expected[i]);
		o2g_unlock(ctx);
		cond_resched();
	}
}

void o2g_count(struct o2g_context *ctx, struct o2g_counters *counters)
{
	spin_lock_bh(&ctx->lock);
	*counters = (struct o2g_counters){
		.socket_count = ctx->open_count,
		.blocked_count = ctx->blocked.arrived_count,
		.thread_count = ctx->thread_count,
		.expected_count = ctx->queues.posted_count,
		.unexpected_count = ctx->unexpected_count,
		.dump_free_size = o2g_dump_free_size(&ctx->dump),
		.received_count = ctx->received_count,
		.race_count = ctx->race_count,
		.handler_size = ctx->copied_size[O2G_TURN_HANDLER],
		.worker_size = ctx->copied_size[O2G_TURN_WORKER],
		.dumper_size = ctx->copied_size[O2G_TURN_THREAD],
		.pinned_size = (u64)atomic_long_read(&ctx->pinned_page_count) << PAGE_SHIFT,
	};
	spin_unlock_bh(&ctx->lock);
}
