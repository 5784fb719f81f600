/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR Apache-2.0 */
/* tanada/o2g_driver.h: the interface of the driver o2g.ko, /dev/o2g. Programs use tanada/o2g.h,
 * whose functions call the driver if it is loaded. Linux 6.1 and newer, 64-bit processors.
 *
 * An open of /dev/o2g is one context: the queues of one process. O2G_IOC_INIT binds the context to
 * the address space that calls it. Every other call from another address space, such as that of a
 * child after fork(), fails with EPERM.
 *
 * The driver describes each entry in a slot. Slots are in kernel memory that the process maps: the
 * driver writes them in the protocol handler without touching memory of the process, and a process
 * reads the state of an entry without a system call. The driver never reads what a process may
 * write there. */
#ifndef TANADA_O2G_DRIVER_H
#define TANADA_O2G_DRIVER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define O2G_DRIVER_ABI 3           /**< changes when a structure or the meaning of a call changes */
#define O2G_DRIVER_PATH "/dev/o2g" /**< the device of the driver */

#define O2G_CHUNK_SLOT_COUNT 1024 /**< slots are created in chunks of this many */
#define O2G_CHUNK_COUNT_MAX 4096  /**< chunks of a context */
#define O2G_SLOT_NONE (~(__u32)0) /**< no slot */

/** One entry. 64 bytes. `flags` are those of tanada/o2g.h: O2G_QUEUED, O2G_MATCHED, O2G_RECEIVED,
 * O2G_TRUNCATED, O2G_FAILED, O2G_UNEXPECTED, O2G_CLAIMED. The driver stores them last, with release
 * semantics. After O2G_RECEIVED or O2G_FAILED it writes the slot no more, until the slot is put
 * again or freed. */
struct o2g_slot {
  __u32 flags;         /**< as above */
  __s32 source;        /**< after O2G_MATCHED: the sender's rank */
  __s32 tag;           /**< after O2G_MATCHED: the message's tag */
  __u32 context;       /**< after O2G_MATCHED: the message's context */
  __s32 error;         /**< with O2G_FAILED: -EPIPE the connection ended, -EPROTO invalid header,
                          -EFAULT the buffer cannot be written */
  __u32 reserved;      /**< 0, or o2g_slot_envelope_flags */
  __u64 message_size;  /**< after O2G_MATCHED: bytes of the message */
  __u64 received_size; /**< bytes at the entry's buffer; final with O2G_RECEIVED or O2G_FAILED */
  __u64 sequence;      /**< unexpected: the number of the message: 1, 2, ... */
  __u64 dump_offset;   /**< unexpected: bytes from the start of the dump area to the message */
  __u64 connection;    /**< after O2G_MATCHED: the rank of its socket in O2G_IOC_REGISTER */
};
/* In a context with O2G_BIND_ENVELOPES, after O2G_MATCHED: `source` is the peer, `context` and
 * `tag` are the upper and lower half of the tag, and these fields have another meaning. */
#define o2g_slot_envelope_flags reserved /**< flags of the envelope */
#define o2g_slot_envelope_data sequence  /**< data that the sender added to the message */
#define o2g_slot_envelope_id dump_offset /**< the number that an acknowledgement refers to */

/** The first page of the mapping. The driver stores `event_count` with release semantics after what
 * it counts: after the slot's flags, after `open_count`. An unexpected message increases
 * `unclaimed_count` before its number is stored in `sequence`, with release semantics: a process
 * that loads `sequence` and then 0 from `unclaimed_count` has examined all messages up to it. */
struct o2g_shared {
  __u32 abi;             /**< O2G_DRIVER_ABI of the driver */
  __u32 open_count;      /**< registered sockets whose connection has not ended */
  __u64 event_count;     /**< messages received, entries failed, connections ended */
  __u64 sequence;        /**< number of the newest unexpected message; 0: there was none */
  __u32 unclaimed_count; /**< unexpected messages that O2G_IOC_FIND has not returned */
  __u32 pending_count;   /**< sockets that wait for a thread of the process: O2G_IOC_DUMP */
  __u32 blocked_count;   /**< sockets whose message waits for memory of the dump area, or, with
                            O2G_BIND_ENVELOPES, for a receive or a read */
  __u32 readable_count;  /**< sockets that O2G_IOC_READABLE returns */
  __u64 completed_count; /**< numbers of slots that were written to the ring */
  __u32 reserved[2];     /**< 0 */
};

