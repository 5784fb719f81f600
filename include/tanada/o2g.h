/* tanada/o2g.h: receive queues of MPI over a program's own connected sockets. C11 and C++20.
 *
 * The paper: Matsuda, Ishikawa, Kudoh, Tezuka, "The Design and Implementation of Kernel API for MPI
 * Communication Model", sections 4.1 to 4.6. What it has is spelled as it spells it; what is marked
 * "ours" is added.
 *
 * A message is matched when it arrives. The library reads the sockets; the program writes to them
 * itself (6.3), in front of each payload a struct o2g_header. One state a process; after fork() the
 * child must not use its parent's. */
#ifndef TANADA_O2G_H
#define TANADA_O2G_H

#include <stddef.h>

#include "status.h"

TND_EXTERN_C_BEGIN

#define O2G_MAGIC 0x3147324Fu /**< "O2G1": the first bytes of every message */
#define O2G_MESSAGE_SIZE_MAX \
  (UINT64_C(1) << 40) /**< bytes of one message; a header that says more ends its connection */
#define O2G_SOCKET_COUNT_MAX 65536 /**< of o2g_init() */
#define O2G_THREAD_COUNT_MAX 64    /**< of o2g_start_dumper_thread() */

#define O2G_ANY_SOURCE (-1) /**< queue_entry.source: from whomever */
#define O2G_ANY_TAG (-1)    /**< queue_entry.tag: any tag, of the entry's context */

/** What a sender writes in front of each payload. Little-endian. */
struct o2g_header {
  uint32_t magic;    /**< O2G_MAGIC */
  int32_t source;    /**< the sender's rank, as the receiver has registered it */
  int32_t tag;       /**< 0 or more */
  uint32_t context;  /**< a communicator; matches exactly */
  uint64_t size;     /**< bytes of payload behind this, O2G_MESSAGE_SIZE_MAX at most */
  uint64_t reserved; /**< 0 */
};

/** Flags of an entry. */
enum {
  O2G_QUEUED = 1,   /**< an expected entry stands in the queue */
  O2G_MATCHED = 2,  /**< a message has begun to come for it: source, tag, message_size tell which */
  O2G_RECEIVED = 4, /**< the paper's flag: all of the message has come */
  O2G_TRUNCATED =
      8, /**< with O2G_RECEIVED: the message was larger than the buffer; the rest is lost */
  O2G_FAILED = 16,     /**< the connection ended before all came; `status` says how */
  O2G_UNEXPECTED = 32, /**< the entry lies in the dump area */
  O2G_CLAIMED = 64     /**< o2g_find_entry() has given it to somebody */
};

/** An entry of one of the two queues (the paper, 3.1). Start from O2G_ENTRY_INIT. */
struct queue_entry {
  uint32_t struct_size; /**< sizeof(struct queue_entry) */
  uint32_t flags;       /**< written by the library: read them by o2g_entry_flags() */
  int32_t source;    /**< expected: a rank or O2G_ANY_SOURCE; from O2G_MATCHED on: the message's */
  int32_t tag;       /**< expected: a tag or O2G_ANY_TAG; from O2G_MATCHED on: the message's */
  uint32_t context;  /**< expected: the messages'; unexpected: the message's */
  tnd_status status; /**< with O2G_FAILED: -TND_EPEER, -EPROTO */
  void *data;    /**< expected: the caller's buffer; unexpected: the message, in the dump area */
  uint64_t size; /**< bytes at `data` */
  uint64_t message_size; /**< bytes that the message has */
  uint64_t
      received_size; /**< with O2G_RECEIVED or O2G_FAILED: bytes at `data` that are the message's */
  uint64_t sequence; /**< unexpected: its number, 1, 2, ...; expected: the newest that the caller
                        has looked at */
  void *user;        /**< the caller's */
  uint64_t reserved[12]; /**< the library's */
};

