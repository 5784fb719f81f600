// SPDX-License-Identifier: GPL-2.0-only
/*
 * Turns the bytes of sockets into messages: section 4.4 of the paper. All of it runs with the
 * socket lock held, in the protocol handler or in a process.
 *
 * Where the handler must not continue, it leaves the bytes in the socket's receive queue. TCP then
 * closes the window, so the sender waits and nothing is lost.
 */
#include <linux/skbuff.h>
#include <net/tcp.h>

#include "internal.h"

/* What a header costs of the budget of a turn, in bytes. It bounds the messages of one turn. */
#define O2G_HEADER_COST 512
#define O2G_PROCESS_BUDGET_MIN (64 * 1024)

void o2g_set_phase(struct o2g_connection *conn, enum o2g_phase phase)
{
	/* Pairs with o2g_phase_of(): who sees the phase sees the fields that were set before. */
	smp_store_release(&conn->phase, phase);
}

enum o2g_phase o2g_phase_of(struct o2g_connection *conn)
{
	return smp_load_acquire(&conn->phase); /* pairs with o2g_set_phase() */
}

/* The message is received without a wake-up, unless it is what ends that: see O2G_IOC_ARM. */
static void o2g_use_quiet_size(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	u64 size = conn->message_size + O2G_QUIET_OVERHEAD;

	if ((conn->envelope.flags & O2G_ENVELOPE_WANTS_ACK) || size > ctx->quiet_size)
		size = ctx->quiet_size;
	WRITE_ONCE(ctx->quiet_size, ctx->quiet_size - size);
}

/* Completes the message once all of it was received. context.lock is held. */
static void o2g_advance(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	struct o2g_entry *entry = conn->entry;
	bool is_truncated = conn->received_size < conn->message_size;

	if (conn->remaining_size || conn->discard_size)
		return;
	conn->entry = NULL;
	conn->head_size = 0;
	if (ctx->quiet_size)
		o2g_use_quiet_size(conn);
	o2g_entry_complete(ctx, entry, conn->received_size, is_truncated ? O2G_TRUNCATED : 0);
	o2g_publish(ctx);
	o2g_set_phase(conn, O2G_PHASE_HEAD);
}

static bool o2g_needs_thread(const struct o2g_connection *conn)
{
	return conn->remaining_size && !conn->is_pinned;
}

/*
 * Begins to receive the payload into an entry, which has `room` bytes of memory that the caller has
 * set in `iter`.
 */
static void o2g_begin_body(struct o2g_connection *conn, struct o2g_entry *entry, u64 room)
{
	struct o2g_context *ctx = conn->context;
	struct o2g_slot *slot = entry->slot;

	lockdep_assert_held(&ctx->lock);
	conn->entry = entry;
	conn->received_size = 0;
	conn->remaining_size = room;
	conn->discard_size = conn->message_size - room;
	WRITE_ONCE(slot->source, conn->source);
	WRITE_ONCE(slot->tag, conn->message_tag);
	WRITE_ONCE(slot->message_size, conn->message_size);
	WRITE_ONCE(slot->connection, conn->rank);
	if (ctx->has_envelopes)
		o2g_describe_envelope(conn, slot);
	entry->state = O2G_ENTRY_RECEIVING;
	o2g_set_flags(entry, O2G_MATCHED, O2G_QUEUED);
	if (conn->phase == O2G_PHASE_BLOCKED) {
		o2g_match_remove_arrived(&ctx->blocked, &conn->blocked);
		o2g_list_move(conn, o2g_needs_thread(conn) ? O2G_LIST_PENDING : O2G_LIST_WORK);
	}
	o2g_publish(ctx);
	if (conn->message_size)
		o2g_set_phase(conn, O2G_PHASE_BODY);
	else
		o2g_advance(conn);
}

/* The entry has left the queue. */
void o2g_receive_expected(struct o2g_connection *conn, struct o2g_expected *e)
{
	u64 room = min(conn->message_size, e->size);

	conn->is_pinned = e->pin;
	if (e->pin)
		o2g_pin_iter(e->pin, e->address, 0, room, &conn->iter);
	else
		iov_iter_ubuf(&conn->iter, ITER_DEST, (void __user *)e->address, room);
	o2g_begin_body(conn, &e->entry, room);
}

#define O2G_FREE_UNEXPECTED_MIN (O2G_CHUNK_SLOT_COUNT / 4)

