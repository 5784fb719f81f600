// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registered sockets: the hooks of section 4.3 of the paper. A socket is hooked until its
 * connection ends or the context is detached. Meanwhile the driver holds the file, so that the
 * program can close its descriptor.
 */
#include <linux/net.h>
#include <linux/slab.h>
#include <linux/module.h>
#include <net/mptcp.h>
#include <net/tcp.h>

#include "internal.h"

/*
 * A socket has this upper-layer protocol from its first registration on. TCP then refuses another
 * one, such as TLS, which would replace the hooks, and refuses to listen: an accepted socket would
 * inherit them. getsockopt() reads it without a lock, so it stays until TCP destroys the socket,
 * and then releases the module. It is not registered, because it is not for setsockopt().
 */
static const struct tcp_ulp_ops o2g_ulp_ops = {
	.name = "o2g",
	.owner = THIS_MODULE,
};

/* The socket lock is held, or RCU prevents the connection from being freed. */
static struct o2g_connection *o2g_connection_of(struct sock *sk)
{
	struct o2g_connection *conn;

	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	rcu_read_unlock();
	return conn;
}

/* TCP calls it with the socket lock held, so the socket is hooked. */
static void o2g_data_ready(struct sock *sk)
{
	struct o2g_connection *conn = o2g_connection_of(sk);

	if (conn)
		o2g_receive(conn, sk, O2G_TURN_HANDLER);
}

static void o2g_state_change(struct sock *sk)
{
	struct o2g_connection *conn = o2g_connection_of(sk);

	if (!conn)
		return;
	o2g_receive(conn, sk, O2G_TURN_HANDLER);
	conn->saved_state_change(sk);
}

/* Interrupts may be disabled here. The worker takes the locks. */
static void o2g_check_later(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	WRITE_ONCE(conn->is_disconnected, true);
	smp_store_release(&ctx->needs_check, true); /* pairs with o2g_check_disconnected() */
	if (!READ_ONCE(ctx->is_dead))
		queue_work(o2g_workqueue, &ctx->work);
}

/*
 * Called without the socket lock as well. Errors that end the connection also change its state,
 * except a connect() that disconnects the socket.
 */
static void o2g_error_report(struct sock *sk)
{
	void (*report)(struct sock *sk);
	struct o2g_connection *conn;

	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	if (conn) {
		report = conn->saved_error_report;
		if (sk->sk_state == TCP_CLOSE && READ_ONCE(conn->phase) != O2G_PHASE_ENDED)
			o2g_check_later(conn);
	} else {
		report = READ_ONCE(sk->sk_error_report); /* meanwhile restored */
	}
	rcu_read_unlock();
	if (report != o2g_error_report)
		report(sk);
}

static bool o2g_is_usable(const struct sock *sk)
{
	const int states = TCPF_ESTABLISHED | TCPF_CLOSE_WAIT | TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2;

	return (1 << sk->sk_state) & states;
}

static void o2g_set_protocol(struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);

	if (icsk->icsk_ulp_ops == &o2g_ulp_ops)
		return;
	__module_get(THIS_MODULE);
	WRITE_ONCE(icsk->icsk_ulp_ops, &o2g_ulp_ops);
}

static int o2g_hook(struct o2g_connection *conn, struct sock *sk)
{
	int error = 0;

	sock_owned_by_me(sk);
	if (!o2g_is_usable(sk))
		return -EINVAL;
	if (sk_is_mptcp(sk) ||
	    (inet_csk_has_ulp(sk) && inet_csk(sk)->icsk_ulp_ops != &o2g_ulp_ops))
		return -EOPNOTSUPP;
	write_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_user_data) {
		error = -EBUSY; /* registered, or another part of the kernel reads it */
	} else {
		conn->saved_data_ready = sk->sk_data_ready;
		conn->saved_state_change = sk->sk_state_change;
		conn->saved_error_report = sk->sk_error_report;
		__rcu_assign_sk_user_data_with_flags(sk, conn, SK_USER_DATA_NOCOPY);
		WRITE_ONCE(sk->sk_data_ready, o2g_data_ready);
		WRITE_ONCE(sk->sk_state_change, o2g_state_change);
		WRITE_ONCE(sk->sk_error_report, o2g_error_report);
		o2g_set_protocol(sk);
		conn->is_hooked = true;
	}
	write_unlock_bh(&sk->sk_callback_lock);
	return error;
}

