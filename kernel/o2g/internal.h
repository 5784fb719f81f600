/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The structures of the driver.
 *
 * Locks, in the order in which they are taken:
 * 1. context.config_mutex: calls that configure the context, and its end.
 * 2. The lock of a registered socket (lock_sock(), or the spinlock in the protocol handler). It
 *    protects the connection's state of reception.
 * 3. context.lock, a spinlock that the protocol handler takes: the queues, entries and lists. It is
 *    not held while payload is copied, pages are pinned or anything sleeps.
 *
 * A message that has matched belongs to its connection until it is complete. Its entry can be
 * neither cancelled nor freed in that time, so its payload is copied without context.lock.
 */
#ifndef O2G_INTERNAL_H
#define O2G_INTERNAL_H

#undef pr_fmt
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bvec.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/sock.h>

#include <tanada/o2g_driver.h>

#include "compat.h"
#include "envelope.h"
#include "match.h"
#include "protocol.h"

/* Pinned pages of the process, which can be written in any context. */
struct o2g_pin {
	struct list_head link; /* in context.released_pins */
	unsigned long page_count;
	struct bio_vec pages[]; /* whole pages */
};

enum o2g_entry_state {
	O2G_ENTRY_FREE, /* not in use, from the library's point of view, too */
	O2G_ENTRY_PREPARING, /* expected: a call pins the buffer */
	O2G_ENTRY_QUEUED, /* expected: in the queue */
	O2G_ENTRY_RECEIVING, /* belongs to a connection */
	O2G_ENTRY_DONE, /* unexpected: received or failed */
};

/* What both kinds of entries have. Protected by context.lock. */
struct o2g_entry {
	struct o2g_slot *slot; /* written only: the process can change it */
	u32 number; /* of the slot */
	u32 flags; /* as in the slot */
	enum o2g_entry_state state;
	bool is_unexpected;
};

struct o2g_expected {
	struct o2g_entry entry;
	struct o2g_posted_entry posted;
	u64 address;
	u64 size;
	struct o2g_pin *pin; /* NULL: the buffer is not pinned */
	bool is_match_only; /* O2G_PUT_MATCH_ONLY */
};

struct o2g_unexpected {
	struct o2g_entry entry;
	struct o2g_arrived_entry arrived;
	struct list_head link; /* in context.unexpected, oldest first, or context.free_unexpected */
	u64 offset; /* in the dump area */
	u64 size;
};

#define O2G_RING_PAGE_COUNT (O2G_RING_SIZE / PAGE_SIZE)
static_assert(O2G_RING_SIZE % PAGE_SIZE == 0);

#define O2G_CHUNK_PAGE_COUNT (O2G_CHUNK_SIZE / PAGE_SIZE)
static_assert(O2G_CHUNK_SIZE % PAGE_SIZE == 0);
static_assert(sizeof(struct o2g_slot) * O2G_CHUNK_SLOT_COUNT == O2G_CHUNK_SIZE);

/* 1,024 slots, which the process maps, and their entries. It exists as long as the context. */
struct o2g_chunk {
	struct o2g_expected *expected; /* one of the two is NULL */
	struct o2g_unexpected *unexpected;
	struct page *pages[O2G_CHUNK_PAGE_COUNT];
};

struct o2g_dump_memory {
	u64 address;
	u64 size;
	u64 pinned_size;
	struct o2g_pin *pin;
	unsigned long *used; /* a bit for each unit; NULL: there is no dump area */
	unsigned int unit_shift;
	unsigned int unit_count;
	unsigned int free_count;
	u64 fit_size_max; /* larger messages do not fit until memory is freed */
};

enum o2g_phase {
	O2G_PHASE_HEAD, /* the next bytes are a header */
	O2G_PHASE_BODY, /* the next bytes are payload */
	/*
	 * An unexpected message does not fit into the dump area. With O2G_BIND_ENVELOPES: no entry
	 * matches the message, and the process has not read it.
	 */
	O2G_PHASE_BLOCKED,
	O2G_PHASE_READ, /* O2G_BIND_ENVELOPES: the process reads the frame */
	O2G_PHASE_ENDED,
};

