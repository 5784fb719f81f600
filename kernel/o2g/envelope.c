// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames of libo2g-fi.so: contexts with O2G_BIND_ENVELOPES. Tagged messages that match an entry are
 * received as all messages are. Every other frame is for the process: it stays in the socket, and
 * the frames after it with it, until the process reads it. A message that no entry matches also
 * waits for one.
 *
 * The process finds the receive of a message that it has read in its own queue, which has the same
 * entries in the same order, and removes it here by O2G_IOC_CANCEL. A message that matches no entry
 * takes none from later frames of the connection, so the driver goes on with those at once. An
 * announced message, and one of an entry that only matches, do take one. After them the driver goes
 * on with the next read, when the process has removed that entry.
 */
#include <linux/skbuff.h>
#include <linux/uaccess.h>
#include <net/tcp.h>

#include "internal.h"

#define O2G_READABLE_COUNT_MAX 64

/* Returns the entry that the message matches first; NULL: it matches no entry. */
static struct o2g_expected *o2g_match_envelope(struct o2g_connection *conn)
{
	struct o2g_match_key key = o2g_key(conn);
	struct o2g_posted_entry *posted =
		o2g_match_find_posted(&conn->context->queues, &key);

	return posted ? container_of(posted, struct o2g_expected, posted) : NULL;
}

static void o2g_decode_message(struct o2g_connection *conn)
{
	u64 tag = le64_to_cpu(conn->envelope.tag);

	conn->message_context = tag >> 32;
	conn->message_tag = (s32)tag;
	conn->message_size = le64_to_cpu(conn->envelope.size);
}

/* context.lock is held. */
static void o2g_dispatch_message(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	struct o2g_expected *e = o2g_match_envelope(conn);

	if (e && !e->is_match_only) {
		o2g_match_remove_posted(&ctx->queues, &e->posted);
		o2g_receive_expected(conn, e);
		return;
	}
	if (e)
		o2g_set_phase(conn, O2G_PHASE_READ);
	else
		o2g_block(conn);
	o2g_list_move(conn, O2G_LIST_READABLE);
}

/* The envelope is complete. An invalid one is for the process, which ends the connection. */
void o2g_begin_envelope(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	bool is_valid = o2g_envelope_is_valid(&conn->envelope);

	conn->is_head_read = false;
	conn->read_size = is_valid ? o2g_envelope_following_size(&conn->envelope) : 0;
	spin_lock_bh(&ctx->lock);
	if (is_valid && o2g_envelope_is_message(&conn->envelope)) {
		o2g_decode_message(conn);
		o2g_dispatch_message(conn);
	} else {
		o2g_set_phase(conn, O2G_PHASE_READ);
		o2g_list_move(conn, O2G_LIST_READABLE);
	}
	spin_unlock_bh(&ctx->lock);
}

void o2g_describe_envelope(const struct o2g_connection *conn, struct o2g_slot *slot)
{
	const struct o2g_envelope *e = &conn->envelope;

	WRITE_ONCE(slot->context, conn->message_context);
	WRITE_ONCE(slot->o2g_slot_envelope_flags, e->flags);
	WRITE_ONCE(slot->o2g_slot_envelope_data, le64_to_cpu(e->data));
	WRITE_ONCE(slot->o2g_slot_envelope_id, le64_to_cpu(e->id));
}

/* More bytes have arrived for the process. */
void o2g_list_readable(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	spin_lock_bh(&ctx->lock);
	if (conn->list == O2G_LIST_NONE)
		o2g_list_move(conn, O2G_LIST_READABLE);
	o2g_unlock(ctx);
}

/* The frame is read. The next bytes are an envelope. */
static void o2g_end_frame(struct o2g_connection *conn)
{
	conn->head_size = 0;
	o2g_set_phase(conn, O2G_PHASE_HEAD);
}

/*
 * The entry that left the message to the process may have been removed. An entry after it then
 * receives the message: later frames must not match that entry before this one.
 */