static void o2g_restore(struct o2g_connection *conn, struct sock *sk)
{
	write_lock_bh(&sk->sk_callback_lock);
	WRITE_ONCE(sk->sk_data_ready, conn->saved_data_ready);
	WRITE_ONCE(sk->sk_state_change, conn->saved_state_change);
	WRITE_ONCE(sk->sk_error_report, conn->saved_error_report);
	rcu_assign_sk_user_data(sk, NULL); /* the callbacks are restored before */
	write_unlock_bh(&sk->sk_callback_lock);
	conn->is_hooked = false;
	sk->sk_data_ready(sk); /* wakes readers */
}

struct sock *o2g_hold_sock(struct o2g_connection *conn)
{
	struct sock *sk;

	spin_lock_bh(&conn->context->lock);
	sk = conn->sk;
	if (sk)
		sock_hold(sk);
	spin_unlock_bh(&conn->context->lock);
	return sk;
}

/* Releases the socket. The last close and the worker may both call it. */
void o2g_unhook(struct o2g_connection *conn)
{
	struct sock *sk = o2g_hold_sock(conn);
	bool was_hooked;

	if (!sk)
		return;
	lock_sock(sk);
	was_hooked = conn->is_hooked;
	if (was_hooked)
		o2g_restore(conn, sk);
	release_sock(sk);
	if (was_hooked) {
		spin_lock_bh(&conn->context->lock);
		conn->sk = NULL;
		spin_unlock_bh(&conn->context->lock);
		sockfd_put(conn->socket);
	}
	sock_put(sk);
}

static int o2g_check_socket(const struct socket *socket)
{
	const struct sock *sk = socket->sk;

	/*
	 * A socket whose connect() did not block stays in SS_CONNECTING. o2g_hook() checks the state
	 * of the connection.
	 */
	if (!sk || sk->sk_type != SOCK_STREAM ||
	    (socket->state != SS_CONNECTED && socket->state != SS_CONNECTING))
		return -EINVAL;
	if ((sk->sk_family != AF_INET && sk->sk_family != AF_INET6) ||
	    sk->sk_protocol != IPPROTO_TCP)
		return -EOPNOTSUPP;
	return 0;
}

static int o2g_attach(struct o2g_connection *conn, struct socket *socket)
{
	struct o2g_context *ctx = conn->context;
	struct sock *sk = socket->sk;
	int error;

	spin_lock_bh(&ctx->lock);
	conn->sk = sk;
	conn->is_open = true;
	ctx->open_count++;
	o2g_publish(ctx);
	spin_unlock_bh(&ctx->lock);
	conn->socket = socket;
	lock_sock(sk);
	error = o2g_hook(conn, sk);
	release_sock(sk);
	if (!error)
		return 0;
	spin_lock_bh(&ctx->lock);
	conn->sk = NULL;
	conn->is_open = false;
	ctx->open_count--;
	o2g_publish(ctx);
	spin_unlock_bh(&ctx->lock);
	return error;
}

static struct o2g_connection *o2g_connection_create(struct o2g_context *ctx,
						    const struct o2g_register *request)
{
	struct o2g_connection *conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT);

	if (!conn)
		return NULL;
	conn->context = ctx;
	refcount_set(&conn->references, 1);
	conn->rank = request->rank;
	conn->source = ctx->has_envelopes ? request->peer : request->rank;
	INIT_LIST_HEAD(&conn->link);
	return conn;
}

/* Takes the reference of `socket` if it succeeds. */
static int o2g_register_socket(struct o2g_context *ctx, struct socket *socket,
			       const struct o2g_register *request)
{
	struct o2g_connection *conn = o2g_connection_create(ctx, request);
	int error;

	if (!conn)
		return -ENOMEM;
	/* Puts find the connection from now on. */
	error = xa_insert(&ctx->ranks, request->rank, conn, GFP_KERNEL_ACCOUNT);
	if (error) {
		kfree(conn);
		return error == -EBUSY ? -EEXIST : error;
	}
	error = o2g_attach(conn, socket);
	if (error) {
		xa_erase(&ctx->ranks, request->rank);
		o2g_connection_put(conn);
		return error;
	}
	ctx->socket_count++;
	return 0;
}