/** mmap() offsets: 0 is struct o2g_shared, one page; chunk k of slots is at (k + 1) *
 * O2G_CHUNK_SIZE, O2G_CHUNK_SIZE bytes; the ring is at O2G_RING_OFFSET, O2G_RING_SIZE bytes. All
 * PROT_READ, or with PROT_WRITE; MAP_SHARED. */
#define O2G_CHUNK_SIZE (O2G_CHUNK_SLOT_COUNT * 64)

/** The ring of a context with O2G_BIND_ENVELOPES: the numbers of the slots whose entries were
 * received or have failed, as __u32, in that order. `completed_count` % O2G_RING_COUNT is where the
 * next one is written. A process that has more entries in the driver overwrites its own ring. */
#define O2G_RING_COUNT 65536
/** Bytes of the ring. */
#define O2G_RING_SIZE (O2G_RING_COUNT * 4)
/** Offset of the ring for mmap(). */
#define O2G_RING_OFFSET ((O2G_CHUNK_COUNT_MAX + 1) * (__u64)O2G_CHUNK_SIZE)

/** The messages are those of libo2g-fi.so: an envelope of 48 bytes, see kernel/o2g/envelope.h, and
 * a body. The driver receives tagged messages that match an entry. It leaves all others in their
 * socket, until an entry matches or the process reads them by O2G_IOC_READ. There is no dump area.
 * O2G_IOC_PUT, O2G_IOC_FIND, O2G_IOC_NEXT, O2G_IOC_FREE and O2G_IOC_SET_DUMP_AREA fail with
 * EOPNOTSUPP, and without the flag the calls below that are for envelopes do. */
#define O2G_BIND_ENVELOPES 1

/** For O2G_IOC_INIT. */
struct o2g_binding {
  __u32 abi;          /**< in: O2G_DRIVER_ABI; out: the driver's */
  __u32 flags;        /**< 0 or O2G_BIND_ENVELOPES */
  __u32 socket_count; /**< in: the largest number of sockets, at most O2G_SOCKET_COUNT_MAX */
  __u32 reserved;     /**< 0 */
};

/** For O2G_IOC_REGISTER: the socket of a rank. */
struct o2g_register {
  __s32 socket;   /**< a connected TCP socket of this process */
  __s32 rank;     /**< 0 or more */
  __u32 peer;     /**< with O2G_BIND_ENVELOPES: the source of its messages; several sockets may have
                     the same; otherwise 0 */
  __u32 reserved; /**< 0 */
};

/** For O2G_IOC_SET_DUMP_AREA: memory for unexpected messages. */
struct o2g_dump_area {
  __u64 address;     /**< in: of `size` bytes of the process */
  __u64 size;        /**< in: at least 1 KiB */
  __u64 pinned_size; /**< out: bytes from the start that the protocol handler can write */
};

/** For O2G_IOC_GROW: create a chunk of slots. */
struct o2g_grow {
  __u32 kind;  /**< in: O2G_CHUNK_EXPECTED. Chunks for unexpected messages are the driver's. */
  __u32 chunk; /**< out: its number; its slots are chunk * O2G_CHUNK_SLOT_COUNT and following */
};
#define O2G_CHUNK_EXPECTED 1 /**< a chunk of slots for expected entries */

/** For O2G_IOC_PUT: an expected entry. */
struct o2g_put {
  __u32 slot;     /**< a slot of a chunk of kind O2G_CHUNK_EXPECTED that is not in use */
  __s32 source;   /**< a rank or O2G_ANY_SOURCE */
  __s32 tag;      /**< a tag or O2G_ANY_TAG */
  __u32 context;  /**< compared exactly */
  __u64 address;  /**< of the buffer */
  __u64 size;     /**< bytes */
  __u64 sequence; /**< as in struct queue_entry */
};

/** For O2G_IOC_PUT_MESSAGE: an expected entry of a context for envelopes. */
struct o2g_put_message {
  __u32 slot;     /**< as in struct o2g_put */
  __u32 flags;    /**< 0 or O2G_PUT_MATCH_ONLY */
  __u64 tag;      /**< compared except for `ignore` */
  __u64 ignore;   /**< bits of the tag that are not compared */
  __u32 source;   /**< a peer, or O2G_ANY_PEER */
  __u32 reserved; /**< 0 */
  __u64 address;  /**< of the buffer */
  __u64 size;     /**< bytes */
};
/** A message that matches the entry first is left to the process: it reads it by O2G_IOC_READ, and
 * removes the entry by O2G_IOC_CANCEL. */
