/* tanada/o2g.h: MPI receive queues over a program's own connected sockets. C11 and C++20.
 *
 * The API is that of the paper: Matsuda, Ishikawa, Kudoh, Tezuka, "The Design and Implementation of
 * Kernel API for MPI Communication Model", sections 4.1 to 4.6. Its names are those of the paper.
 * Additions are marked "Addition".
 *
 * A message is matched when it arrives. The library reads the sockets, in the process or with the
 * driver o2g.ko (docs/o2g_calls.md). The program itself writes to them (6.3), and sends a struct
 * o2g_header before each payload. The state belongs to the process: the child of fork() has none.
 */
#ifndef TANADA_O2G_H
#define TANADA_O2G_H

#include <stddef.h>

#include "status.h"

TND_EXTERN_C_BEGIN

#define O2G_MAGIC 0x3147324Fu /**< "O2G1": the first bytes of every message */
#define O2G_MESSAGE_SIZE_MAX \
  (UINT64_C(1) << 40) /**< bytes of one message; a header with more ends its connection */
#define O2G_SOCKET_COUNT_MAX 65536 /**< upper bound of n_socks in o2g_init() */
#define O2G_THREAD_COUNT_MAX 64    /**< threads of all calls of o2g_start_dumper_thread() */

#define O2G_ANY_SOURCE (-1) /**< queue_entry.source: any rank */
#define O2G_ANY_TAG (-1)    /**< queue_entry.tag: any tag, of the entry's context */

/** The header that a sender writes before each payload. Little-endian. */
struct o2g_header {
  uint32_t magic;    /**< O2G_MAGIC */
  int32_t source;    /**< the sender's rank, as registered by the receiver */
  int32_t tag;       /**< 0 or more */
  uint32_t context;  /**< a communicator, which must be equal to match */
  uint64_t size;     /**< bytes of payload after the header, at most O2G_MESSAGE_SIZE_MAX */
  uint64_t reserved; /**< 0 */
};

/** Flags of an entry. */
enum {
  O2G_QUEUED = 1,   /**< the expected entry is in the queue */
  O2G_MATCHED = 2,  /**< a message has matched; see source, tag, message_size */
  O2G_RECEIVED = 4, /**< the paper's flag: the whole message has been received */
  O2G_TRUNCATED =
      8, /**< with O2G_RECEIVED: the message was larger than the buffer; the rest was dropped */
  O2G_FAILED = 16, /**< the connection ended before the whole message was received; see `status` */
  O2G_UNEXPECTED = 32, /**< the entry is in the dump area */
  O2G_CLAIMED = 64     /**< o2g_find_entry() has returned it */
};

/** An entry of one of the two queues (the paper, 3.1). Start from O2G_ENTRY_INIT. */
struct queue_entry {
  uint32_t struct_size; /**< sizeof(struct queue_entry) */
  uint32_t flags;       /**< written by the library; read with o2g_entry_flags() */
  int32_t source;       /**< expected: a rank or O2G_ANY_SOURCE; after O2G_MATCHED: the message's */
  int32_t tag;          /**< expected: a tag or O2G_ANY_TAG; after O2G_MATCHED: the message's */
  uint32_t context;     /**< expected: the context to match; unexpected: the message's context */
  tnd_status status;    /**< with O2G_FAILED: -TND_EPEER, -EPROTO, -EFAULT (driver: see `data`) */
  void *data;    /**< expected: the caller's buffer; unexpected: the message in the dump area.
                    Memory that cannot be written fails the entry and ends its connection if the
                    driver receives; otherwise the behavior is undefined. */
  uint64_t size; /**< bytes at `data` */
  uint64_t message_size;  /**< bytes of the message */
  uint64_t received_size; /**< with O2G_RECEIVED or O2G_FAILED: bytes of the message that are at
                             `data` */
  uint64_t sequence; /**< unexpected: its number, 1, 2, ...; expected: the newest number that the
                        caller has examined */
  void *user;        /**< for the caller's use */
  uint64_t reserved[12]; /**< for the library's use */
};

/** The initial value of struct queue_entry. */
#define O2G_ENTRY_INIT \
  {sizeof(struct queue_entry), 0, O2G_ANY_SOURCE, O2G_ANY_TAG, 0, 0, 0, 0, 0, 0, 0, 0, {0}}

/** Addition: counters. */
struct o2g_statistics {
  uint32_t struct_size;      /**< in: sizeof(struct o2g_statistics) */
  uint32_t socket_count;     /**< registered sockets whose connection has not ended */
  uint32_t blocked_count;    /**< of these, sockets not being read because the dump area is full */
  uint32_t thread_count;     /**< threads started by o2g_start_dumper_thread() */
  uint64_t expected_count;   /**< expected entries in the queue */
  uint64_t unexpected_count; /**< unexpected entries in the dump area */
  uint64_t dump_free_size;   /**< free bytes of the dump area, not contiguous */
  uint64_t received_count;   /**< messages received completely */
  uint64_t race_count;       /**< o2g_put_entry() and o2g_cancel_entry() that returned -EAGAIN */
};