static struct o2g_unexpected *o2g_unexpected_take(struct o2g_context *ctx, u64 size)
{
	struct o2g_unexpected *u;
	u64 offset;

	if (!ctx->dump.used)
		return NULL;
	if (ctx->free_unexpected_count <= O2G_FREE_UNEXPECTED_MIN && !ctx->needs_unexpected) {
		ctx->needs_unexpected = true;
		o2g_queue_work(ctx);
	}
	u = list_first_entry_or_null(&ctx->free_unexpected, struct o2g_unexpected, link);
	if (!u || !o2g_dump_allocate(&ctx->dump, size, &offset))
		return NULL;
	u->offset = offset;
	u->size = size;
	ctx->free_unexpected_count--;
	ctx->unexpected_count++;
	list_move_tail(&u->link, &ctx->unexpected);
	return u;
}

struct o2g_match_key o2g_key(const struct o2g_connection *conn)
{
	return (struct o2g_match_key){
		.tag = (u64)conn->message_context << 32 | (u32)conn->message_tag,
		.source = conn->source,
	};
}

/* Returns false if it does not fit into the dump area. */
bool o2g_receive_unexpected(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	struct o2g_unexpected *u = o2g_unexpected_take(ctx, conn->message_size);
	struct o2g_slot *slot;

	if (!u)
		return false;
	slot = u->entry.slot;
	ctx->sequence++;
	u->arrived.key = o2g_key(conn);
	u->arrived.number = ctx->sequence;
	WRITE_ONCE(slot->context, conn->message_context);
	WRITE_ONCE(slot->error, 0);
	WRITE_ONCE(slot->received_size, 0);
	WRITE_ONCE(slot->sequence, ctx->sequence);
	WRITE_ONCE(slot->dump_offset, u->offset);
	o2g_set_flags(&u->entry, O2G_UNEXPECTED, 0);
	o2g_match_add_arrived(&ctx->queues, &u->arrived);
	conn->is_pinned = o2g_dump_iter(&ctx->dump, u->offset, conn->message_size, &conn->iter);
	o2g_begin_body(conn, &u->entry, conn->message_size);
	return true;
}

/* context.lock is held. */
void o2g_block(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	conn->blocked.key = o2g_key(conn);
	conn->blocked.number = ++ctx->blocked_number;
	o2g_match_add_arrived(&ctx->blocked, &conn->blocked);
	o2g_publish(ctx);
	o2g_set_phase(conn, O2G_PHASE_BLOCKED);
}

/* Continue with blocked connections that were blocked after `cursor`. Returns whether to go on. */
static bool o2g_unblock_some(struct o2g_context *ctx, u64 *cursor)
{
	struct o2g_arrived_entry *e, *next;
	unsigned int count = 0;

	spin_lock_bh(&ctx->lock);
	next = o2g_match_next_arrived(&ctx->blocked, NULL);
	while ((e = next) && count < 64) {
		next = o2g_match_next_arrived(&ctx->blocked, e);
		if (e->number <= *cursor)
			continue;
		*cursor = e->number;
		o2g_receive_unexpected(container_of(e, struct o2g_connection, blocked));
		count++;
	}
	o2g_unlock(ctx);
	return e;
}

/* Memory of the dump area or a slot is free. */
void o2g_unblock_fitting(struct o2g_context *ctx)
{
	u64 cursor = 0;

	while (o2g_unblock_some(ctx, &cursor))
		cond_resched();
}

/* Ends the connection. The worker then releases the socket. */
void o2g_end(struct o2g_connection *conn, int code, int entry_error)
{
	struct o2g_context *ctx = conn->context;

	spin_lock_bh(&ctx->lock);
	if (conn->phase == O2G_PHASE_ENDED)
		goto out;
	if (conn->blocked.is_queued)
		o2g_match_remove_arrived(&ctx->blocked, &conn->blocked);
	conn->code = code;
	if (conn->entry)
		o2g_entry_fail(ctx, conn->entry, conn->received_size, entry_error);
	conn->entry = NULL;
	o2g_set_phase(conn, O2G_PHASE_ENDED);
	o2g_list_move(conn, O2G_LIST_ENDED);
	o2g_publish(ctx);
out:
	spin_unlock_bh(&ctx->lock);
}