#define O2G_ENTRY_INIT \
  {sizeof(struct queue_entry), 0, O2G_ANY_SOURCE, O2G_ANY_TAG, 0, 0, 0, 0, 0, 0, 0, 0, {0}}

/** Ours: counters. */
struct o2g_statistics {
  uint32_t struct_size;      /**< in: sizeof(struct o2g_statistics) */
  uint32_t socket_count;     /**< registered whose connection has not ended */
  uint32_t blocked_count;    /**< of these, not read now since the dump area is full */
  uint32_t thread_count;     /**< of o2g_start_dumper_thread() */
  uint64_t expected_count;   /**< entries in the queue now */
  uint64_t unexpected_count; /**< entries in the dump area now */
  uint64_t dump_free_size;   /**< bytes, not in one piece */
  uint64_t received_count;   /**< messages that have come, all of each */
  uint64_t race_count;       /**< o2g_put_entry() and o2g_cancel_entry() that returned -EAGAIN */
};

/* Every call that returns a status: -TND_ESTATE before o2g_init() and after o2g_fini(), -EINVAL for
 * a NULL; tnd_last_message() has the reason. Thread safety: any thread, unless it says otherwise.
 * No call but o2g_poll() and o2g_poll_for() waits for a message. */

/**
 * Begin. `n_socks`: how many sockets will be registered at most, from 1 to O2G_SOCKET_COUNT_MAX.
 * @return -EBUSY it has begun already; -EINVAL; -ENOMEM; -EMFILE.
 */
TND_API TND_NODISCARD tnd_status o2g_init(int n_socks) TND_NOEXCEPT;

/**
 * Ours: end. Joins the dumper threads. Entries in the queue are withdrawn, those in the dump area
 * are gone; the area is the program's again. The sockets stay open; bytes of them that were read
 * are lost. Thread safety: no other call may be under way.
 */
TND_API TND_NODISCARD tnd_status o2g_fini(void) TND_NOEXCEPT;

/**
 * Read this socket from now on, as that of the process with this rank.
 *
 * Ownership: the descriptor stays the program's, which writes to it, and must not read from it. It
 * may be blocking or not, and may be closed: a duplicate is what is read. Sockets of TCP get
 * TCP_NODELAY, and options by which a dead peer is found within 45 s.
 * @return -EBADF, -EINVAL not a connected stream socket, or a negative rank; -EEXIST the rank has
 * one; -EMFILE more than n_socks.
 */
TND_API TND_NODISCARD tnd_status o2g_register_socket(int sock, int rank) TND_NOEXCEPT;

/**
 * Where messages that nobody expects are put: `size` bytes, of which each message takes its own and
 * some 500.
 *
 * When it is full, a socket whose next message nobody expects is not read until o2g_free_entry()
 * makes room or an entry that expects the message is put: the sender's writes then wait, and
 * nothing is lost. That can be a deadlock: a receiver that waits for a message behind one that does
 * not fit waits for ever. The area must hold what all peers may send before it is expected (the
 * paper, 4.1). A message larger than the area comes only into an entry that expects it. Without
 * this call the area is empty. Besides, up to 64 KiB are kept for each socket that is not read.
 * Ownership: the area is the library's until o2g_fini().
 * @return -EINVAL too small: 1 KiB is enough to begin; -EBUSY there is one already.
 */
TND_API TND_NODISCARD tnd_status o2g_set_dump_area(void *area, size_t size) TND_NOEXCEPT;

/**
 * Start `n_thrds` more threads that receive while the program does not call. They sleep in the
 * kernel while nothing comes. They take turns: a second one does not make it faster. Without
 * threads, messages are received within o2g_poll(), o2g_poll_for(), o2g_put_entry() and
 * o2g_find_entry().
 * @return -EINVAL not from 0 to O2G_THREAD_COUNT_MAX in all; -ENOMEM the system has no thread left.
 */
TND_API TND_NODISCARD tnd_status o2g_start_dumper_thread(int n_thrds) TND_NOEXCEPT;