/* The list that a connection is in. */
enum o2g_list {
	O2G_LIST_NONE,
	O2G_LIST_WORK, /* the driver's worker continues to read the socket */
	O2G_LIST_PENDING, /* a thread must continue: the memory is not pinned */
	O2G_LIST_READABLE, /* O2G_BIND_ENVELOPES: there are bytes for the process, or the end */
	O2G_LIST_ENDED, /* the worker releases the socket */
};

/*
 * A registered socket. The holder of the socket lock changes `phase`. Only O2G_PHASE_BLOCKED is
 * left under context.lock instead: until then the fields after it belong to context.lock.
 */
struct o2g_connection {
	struct o2g_context *context;
	refcount_t references; /* one while it is in context.ranks */
	s32 rank;
	u32 source; /* of its messages: the rank, or the peer of an envelope */
	enum o2g_phase phase;

	union {
		struct o2g_wire_header wire;
		struct o2g_envelope envelope; /* O2G_BIND_ENVELOPES */
	};
	size_t head_size; /* bytes of it that were received */
	u32 message_context; /* of the header, decoded */
	s32 message_tag;
	u64 message_size;
	struct o2g_entry *entry; /* O2G_PHASE_BODY */
	bool is_pinned; /* `iter` can be written in any context */
	struct iov_iter iter;
	u64 received_size;
	u64 remaining_size; /* bytes still to be received into the entry */
	u64 discard_size; /* bytes after these that do not fit there */
	u64 read_size; /* O2G_PHASE_READ: bytes that follow the envelope */
	bool is_head_read; /* O2G_PHASE_READ: the process has the envelope */
	bool must_wait; /* is_head_read: later frames wait until the process has matched it */

	/* Protected by context.lock. */
	int code; /* O2G_PHASE_ENDED: -EPIPE, -EPROTO */
	bool is_open; /* counted in context.open_count */
	enum o2g_list list;
	struct list_head link;
	struct o2g_arrived_entry blocked; /* in context.blocked */
	struct sock *sk; /* NULL: the socket was released */

	/* Protected by the socket lock. */
	bool is_hooked;
	struct socket *socket;
	void (*saved_data_ready)(struct sock *sk);
	void (*saved_state_change)(struct sock *sk);
	void (*saved_error_report)(struct sock *sk);

	bool is_disconnected; /* by connect(), or by an error */
	struct rcu_head rcu;
};

/* One open of the device. */
struct o2g_context {
	struct mutex config_mutex; /* see above */
	struct mm_struct *mm; /* NULL before O2G_IOC_INIT */
	struct mmu_notifier notifier;
	struct user_struct *user;
	struct mem_cgroup *memcg;
	struct page *shared_page;
	struct o2g_shared *shared; /* written only */
	bool has_envelopes; /* O2G_BIND_ENVELOPES */
	size_t head_size; /* bytes of a header or envelope */
	struct page **ring_pages; /* O2G_BIND_ENVELOPES; written only */
	u32 socket_count_max;
	u32 socket_count;
	struct xarray ranks; /* connections, which are kept until the context is destroyed */
	atomic_long_t pinned_page_count;
	struct o2g_chunk **chunks;
	wait_queue_head_t wait; /* for events, and for pending sockets without dumper threads */
	wait_queue_head_t dump_wait; /* dumper threads */
	struct eventfd_ctx __rcu *eventfd;
	u64 waited_count; /* value of event_count that the process has seen: see O2G_IOC_ARM */
	struct work_struct work;
	struct delayed_work unpin_work;
	bool needs_check; /* a connection is newly disconnected */