#define O2G_PUT_MATCH_ONLY 1
#define O2G_ANY_PEER (~(__u32)0) /**< messages of every peer match */

/** For O2G_IOC_READABLE. */
struct o2g_readable {
  __u64 address;  /**< in: of `count` numbers, __u32 */
  __u32 count;    /**< in: 1 or more; out: how many were stored */
  __u32 reserved; /**< 0 */
};

/** For O2G_IOC_READ. */
struct o2g_read {
  __s32 rank;       /**< of the socket */
  __u32 part_count; /**< 1 or 2 */
  struct {
    __u64 address; /**< of the part */
    __u64 size;    /**< bytes */
  } parts[2];      /**< memory of the process, filled in this order */
  __u64 read_size; /**< out: bytes; 0: the connection has ended */
};

/** For O2G_IOC_ARM. */
struct o2g_arm {
  __u64 event_count; /**< poll() returns POLLIN as soon as the context's differs from it */
  __u64 quiet_size;  /**< bytes of messages that do not count for it, see O2G_IOC_ARM; 0: none */
};
#define O2G_QUIET_OVERHEAD 512 /**< added to the bytes of each of these messages */

/** For O2G_IOC_FIND. */
struct o2g_find {
  __s32 source;   /**< in */
  __s32 tag;      /**< in */
  __u32 context;  /**< in */
  __u32 slot;     /**< out */
  __u64 sequence; /**< out, with ENOENT: the newest message that was examined */
};

/** For O2G_IOC_NEXT. */
struct o2g_next {
  __u32 after; /**< in: a slot of an unexpected message, O2G_SLOT_NONE: return the oldest */
  __u32 slot;  /**< out: O2G_SLOT_NONE: there is no newer one */
};

/** For O2G_IOC_WAIT. */
struct o2g_wait {
  __u64 event_count; /**< in: the count that the caller has seen; out: the new one */
  __u64 timeout_ns;  /**< relative; ~0: unlimited */
};

/** Counters, those of struct o2g_statistics and bytes. */
struct o2g_counters {
  __u32 socket_count;     /**< registered sockets whose connection has not ended */
  __u32 blocked_count;    /**< of these, sockets that are not read */
  __u32 thread_count;     /**< dumper threads */
  __u32 reserved;         /**< 0 */
  __u64 expected_count;   /**< expected entries in the queue */
  __u64 unexpected_count; /**< unexpected entries in the dump area */
  __u64 dump_free_size;   /**< free bytes of the dump area, not contiguous */
  __u64 received_count;   /**< messages received completely */
  __u64 race_count;       /**< O2G_IOC_PUT and O2G_IOC_CANCEL that failed with EAGAIN */
  __u64 handler_size;     /**< bytes copied in the protocol handler */
  __u64 worker_size;      /**< bytes copied by the driver's work queue */
  __u64 dumper_size;      /**< bytes copied by threads of the process */
  __u64 pinned_size;      /**< bytes of memory that are pinned now */
};

#define O2G_IOC_MAGIC 0xA9 /**< the type of all calls below */
/* Errors of every call: EPERM another address space; ENOTTY no such call; EFAULT; EINVAL; ENXIO
 * before O2G_IOC_INIT. */
/** Bind the context. EPROTONOSUPPORT: another ABI; EBUSY: already bound; ENOMEM. */
#define O2G_IOC_INIT _IOWR(O2G_IOC_MAGIC, 0, struct o2g_binding)
/** EBADF; EINVAL not a connected stream socket, or a negative rank; EOPNOTSUPP a stream socket that
 * the driver cannot read: not TCP, MPTCP, TLS; EEXIST the rank has or had a socket; EMFILE too
 * many; EBUSY another part of the kernel or another context reads the socket. */
#define O2G_IOC_REGISTER _IOW(O2G_IOC_MAGIC, 1, struct o2g_register)
/** EBUSY an area is set; EINVAL; ENOMEM. */
#define O2G_IOC_SET_DUMP_AREA _IOWR(O2G_IOC_MAGIC, 2, struct o2g_dump_area)
/** The calling thread becomes a dumper thread until O2G_IOC_STOP. 0 after O2G_IOC_STOP; EINTR a
 * signal: call again; EMFILE too many threads. */