/**
 * Expect a message: the first that comes and matches, in MPI's order, is received straight into the
 * entry's buffer.
 *
 * Inputs: source, tag, context, data, size; sequence: the newest unexpected message that the caller
 * has looked at, which is what o2g_sequence() said before it looked, or o2g_find_entry() has put
 * there; 0: it has not looked. Ownership: the entry and its buffer are the library's until
 * O2G_RECEIVED, O2G_FAILED, or a cancel that succeeds.
 * @return TND_OK   it is in the queue, or has matched already.
 *         -EAGAIN  an unexpected message that matches and that nobody has claimed came after
 * `sequence`: the race of section 4.6. The entry is not in the queue: look again. -TND_EPEER or
 * -EPROTO  the source's connection has ended. -EINVAL.
 */
TND_API TND_NODISCARD tnd_status o2g_put_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Expect it no longer.
 * @return TND_OK   it is the caller's again, without a message.
 *         -EAGAIN  too late: a message has matched it, and is coming or has come: its flags tell.
 *         -EINVAL  it was never put.
 */
TND_API TND_NODISCARD tnd_status o2g_cancel_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Give the memory of an unexpected message back; sockets that waited for memory are read again.
 * @return -EBUSY it is still coming: neither O2G_RECEIVED nor O2G_FAILED; -EINVAL it is not in the
 * dump area.
 */
TND_API TND_NODISCARD tnd_status o2g_free_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Block until a message has been received: since the last o2g_poll() of this process returned. So
 * flags that are looked at after one and before the next miss nothing, in a program of one thread.
 * The end of a connection counts as a message. No limit of time: o2g_poll_for() has one.
 * @return -TND_EPEER no connection is left: no message can come.
 */
TND_API TND_NODISCARD tnd_status o2g_poll(void) TND_NOEXCEPT;

/**
 * Ours: o2g_poll() for several threads, and with a limit. `seen` [in, out]: 0 first; each thread
 * has its own.
 * @param timeout_ns nanoseconds, relative; 0: receive what is there and do not wait;
 * TND_NO_DEADLINE: no limit.
 * @return -ETIMEDOUT; -TND_EPEER no connection is left. *seen is then as it was.
 */
TND_API TND_NODISCARD tnd_status o2g_poll_for(uint64_t *seen, uint64_t timeout_ns) TND_NOEXCEPT;

/** Ours: the number of the newest unexpected message; 0: none has come, or o2g_init() was not
 * called. What came up to it can be looked at. */
TND_API uint64_t o2g_sequence(void) TND_NOEXCEPT;

/**
 * Ours: walk the unexpected messages, oldest first. An entry is there from the arrival of its
 * header on; O2G_RECEIVED comes later.
 * @param after NULL: the first one. Thread safety: of all threads that walk and free, one at a
 * time.
 * @return NULL: there is no other, or o2g_init() was not called.
 */
TND_API struct queue_entry *o2g_next_entry(const struct queue_entry *after) TND_NOEXCEPT;

/**
 * Ours: the oldest unexpected message that matches, by hash and not by a walk; it is claimed:
 * nobody is given it again. Free it when it has been received and read. `expected` is as for
 * o2g_put_entry(); where nothing is found its `sequence` is set for that.
 * @param found [out] @return -ENOENT nothing matches; -EINVAL.
 */
TND_API TND_NODISCARD tnd_status o2g_find_entry(struct queue_entry *expected,
                                                struct queue_entry **found) TND_NOEXCEPT;

/** Ours: an entry's flags; of NULL none. What came before a flag was set can be read after it was
 * seen. */
TND_API uint32_t o2g_entry_flags(const struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Ours: how the connection of a rank is.
 * @return TND_OK it is read; -ENOENT no such rank; -TND_EPEER it has ended or broken; -EPROTO what
 * came were no messages.
 */
TND_API TND_NODISCARD tnd_status o2g_rank_status(int rank) TND_NOEXCEPT;

/** Ours. -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status o2g_get_statistics(struct o2g_statistics *statistics) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