	spinlock_t lock; /* protects what follows */
	bool is_dead; /* O2G_IOC_FINI, or the process has ended: nothing is received any more */
	bool is_stopping; /* O2G_IOC_STOP */
	bool has_news; /* waiters must be woken */
	u64 quiet_size; /* see O2G_IOC_ARM; 0: every event wakes waiters */
	bool needs_unexpected; /* the worker adds slots for unexpected messages */
	u32 chunk_count;
	u32 thread_count;
	u32 open_count;
	u32 pending_count;
	u32 readable_count;
	u64 completed_count;
	u64 event_count;
	u64 sequence;
	u64 blocked_number;
	u64 unexpected_count;
	u64 free_unexpected_count;
	u64 received_count;
	u64 race_count;
	u64 copied_size[3]; /* by enum o2g_turn_kind */
	struct list_head released_pins;
	struct list_head work_list;
	struct list_head pending_list;
	struct list_head readable_list;
	struct list_head ended_list;
	struct list_head unexpected;
	struct list_head free_unexpected;
	struct o2g_dump_memory dump;
	struct o2g_matcher queues;
	struct o2g_matcher blocked; /* the waiting messages of blocked connections */
};

/* A turn is one run over the bytes that a socket has received. */
enum o2g_turn_kind {
	O2G_TURN_HANDLER, /* in the protocol handler */
	O2G_TURN_WORKER,
	O2G_TURN_THREAD, /* a thread of the process, which can write all its memory */
};

enum o2g_stop {
	O2G_STOP_NONE,
	O2G_STOP_BUDGET, /* continue in another turn */
	O2G_STOP_THREAD, /* continue in a thread of the process */
	O2G_STOP_PHASE, /* the connection is blocked or has ended */
};

struct o2g_turn {
	struct o2g_connection *conn;
	enum o2g_turn_kind kind;
	enum o2g_stop stop;
	s64 budget;
	u64 copied_size;
	struct iov_iter *dest; /* O2G_IOC_READ: memory for bytes of the process; otherwise NULL */
};

/* Module parameters. */
extern unsigned int o2g_handler_bytes;
extern unsigned int o2g_pin_limit;
extern struct workqueue_struct *o2g_workqueue;

/* context.c */
struct o2g_context *o2g_context_create(void);
int o2g_context_bind(struct o2g_context *ctx, const struct o2g_binding *binding);
void o2g_arm(struct o2g_context *ctx, const struct o2g_arm *request);
void o2g_context_detach(struct o2g_context *ctx);
void o2g_context_destroy(struct o2g_context *ctx);
void o2g_publish(struct o2g_context *ctx);
void o2g_count_event(struct o2g_context *ctx);
void o2g_unlock(struct o2g_context *ctx) __releases(&ctx->lock);
void o2g_queue_work(struct o2g_context *ctx);
int o2g_set_eventfd(struct o2g_context *ctx, int fd);

/* slots.c */
int o2g_chunk_create(struct o2g_context *ctx, bool is_unexpected, u32 *number);
void o2g_chunk_destroy(struct o2g_chunk *chunk);
struct o2g_chunk *o2g_chunk_find(struct o2g_context *ctx, u64 number);
struct o2g_expected *o2g_expected_find(struct o2g_context *ctx, u32 slot);
struct o2g_unexpected *o2g_unexpected_find(struct o2g_context *ctx, u32 slot);
void o2g_ring_add(struct o2g_context *ctx, u32 slot);
struct page **o2g_ring_create(void);
void o2g_ring_destroy(struct page **pages);
void o2g_set_flags(struct o2g_entry *entry, u32 add, u32 remove);

/* queue.c */
/* A receive, from one of the calls for it. */
struct o2g_receive_request {
	u32 slot;
	struct o2g_match_pattern pattern;
	u64 sequence; /* messages that arrived later refuse it */
	u64 address;
	u64 size;
	bool is_match_only;
};
int o2g_put(struct o2g_context *ctx, const struct o2g_put *request);
int o2g_put_receive(struct o2g_context *ctx, const struct o2g_receive_request *request);
int o2g_cancel(struct o2g_context *ctx, u32 slot);
int o2g_find(struct o2g_context *ctx, struct o2g_find *request);
int o2g_next(struct o2g_context *ctx, struct o2g_next *request);
int o2g_free(struct o2g_context *ctx, u32 slot);
void o2g_entry_complete(struct o2g_context *ctx, struct o2g_entry *entry, u64 received_size,
			u32 flags);
void o2g_entry_fail(struct o2g_context *ctx, struct o2g_entry *entry, u64 received_size,
		    int error);