static void o2g_match_again(struct o2g_connection *conn)
{
	const struct o2g_envelope *envelope = &conn->envelope;
	struct o2g_expected *e;

	conn->must_wait = envelope->kind == O2G_KIND_ANNOUNCE &&
			  (envelope->flags & O2G_ENVELOPE_TAGGED);
	if (!o2g_envelope_is_valid(envelope) || !o2g_envelope_is_message(envelope))
		return;
	e = o2g_match_envelope(conn);
	conn->must_wait = e;
	if (!e || e->is_match_only)
		return;
	o2g_list_move(conn, O2G_LIST_NONE);
	o2g_match_remove_posted(&conn->context->queues, &e->posted);
	o2g_receive_expected(conn, e);
}

/* Takes the envelope for the process, unless a receive has matched its message meanwhile. */
static bool o2g_take_head(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;
	bool is_taken = false;

	spin_lock_bh(&ctx->lock);
	if (conn->phase == O2G_PHASE_BLOCKED) {
		o2g_match_remove_arrived(&ctx->blocked, &conn->blocked);
		o2g_set_phase(conn, O2G_PHASE_READ);
		conn->must_wait = false;
	} else if (conn->phase == O2G_PHASE_READ) {
		o2g_match_again(conn);
	}
	if (conn->phase == O2G_PHASE_READ) {
		o2g_list_move(conn, O2G_LIST_NONE);
		is_taken = true;
	}
	o2g_unlock(ctx);
	return is_taken;
}

/* Copies an envelope that is for the process and that it has not read. */
void o2g_read_head(struct o2g_turn *turn)
{
	struct o2g_connection *conn = turn->conn;
	enum o2g_phase phase = o2g_phase_of(conn);

	if (phase != O2G_PHASE_BLOCKED && (phase != O2G_PHASE_READ || conn->is_head_read))
		return;
	if (iov_iter_count(turn->dest) < sizeof(conn->envelope)) {
		turn->stop = O2G_STOP_PHASE;
		return;
	}
	if (!o2g_take_head(conn))
		return;
	if (copy_to_iter(&conn->envelope, sizeof(conn->envelope), turn->dest) !=
	    sizeof(conn->envelope)) {
		o2g_end(conn, -EPIPE, -EFAULT);
		return;
	}
	conn->is_head_read = true;
	if (!conn->read_size && !conn->must_wait)
		o2g_end_frame(conn);
}

/* Bytes of a frame for the process. Returns 0 if the turn must stop. */
size_t o2g_read_body(struct o2g_turn *turn, struct sk_buff *skb, unsigned int offset, size_t size)
{
	struct o2g_connection *conn = turn->conn;

	size = min3((u64)size, conn->read_size, (u64)iov_iter_count(turn->dest));
	if (!conn->is_head_read || size == 0) {
		turn->stop = O2G_STOP_PHASE;
		return 0;
	}
	if (skb_copy_datagram_iter(skb, offset, turn->dest, size)) {
		o2g_end(conn, -EPIPE, -EFAULT);
		return 0;
	}
	conn->read_size -= size;
	if (!conn->read_size && !conn->must_wait)
		o2g_end_frame(conn);
	return size;
}

/* Whether O2G_IOC_READABLE must return the connection again. */
static bool o2g_is_readable(struct o2g_connection *conn, struct sock *sk)
{
	if (o2g_phase_of(conn) == O2G_PHASE_BLOCKED)
		return true;
	if (o2g_phase_of(conn) != O2G_PHASE_READ)
		return false;
	return !conn->is_head_read || !skb_queue_empty(&sk->sk_receive_queue);
}

static void o2g_unlist_readable(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	spin_lock_bh(&ctx->lock);
	if (conn->list == O2G_LIST_READABLE)
		o2g_list_move(conn, O2G_LIST_NONE);
	spin_unlock_bh(&ctx->lock);
}

/* The socket lock is held. */
static void o2g_read_turn(struct o2g_connection *conn, struct sock *sk, struct iov_iter *dest)
{
	struct o2g_turn turn = { .conn = conn, .kind = O2G_TURN_THREAD, .dest = dest };

	o2g_unlist_readable(conn);
	/* The process has matched the message that it has read. */
	if (o2g_phase_of(conn) == O2G_PHASE_READ && conn->is_head_read && !conn->read_size)
		o2g_end_frame(conn);
	o2g_read_head(&turn);
	if (turn.stop == O2G_STOP_NONE)
		o2g_run(&turn, sk);
	if (o2g_is_readable(conn, sk))
		o2g_list_readable(conn);
}