static bool o2g_decode_header(struct o2g_connection *conn)
{
	const struct o2g_wire_header *wire = &conn->wire;

	conn->message_context = le32_to_cpu(wire->context);
	conn->message_tag = le32_to_cpu(wire->tag);
	conn->message_size = le64_to_cpu(wire->size);
	return le32_to_cpu(wire->magic) == O2G_MAGIC && le32_to_cpu(wire->source) == conn->rank &&
	       conn->message_tag >= 0 && conn->message_size <= O2G_MESSAGE_SIZE_MAX &&
	       wire->reserved == 0;
}

static void o2g_reject_header(struct o2g_connection *conn)
{
	const struct o2g_wire_header *wire = &conn->wire;

	pr_warn_ratelimited("protocol error: rank %d sent an invalid header (magic %08x, source %d, tag %d, size %llu bytes); ending its connection\n",
			    conn->rank, le32_to_cpu(wire->magic), (s32)le32_to_cpu(wire->source),
			    conn->message_tag, conn->message_size);
	o2g_end(conn, -EPROTO, -EPROTO);
}

/* The header is complete: match the message. */
static void o2g_begin_message(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	struct o2g_posted_entry *posted;
	struct o2g_match_key key;

	if (ctx->has_envelopes) {
		o2g_begin_envelope(conn);
		return;
	}
	if (!o2g_decode_header(conn)) {
		o2g_reject_header(conn);
		return;
	}
	key = o2g_key(conn);
	spin_lock_bh(&ctx->lock);
	posted = o2g_match_find_posted(&ctx->queues, &key);
	if (posted) {
		o2g_match_remove_posted(&ctx->queues, posted);
		o2g_receive_expected(conn, container_of(posted, struct o2g_expected, posted));
	} else if (!o2g_receive_unexpected(conn)) {
		o2g_block(conn);
	}
	spin_unlock_bh(&ctx->lock);
}

static size_t o2g_receive_head(struct o2g_turn *turn, struct sk_buff *skb, unsigned int offset,
			       size_t size)
{
	struct o2g_connection *conn = turn->conn;
	size_t head_size = conn->context->head_size;

	size = min(size, head_size - conn->head_size);
	if (skb_copy_bits(skb, offset, (char *)&conn->wire + conn->head_size, size)) {
		o2g_end(conn, -EPIPE, -EPIPE);
		return 0;
	}
	conn->head_size += size;
	turn->budget -= size;
	if (conn->head_size == head_size) {
		turn->budget -= O2G_HEADER_COST;
		o2g_begin_message(conn);
		if (turn->dest)
			o2g_read_head(turn);
	}
	return size;
}

static void o2g_count_received(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	if (conn->remaining_size || conn->discard_size)
		return;
	spin_lock_bh(&ctx->lock);
	o2g_advance(conn);
	spin_unlock_bh(&ctx->lock);
}

static size_t o2g_receive_body(struct o2g_turn *turn, struct sk_buff *skb, unsigned int offset,
			       size_t size)
{
	struct o2g_connection *conn = turn->conn;

	if (o2g_needs_thread(conn) && turn->kind != O2G_TURN_THREAD) {
		turn->stop = O2G_STOP_THREAD;
		return 0;
	}
	size = min3((u64)size, conn->remaining_size, (u64)turn->budget);
	if (skb_copy_datagram_iter(skb, offset, &conn->iter, size)) {
		pr_debug("the buffer for a message of rank %d cannot be written\n", conn->rank);
		o2g_end(conn, -EPIPE, -EFAULT);
		return 0;
	}
	conn->remaining_size -= size;
	conn->received_size += size;
	turn->budget -= size;
	turn->copied_size += size;
	o2g_count_received(conn);
	return size;
}

static size_t o2g_discard(struct o2g_turn *turn, size_t size)
{
	struct o2g_connection *conn = turn->conn;

	size = min3((u64)size, conn->discard_size, (u64)turn->budget);
	conn->discard_size -= size;
	turn->budget -= size;
	o2g_count_received(conn);
	return size;
}

/* Returns 0 if the turn must stop. */
static size_t o2g_receive_some(struct o2g_turn *turn, struct sk_buff *skb, unsigned int offset,
			       size_t size)
{
	enum o2g_phase phase = o2g_phase_of(turn->conn);

	if (phase == O2G_PHASE_READ && turn->dest)
		return o2g_read_body(turn, skb, offset, size);
	if (phase == O2G_PHASE_BLOCKED || phase == O2G_PHASE_READ || phase == O2G_PHASE_ENDED) {
		turn->stop = O2G_STOP_PHASE;
		return 0;
	}
	if (turn->budget <= 0) {
		turn->stop = O2G_STOP_BUDGET;
		return 0;
	}
	if (phase == O2G_PHASE_HEAD)
		return o2g_receive_head(turn, skb, offset, size);
	if (turn->conn->remaining_size)
		return o2g_receive_body(turn, skb, offset, size);
	return o2g_discard(turn, size);
}