#define O2G_IOC_DUMP _IO(O2G_IOC_MAGIC, 3)
/** All dumper threads return 0, and so do later ones. */
#define O2G_IOC_STOP _IO(O2G_IOC_MAGIC, 4)
/** Create a chunk of slots. ENOMEM; EINVAL another kind, or too many chunks. */
#define O2G_IOC_GROW _IOWR(O2G_IOC_MAGIC, 5, struct o2g_grow)
/** EAGAIN a matching unclaimed message arrived after `sequence`; EPIPE, EPROTO the source's
 * connection has ended; EINVAL the slot is in use. Without one of these, the slot's flags are those
 * of the entry when the call returns. */
#define O2G_IOC_PUT _IOW(O2G_IOC_MAGIC, 6, struct o2g_put)
/** Takes the number of the slot as its value. EAGAIN too late; EINVAL not in the queue. */
#define O2G_IOC_CANCEL _IO(O2G_IOC_MAGIC, 7)
/** ENOENT no message matches. The message is claimed. */
#define O2G_IOC_FIND _IOWR(O2G_IOC_MAGIC, 8, struct o2g_find)
/** Iterate over the unexpected messages, oldest first. */
#define O2G_IOC_NEXT _IOWR(O2G_IOC_MAGIC, 9, struct o2g_next)
/** Takes the number of the slot as its value. EBUSY the message is still being received. */
#define O2G_IOC_FREE _IO(O2G_IOC_MAGIC, 10)
/** Sleep until event_count differs. ETIMEDOUT; EINTR; EPIPE no connection is open. */
#define O2G_IOC_WAIT _IOWR(O2G_IOC_MAGIC, 11, struct o2g_wait)
/** Takes the rank as its value. ENOENT it has no socket; EPIPE, EPROTO it has ended. */
#define O2G_IOC_RANK_STATUS _IO(O2G_IOC_MAGIC, 12)
/** Read the counters. */
#define O2G_IOC_COUNTERS _IOR(O2G_IOC_MAGIC, 13, struct o2g_counters)
/** Takes an eventfd, which the driver signals when event_count changes, and when a socket waits for
 * a thread of the process although there is no dumper thread; -1: none. poll() returns POLLIN if
 * O2G_IOC_WAIT would not sleep. O2G_IOC_ARM with a quiet_size changes both. */
#define O2G_IOC_EVENTFD _IO(O2G_IOC_MAGIC, 14)
/* Calls for envelopes. */
/** EINVAL the slot is in use. A message that waits in its socket and matches is received first. */
#define O2G_IOC_PUT_MESSAGE _IOW(O2G_IOC_MAGIC, 16, struct o2g_put_message)
/** The ranks of sockets with bytes for the process, the one that waits longest first. They are not
 * returned again before they were read, or more bytes arrive. */
#define O2G_IOC_READABLE _IOWR(O2G_IOC_MAGIC, 17, struct o2g_readable)
/** Read whole envelopes and bodies that the driver does not receive. Messages between them that
 * match an entry are received by the driver. Does not wait. EAGAIN there are no bytes for the
 * process; ENOENT no such rank; EINVAL the first part has less than 48 bytes where an envelope
 * follows; EFAULT, and the connection ends. */
#define O2G_IOC_READ _IOWR(O2G_IOC_MAGIC, 18, struct o2g_read)
/** Takes the rank as its value. Release its socket, whose unread bytes stay there. An entry that is
 * being received fails with EPIPE. When the call returns, the driver writes nothing for this
 * connection any more. ENOENT no such rank. */
#define O2G_IOC_DETACH _IO(O2G_IOC_MAGIC, 19)
/** poll() returns POLLIN as soon as event_count differs from the given one, or if a socket is
 * readable. Before the first call it is that of the last return of O2G_IOC_WAIT. Messages of
 * `quiet_size` bytes together may be received without this, if their senders do not wait for an
 * acknowledgement: for a process that does not wait for its receives. The next such message ends
 * it, and so do O2G_IOC_WAIT and an event that happened before the call. */
#define O2G_IOC_ARM _IOW(O2G_IOC_MAGIC, 20, struct o2g_arm)

/** Detach all sockets, unpin all memory and do as O2G_IOC_STOP, although a child of fork() may
 * still hold the file. When the call returns, the driver writes no memory of the process any more,
 * and no slot. Slots keep their last state. Later calls fail with ENXIO, but O2G_IOC_DUMP returns
 * 0. */
#define O2G_IOC_FINI _IO(O2G_IOC_MAGIC, 15)

#endif