/* Every call that returns a status returns -TND_ESTATE before o2g_init() and after o2g_fini(), and
 * -EINVAL for a NULL argument. tnd_last_message() returns the reason. Thread safety: any thread,
 * unless a call documents otherwise. Only o2g_poll() and o2g_poll_for() wait for a message.
 *
 * A connection ends when the peer closes it, when it fails, or when an invalid header arrives. The
 * library then closes only its duplicate of the descriptor. After an invalid header, the TCP
 * connection therefore stays open, but is not read, until the program closes its own descriptor.
 *
 * When a connection ends, these entries get O2G_FAILED: queued entries with this rank as source,
 * and the entry whose message was being received. Entries with O2G_ANY_SOURCE stay in the queue,
 * even when all connections have ended. o2g_poll() then returns -TND_EPEER, and the program cancels
 * them. */

/**
 * Initialize the library. The environment variable TND_O2G_DRIVER selects who receives: "auto" the
 * driver /dev/o2g if it can be used, otherwise the process; "required" the driver; "off" the
 * process.
 * @param n_socks the largest number of sockets to register, from 1 to O2G_SOCKET_COUNT_MAX.
 * @return -EBUSY the library is already initialized; -EINVAL; -ENOMEM; -EMFILE; -ENODEV
 * TND_O2G_DRIVER=required, and the driver cannot be used: tnd_last_message() has the reason.
 */
TND_API TND_NODISCARD tnd_status o2g_init(int n_socks) TND_NOEXCEPT;

/**
 * Addition: shut the library down. Joins the dumper threads, removes the entries from the queue,
 * and frees those in the dump area. The area belongs to the program again. The sockets stay open,
 * but bytes already read from them are lost.
 *
 * An entry in the queue loses O2G_QUEUED and gets no other flag. An entry whose message was being
 * received keeps O2G_MATCHED without O2G_RECEIVED. The program must set such an entry to
 * O2G_ENTRY_INIT before it is put again. Thread safety: no other call may be in progress.
 */
TND_API TND_NODISCARD tnd_status o2g_fini(void) TND_NOEXCEPT;

/**
 * Register a socket, which is connected to the process with this rank. The library reads it from
 * now on.
 *
 * Ownership: the program keeps the descriptor, writes to it, and must not read from it. The socket
 * may be blocking or non-blocking. The program may close the descriptor, because the library reads
 * a duplicate. TCP sockets get TCP_NODELAY, and options that detect a dead peer within 45 s.
 *
 * The driver reads plain TCP sockets only: no UNIX sockets, no MPTCP, no TLS of the kernel. With
 * TND_O2G_DRIVER=auto the first socket decides: if it is another one, the process receives from all
 * sockets.
 *
 * A rank cannot get another socket before o2g_fini(), even after its connection has ended.
 * @return -EBADF, -EINVAL not a connected stream socket, or a negative rank; -EEXIST the rank
 * already has or had a socket; -EMFILE n_socks sockets were registered, including ended ones;
 * -EOPNOTSUPP the driver receives, and cannot read this socket: set TND_O2G_DRIVER=off; -EBUSY the
 * driver receives, and another part of the kernel or another registration reads this socket.
 */
TND_API TND_NODISCARD tnd_status o2g_register_socket(int sock, int rank) TND_NOEXCEPT;

/**
 * Set the memory for unexpected messages: `size` bytes, of which each message takes its own size
 * and some 500 more.
 *
 * When the area is full, the library stops reading a socket whose next message is unexpected. It
 * continues when o2g_free_entry() has freed enough memory, or when a matching entry is put. Until
 * then the sender's writes wait, and no message is lost. The waiting message has no entry:
 * o2g_find_entry() and o2g_next_entry() do not return it, and it causes no -EAGAIN.
 *
 * This can be a deadlock: a receiver waits without end for a message that follows one that does not
 * fit. The area must hold all messages that the peers may send before they are expected (the paper,
 * 4.1). A message larger than the area is only received into a matching entry. Without this call
 * the area is empty. In addition the library holds up to 64 KiB for each socket that is not read.
 * Ownership: the library owns the area until o2g_fini().
 * @return -EINVAL too small: at least 1 KiB is needed; -EBUSY an area is already set.
 */
TND_API TND_NODISCARD tnd_status o2g_set_dump_area(void *area, size_t size) TND_NOEXCEPT;

/**
 * Start `n_thrds` more threads, which receive while the program does not call. They sleep in the
 * kernel while no message arrives. Only one of them receives at a time, so a second one does not
 * increase speed. Without threads, messages are received only in o2g_poll(), o2g_poll_for(),
 * o2g_put_entry() and o2g_find_entry().
 * @return -EINVAL the total is not from 0 to O2G_THREAD_COUNT_MAX; -ENOMEM the system cannot create
 * a thread. The threads created before that one run; see thread_count of o2g_get_statistics().
 */
TND_API TND_NODISCARD tnd_status o2g_start_dumper_thread(int n_thrds) TND_NOEXCEPT;