static int o2g_actor(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset, size_t size)
{
	struct o2g_turn *turn = desc->arg.data;
	size_t done = 0;

	while (done < size) {
		size_t part = o2g_receive_some(turn, skb, offset + done, size - done);

		if (part == 0)
			break;
		done += part;
	}
	if (done < size)
		desc->count = 0;
	return done;
}

static bool o2g_is_at_end(struct sock *sk)
{
	return skb_queue_empty(&sk->sk_receive_queue) &&
	       ((sk->sk_shutdown & RCV_SHUTDOWN) || sk->sk_err || sk->sk_state == TCP_CLOSE);
}

static void o2g_check_end(struct o2g_connection *conn, struct sock *sk)
{
	enum o2g_phase phase = o2g_phase_of(conn);

	if (phase == O2G_PHASE_BLOCKED || phase == O2G_PHASE_ENDED)
		return;
	/* The process must be able to read an envelope that was taken from the socket. */
	if (phase == O2G_PHASE_READ && !(conn->is_head_read && conn->read_size))
		return;
	if (tcp_sk(sk)->urg_data) {
		pr_warn_ratelimited("protocol error: rank %d sent urgent data; ending its connection\n",
				    conn->rank);
		o2g_end(conn, -EPROTO, -EPROTO);
	} else if (o2g_is_at_end(sk) || READ_ONCE(conn->is_disconnected)) {
		pr_debug("the connection to rank %d ended %s\n", conn->rank,
			 phase == O2G_PHASE_HEAD && !conn->head_size ? "between messages" :
								      "in the middle of a message");
		o2g_end(conn, -EPIPE, -EPIPE);
	}
}

static void o2g_finish_turn(const struct o2g_turn *turn)
{
	struct o2g_connection *conn = turn->conn;
	struct o2g_context *ctx = conn->context;

	spin_lock_bh(&ctx->lock);
	ctx->copied_size[turn->kind] += turn->copied_size;
	if (turn->stop == O2G_STOP_THREAD)
		o2g_list_move(conn, O2G_LIST_PENDING);
	else if (turn->stop == O2G_STOP_BUDGET && o2g_phase_of(conn) == O2G_PHASE_BODY &&
		 o2g_needs_thread(conn))
		o2g_list_move(conn, O2G_LIST_PENDING);
	else if (turn->stop == O2G_STOP_BUDGET)
		o2g_list_move(conn, O2G_LIST_WORK);
	o2g_unlock(ctx);
}

static s64 o2g_budget(enum o2g_turn_kind kind)
{
	unsigned int budget = READ_ONCE(o2g_handler_bytes);

	return kind == O2G_TURN_HANDLER ? budget : max(budget, O2G_PROCESS_BUDGET_MIN);
}

/* One turn. The socket lock is held. */
void o2g_receive(struct o2g_connection *conn, struct sock *sk, enum o2g_turn_kind kind)
{
	struct o2g_turn turn = { .conn = conn, .kind = kind };
	enum o2g_phase phase = o2g_phase_of(conn);

	sock_owned_by_me(sk);
	if (!conn->is_hooked || phase == O2G_PHASE_BLOCKED || phase == O2G_PHASE_ENDED)
		return;
	/* The thread that takes it from its list waits for the socket lock, and reads all bytes. */
	if (kind == O2G_TURN_HANDLER && READ_ONCE(conn->list) != O2G_LIST_NONE)
		return;
	if (phase == O2G_PHASE_READ)
		o2g_list_readable(conn);
	else
		o2g_run(&turn, sk);
}

/* The socket lock is held. */
void o2g_run(struct o2g_turn *turn, struct sock *sk)
{
	read_descriptor_t desc = { .arg.data = turn, .count = 1 };

	turn->budget = o2g_budget(turn->kind);
	tcp_read_sock(sk, &desc, o2g_actor);
	if (turn->stop == O2G_STOP_NONE)
		o2g_check_end(turn->conn, sk);
	o2g_finish_turn(turn);
}