/* Why nothing was read. */
static int o2g_read_status(struct o2g_connection *conn, size_t size)
{
	enum o2g_phase phase = o2g_phase_of(conn);
	bool is_at_head = phase == O2G_PHASE_BLOCKED ||
			  (phase == O2G_PHASE_READ && !conn->is_head_read);

	if (phase == O2G_PHASE_ENDED)
		return 0;
	return is_at_head && size < sizeof(conn->envelope) ? -EINVAL : -EAGAIN;
}

static int o2g_read_connection(struct o2g_connection *conn, struct iov_iter *dest, u64 *read_size)
{
	struct sock *sk = o2g_hold_sock(conn);
	size_t size = iov_iter_count(dest);

	if (sk) {
		lock_sock(sk);
		if (conn->is_hooked && o2g_phase_of(conn) != O2G_PHASE_ENDED)
			o2g_read_turn(conn, sk, dest);
		release_sock(sk);
		sock_put(sk);
	}
	*read_size = size - iov_iter_count(dest);
	return *read_size ? 0 : o2g_read_status(conn, size);
}

static int o2g_import_parts(const struct o2g_read *request, struct iovec *parts)
{
	u32 i;

	if (request->part_count < 1 || request->part_count > ARRAY_SIZE(request->parts))
		return -EINVAL;
	for (i = 0; i < request->part_count; i++) {
		parts[i].iov_base = (void __user *)request->parts[i].address;
		parts[i].iov_len = request->parts[i].size;
		if (parts[i].iov_len > INT_MAX || !access_ok(parts[i].iov_base, parts[i].iov_len))
			return -EINVAL;
	}
	return 0;
}

int o2g_read(struct o2g_context *ctx, struct o2g_read *request)
{
	struct iovec parts[ARRAY_SIZE(request->parts)] = {};
	struct o2g_connection *conn;
	struct iov_iter dest;
	int error = o2g_import_parts(request, parts);

	if (error)
		return error;
	conn = o2g_connection_get(ctx, request->rank);
	if (!conn)
		return -ENOENT;
	iov_iter_init(&dest, ITER_DEST, parts, request->part_count,
		      parts[0].iov_len + parts[1].iov_len);
	error = o2g_read_connection(conn, &dest, &request->read_size);
	o2g_connection_put(conn);
	return error;
}

static u32 o2g_take_readable(struct o2g_context *ctx, s32 *ranks, u32 count_max)
{
	struct o2g_connection *conn;
	u32 count = 0;

	spin_lock_bh(&ctx->lock);
	while (count < count_max) {
		conn = list_first_entry_or_null(&ctx->readable_list, struct o2g_connection, link);
		if (!conn)
			break;
		o2g_list_move(conn, O2G_LIST_NONE);
		ranks[count++] = conn->rank;
	}
	spin_unlock_bh(&ctx->lock);
	return count;
}

int o2g_readable(struct o2g_context *ctx, struct o2g_readable *request)
{
	s32 ranks[O2G_READABLE_COUNT_MAX];

	if (request->count == 0 || request->reserved)
		return -EINVAL;
	o2g_unpin_released(ctx);
	o2g_run_pending(ctx);
	request->count = o2g_take_readable(
		ctx, ranks, min_t(u32, request->count, O2G_READABLE_COUNT_MAX));
	if (copy_to_user((void __user *)request->address, ranks,
			 request->count * sizeof(ranks[0])))
		return -EFAULT;
	return 0;
}

int o2g_put_message(struct o2g_context *ctx, const struct o2g_put_message *put)
{
	struct o2g_receive_request request = {
		.slot = put->slot,
		.pattern = { .tag = put->tag, .ignore = put->ignore, .source = put->source },
		.address = put->address,
		.size = put->size,
		.is_match_only = put->flags & O2G_PUT_MATCH_ONLY,
	};

	if ((put->flags & ~O2G_PUT_MATCH_ONLY) || put->reserved)
		return -EINVAL;
	return o2g_put_receive(ctx, &request);
}