static int o2g_register_fd(struct o2g_context *ctx, const struct o2g_register *request)
{
	struct socket *socket;
	int error;

	if (ctx->is_dead)
		return -ENXIO;
	if (xa_load(&ctx->ranks, request->rank))
		return -EEXIST;
	if (ctx->socket_count == ctx->socket_count_max)
		return -EMFILE;
	socket = sockfd_lookup(request->socket, &error);
	if (!socket)
		return error == -ENOTSOCK ? -EINVAL : error;
	error = o2g_check_socket(socket);
	if (!error)
		error = o2g_register_socket(ctx, socket, request);
	if (error)
		sockfd_put(socket);
	return error;
}

int o2g_register(struct o2g_context *ctx, const struct o2g_register *request)
{
	struct o2g_connection *conn;
	int error;

	if (request->rank < 0 || request->reserved ||
	    (ctx->has_envelopes ? request->peer == O2G_ANY_PEER : request->peer != 0))
		return -EINVAL;
	mutex_lock(&ctx->config_mutex);
	error = o2g_register_fd(ctx, request);
	mutex_unlock(&ctx->config_mutex);
	if (error)
		return error;
	pr_debug("registered a socket of rank %d\n", request->rank);
	/* Bytes that have arrived before cause no callback. */
	conn = o2g_connection_get(ctx, request->rank);
	if (conn) {
		o2g_run_connection(conn);
		o2g_connection_put(conn);
	}
	return 0;
}

/* Callbacks that do not hold the socket lock, and o2g_check_disconnected(), rely on RCU. */
void o2g_connection_put(struct o2g_connection *conn)
{
	if (refcount_dec_and_test(&conn->references))
		kfree_rcu(conn, rcu);
}

/* Returns NULL if there is no such connection. The caller puts it. */
struct o2g_connection *o2g_connection_get(struct o2g_context *ctx, s32 rank)
{
	struct o2g_connection *conn;

	rcu_read_lock();
	conn = o2g_connection_find(ctx, rank);
	if (conn && !refcount_inc_not_zero(&conn->references))
		conn = NULL;
	rcu_read_unlock();
	return conn;
}

/* Ends the connection, unless it has ended. */
static void o2g_cut(struct o2g_connection *conn)
{
	struct sock *sk = o2g_hold_sock(conn);

	if (!sk)
		return;
	lock_sock(sk);
	if (conn->is_hooked)
		o2g_end(conn, -EPIPE, -EPIPE);
	release_sock(sk);
	sock_put(sk);
}

static void o2g_remove(struct o2g_connection *conn)
{
	struct o2g_context *ctx = conn->context;

	xa_erase(&ctx->ranks, conn->rank);
	ctx->socket_count--;
	spin_lock_bh(&ctx->lock);
	o2g_list_move(conn, O2G_LIST_NONE);
	o2g_close_connection(conn);
	o2g_unlock(ctx);
	o2g_connection_put(conn);
}

int o2g_detach(struct o2g_context *ctx, s32 rank)
{
	struct o2g_connection *conn;

	mutex_lock(&ctx->config_mutex);
	conn = READ_ONCE(ctx->is_dead) ? NULL : o2g_connection_find(ctx, rank);
	if (conn) {
		o2g_cut(conn);
		o2g_unhook(conn);
		o2g_remove(conn);
	}
	mutex_unlock(&ctx->config_mutex);
	return conn ? 0 : -ENOENT;
}

/* context.lock is held, or the connection is known not to be freed. */
struct o2g_connection *o2g_connection_find(struct o2g_context *ctx, s32 rank)
{
	return rank < 0 ? NULL : xa_load(&ctx->ranks, rank);
}

int o2g_rank_status(struct o2g_context *ctx, s32 rank)
{
	struct o2g_connection *conn;
	int status = -ENOENT;

	spin_lock_bh(&ctx->lock);
	conn = o2g_connection_find(ctx, rank);
	if (conn)
		status = conn->phase == O2G_PHASE_ENDED ? conn->code : 0;
	spin_unlock_bh(&ctx->lock);
	return status;
}