/**
 * Put an expected entry into the queue. The first matching message, in MPI's order, is received
 * directly into the entry's buffer.
 *
 * Inputs: source, tag, context, data, size, sequence. `sequence` is the number of the newest
 * unexpected message that the caller has examined: the value that o2g_sequence() returned before,
 * or that o2g_find_entry() has stored; 0: the caller has examined none. The rank need not have a
 * socket yet: the entry then waits in the queue until one is registered and a message matches.
 *
 * An entry with O2G_RECEIVED or O2G_FAILED may be put again; the call clears its flags and status.
 * The program sets source, tag and sequence first, because the message has overwritten source and
 * tag. Ownership: the library owns the entry and its buffer until o2g_entry_flags() has returned
 * O2G_RECEIVED or O2G_FAILED, until a successful cancel, or until o2g_fini().
 * @return TND_OK   the entry is in the queue, or has already matched.
 *         -EAGAIN  a matching unexpected message that is not claimed has arrived after `sequence`:
 *                  the race of section 4.6. The entry is not in the queue: search again.
 *         -TND_EPEER, -EPROTO  the source's connection has ended.
 *         -EINVAL  the entry is invalid, or already in use.
 */
TND_API TND_NODISCARD tnd_status o2g_put_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Remove an expected entry from the queue.
 * @return TND_OK   the entry belongs to the caller again and has no message.
 *         -EAGAIN  too late: a message has matched, or the connection has ended; see the flags.
 *         -EINVAL  the entry is not in the queue.
 */
TND_API TND_NODISCARD tnd_status o2g_cancel_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Free the memory of an unexpected message. Sockets that waited for memory are read again.
 * @return -EBUSY the message is still being received: neither O2G_RECEIVED nor O2G_FAILED is set;
 * -EINVAL the entry is not in the dump area.
 */
TND_API TND_NODISCARD tnd_status o2g_free_entry(struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Block until a message has been received since the last o2g_poll() of this process returned. A
 * program with one thread that checks the flags between two calls therefore misses no message. A
 * message for which one thread returns is not reported to the others. The end of a connection and
 * an entry that fails count as messages. There is no timeout: see o2g_poll_for().
 * @return -TND_EPEER no connection is open: none was registered yet, or all have ended. Messages
 * since the last return are first reported by one TND_OK.
 */
TND_API TND_NODISCARD tnd_status o2g_poll(void) TND_NOEXCEPT;

/**
 * Addition: o2g_poll() for several threads and with a timeout.
 * @param event_count [in, out] initially 0; each thread has its own, and so misses no message.
 * @param timeout_ns nanoseconds, relative; 0: receive the messages that have arrived, without
 * waiting; TND_NO_DEADLINE: unlimited.
 * @return -ETIMEDOUT; -TND_EPEER as for o2g_poll(). *event_count is then unchanged.
 */
TND_API TND_NODISCARD tnd_status o2g_poll_for(uint64_t *event_count,
                                              uint64_t timeout_ns) TND_NOEXCEPT;

/** Addition: the number of the newest unexpected message; 0: there was no such message, or
 * o2g_init() was not called. All messages up to this number can be examined. */
TND_API uint64_t o2g_sequence(void) TND_NOEXCEPT;

/**
 * Addition: iterate over the unexpected messages, claimed ones included, oldest first. An entry
 * exists as soon as its header has arrived; O2G_RECEIVED is set later.
 * @param after the previous entry; NULL: return the first one. Thread safety: only one thread at a
 * time may iterate or free entries.
 * @return NULL: there is no further entry, or o2g_init() was not called.
 */
TND_API struct queue_entry *o2g_next_entry(const struct queue_entry *after) TND_NOEXCEPT;

/**
 * Addition: find the oldest matching unexpected message by hash, and claim it: it is not returned
 * again. The caller frees it after it has been received and read. `expected` is as for
 * o2g_put_entry(). If no message matches, the call sets `expected->sequence` for o2g_put_entry().
 *
 * A message whose connection ended is still found, with O2G_FAILED. The first received_size bytes
 * are valid, and the caller frees it, too.
 * @param match [out] the entry of the message.
 * @return -ENOENT no message matches; -EINVAL.
 */
TND_API TND_NODISCARD tnd_status o2g_find_entry(struct queue_entry *expected,
                                                struct queue_entry **match) TND_NOEXCEPT;

/** Addition: the flags of an entry; 0 for NULL. A caller that has seen a flag can read everything
 * that was written before the flag was set. The fields that a flag announces are undefined until
 * this call has returned the flag. */
TND_API uint32_t o2g_entry_flags(const struct queue_entry *entry) TND_NOEXCEPT;

/**
 * Addition: the status of a rank's connection.
 * @return TND_OK it is open; -ENOENT the rank has no socket; -TND_EPEER it has ended; -EPROTO it
 * ended because of an invalid header.
 */
TND_API TND_NODISCARD tnd_status o2g_rank_status(int rank) TND_NOEXCEPT;

/** Addition: read the counters. -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status o2g_get_statistics(struct o2g_statistics *statistics) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