void o2g_fail_ended_sources(struct o2g_context *ctx);
void o2g_count(struct o2g_context *ctx, struct o2g_counters *counters);

/* sockets.c */
int o2g_register(struct o2g_context *ctx, const struct o2g_register *request);
int o2g_detach(struct o2g_context *ctx, s32 rank);
void o2g_unhook(struct o2g_connection *conn);
struct sock *o2g_hold_sock(struct o2g_connection *conn);
void o2g_connection_put(struct o2g_connection *conn);
struct o2g_connection *o2g_connection_get(struct o2g_context *ctx, s32 rank);
struct o2g_connection *o2g_connection_find(struct o2g_context *ctx, s32 rank);
int o2g_rank_status(struct o2g_context *ctx, s32 rank);

/* receive.c */
void o2g_run(struct o2g_turn *turn, struct sock *sk);
void o2g_set_phase(struct o2g_connection *conn, enum o2g_phase phase);
enum o2g_phase o2g_phase_of(struct o2g_connection *conn);
struct o2g_match_key o2g_key(const struct o2g_connection *conn);
void o2g_block(struct o2g_connection *conn);
void o2g_end(struct o2g_connection *conn, int code, int entry_error);
void o2g_receive(struct o2g_connection *conn, struct sock *sk, enum o2g_turn_kind kind);
void o2g_receive_expected(struct o2g_connection *conn, struct o2g_expected *e);
bool o2g_receive_unexpected(struct o2g_connection *conn);
void o2g_unblock_fitting(struct o2g_context *ctx);

/* envelope.c */
void o2g_begin_envelope(struct o2g_connection *conn);
void o2g_describe_envelope(const struct o2g_connection *conn, struct o2g_slot *slot);
void o2g_list_readable(struct o2g_connection *conn);
void o2g_read_head(struct o2g_turn *turn);
size_t o2g_read_body(struct o2g_turn *turn, struct sk_buff *skb, unsigned int offset, size_t size);
int o2g_put_message(struct o2g_context *ctx, const struct o2g_put_message *request);
int o2g_readable(struct o2g_context *ctx, struct o2g_readable *request);
int o2g_read(struct o2g_context *ctx, struct o2g_read *request);

/* threads.c */
void o2g_list_move(struct o2g_connection *conn, enum o2g_list list);
void o2g_close_connection(struct o2g_connection *conn);
void o2g_work(struct work_struct *work);
void o2g_run_connection(struct o2g_connection *conn);
void o2g_run_pending(struct o2g_context *ctx);
int o2g_dump(struct o2g_context *ctx);
void o2g_stop(struct o2g_context *ctx);
int o2g_wait(struct o2g_context *ctx, struct o2g_wait *request);
bool o2g_has_news(struct o2g_context *ctx, u64 event_count);

/* pin.c */
struct o2g_pin *o2g_pin_buffer(struct o2g_context *ctx, u64 address, u64 size);
struct o2g_pin *o2g_pin_prefix(struct o2g_context *ctx, u64 address, u64 size, u64 *pinned_size);
void o2g_pin_iter(const struct o2g_pin *pin, u64 address, u64 offset, u64 size,
		  struct iov_iter *iter);
void o2g_pin_destroy(struct o2g_context *ctx, struct o2g_pin *pin);
void o2g_pin_release(struct o2g_context *ctx, struct o2g_pin *pin);
void o2g_unpin_released(struct o2g_context *ctx);
void o2g_unpin_work(struct work_struct *work);

/* dump.c */
int o2g_set_dump_area(struct o2g_context *ctx, struct o2g_dump_area *area);
bool o2g_dump_allocate(struct o2g_dump_memory *dump, u64 size, u64 *offset);
void o2g_dump_free(struct o2g_dump_memory *dump, u64 offset, u64 size);
u64 o2g_dump_free_size(const struct o2g_dump_memory *dump);
bool o2g_dump_iter(const struct o2g_dump_memory *dump, u64 offset, u64 size,
		   struct iov_iter *iter);
void o2g_dump_unpin(struct o2g_context *ctx);

#endif
