/* tanada/pool.h: the client API of the memory pool. C11 and C++20.
 *
 * The paper: Onishi et al., "Acceleration of I/O data transfer with RDMA for massively large-scale
 * GPU simulation", section 2: the original I/O API, between a program and a daemon that owns a
 * memory pool on a storage node.
 *
 * For every call:
 *   Threads:  any thread. Calls on one connection exclude each other, also while one of them waits;
 *             connect once for each thread to avoid that.
 *   Units:    sizes and offsets are in bytes.
 *   Breaks:   when a connection breaks, operations in flight fail with -TND_EPEER. The next call
 *             that takes a tnd_pool and needs the daemon connects again, once. A call with a handle
 *             does not: it returns -ESTALE for every handle that was opened before the break. Only
 *             tnd_pool_get_info() and tnd_pool_close() still work; each handle must be closed.
 *             In a cluster, reads go on at another server: calls and posted requests that only read
 *             are repeated there, and an object that is open for reading is opened again.
 *   Timeouts: after -ETIMEDOUT the handles stay usable, unless the timeout broke the connection.
 *             It breaks if tnd_pool_create(), tnd_pool_open(), a posted request, a fabric transfer
 *             or the first use of a segment times out, or a request that was partly sent.
 *   Shared memory: writes within an object's size, and reads of committed objects, await no reply.
 *             Their TND_OK does not prove that the daemon is alive. If the daemon lost the
 *             connection and continues, it may reuse the memory of a replaced or removed object.
 *             Reads and views then show other bytes.
 *
 * In addition to the statuses that are documented with them, calls return:
 *   -EINVAL: a NULL, an unknown flag, or a wrong struct_size.
 *   -ENAMETOOLONG: a name exceeds TND_POOL_NAME_SIZE_MAX.
 *   -ENOENT: there is no such object.
 *   -EACCES: a change with a key that allows only reading.
 *   -ESTALE: the handle's connection broke or ended.
 *   -EIO: the object's bytes were lost because part of the pool's backing file is gone.
 *   -TND_EPEER, -ETIMEDOUT: it is not known whether the daemon carried out the call.
 * tnd_last_message() has the reason. */
#ifndef TANADA_POOL_H
#define TANADA_POOL_H

#include "status.h"

TND_EXTERN_C_BEGIN

/** A connection to one namespace of a pool. */
typedef struct tnd_pool tnd_pool;

/** An open object: being written (tnd_pool_create) or committed (tnd_pool_open). */
typedef struct tnd_pool_object tnd_pool_object;

#define TND_POOL_NAME_SIZE_MAX \
  512 /**< bytes of an object's, a set's or a namespace's name, without the terminating 0 */
#define TND_POOL_DEFAULT_PORT 7440 /**< of TCP, if the URL has no port */

/** How bytes travel between this process and the pool. */
typedef enum tnd_pool_path {
  TND_POOL_PATH_SHARED_MEMORY = 0, /**< both processes map the pool's memory; this one copies */
  TND_POOL_PATH_UNIX = 1,          /**< through a UNIX socket */
  TND_POOL_PATH_TCP = 2,           /**< through TCP */
  TND_POOL_PATH_RDMA = 3, /**< the daemon reads and writes this process's memory over a fabric */
  TND_POOL_PATH_GPU_DIRECT =
      4, /**< device memory: its GPU copies from and to the mapping, or RDMA accesses it */
  TND_POOL_PATH_FABRIC =
      5, /**< as RDMA, with a provider that copies in software, such as tcp;ofi_rxm */
  TND_POOL_PATH_NONE = 255 /**< no bytes were moved */
} tnd_pool_path;
#define TND_POOL_PATH_COUNT 6 /**< all paths but TND_POOL_PATH_NONE are smaller */

/** The kind of memory that a buffer of the caller is in. */
typedef enum tnd_pool_memory {
  TND_POOL_MEMORY_HOST = 0,
  TND_POOL_MEMORY_DEVICE = 1 /**< CUDA device memory of the configured device */
} tnd_pool_memory;

/** The algorithm of a checksum of an object's bytes. */
typedef enum tnd_pool_checksum {
  TND_POOL_CHECKSUM_NONE = 0,
  TND_POOL_CHECKSUM_CRC32C = 1, /**< in the low 32 bits */
  TND_POOL_CHECKSUM_XXH3 = 2    /**< XXH3, 64 bits, seed 0 */
} tnd_pool_checksum;

/** Flags of objects, and of calls. */
enum {
  TND_POOL_EVICTABLE = 1,      /**< objects: a full pool may evict it, least recently used first */
  TND_POOL_PINNED = 2,         /**< objects: never evicted, even if TND_POOL_EVICTABLE is set */
  TND_POOL_DURABLE = 1 << 8,   /**< commits: return when the object is durable in the backing */
  TND_POOL_EXCLUSIVE = 1 << 9, /**< fail with -EEXIST if a committed object has the name */
  TND_POOL_VERIFY =
      1 << 10, /**< compare bytes with the checksum: the daemon at a commit, the client at a get */
  TND_POOL_KEEP = 1 << 11 /**< create: start with the bytes of the newest version, if any */
};

/** Flags of a connection. */
enum {
  TND_POOL_NO_NAMESPACE = 1, /**< the URL may lack a namespace: the connection then serves only
                                tnd_pool_list_namespaces(), tnd_pool_get_statistics() and the calls
                                on clusters, other requests return -EINVAL */
  TND_POOL_NO_RING = 2, /**< requests on the daemon's node use the UNIX socket, not a ring in shared
                           memory; TND_POOL_RING=auto|off */
  TND_POOL_NO_PREPARATION = 4 /**< the GPU that the process uses is not prepared for transfers when
                                 the connection is made, which may wait for running kernels */
};

/** Settings of a connection. Start from TND_POOL_CONFIG_INIT. An environment variable that is set
 * overrides the field. */
typedef struct tnd_pool_config {
  uint32_t struct_size;   /**< sizeof(tnd_pool_config) */
  uint32_t flags;         /**< TND_POOL_NO_NAMESPACE and further ones, or 0 */
  uint64_t timeout_ns;    /**< of calls without a timeout parameter, relative; TND_POOL_TIMEOUT */
  const char *key_file;   /**< the client's key, mode 0600; NULL: TND_POOL_KEY_FILE, or no key */
  const char *fabric;     /**< libfabric provider for RDMA; NULL: TND_POOL_FABRIC, or no fabric */
  uint32_t shared_memory; /**< 1: map the pool's memory if it is on this node; 0: never;
                             TND_POOL_SHARED_MEMORY=on|off */
  uint32_t device_index;  /**< CUDA device of TND_POOL_MEMORY_DEVICE; TND_POOL_DEVICE_INDEX */
} tnd_pool_config;

/** The default settings. */
#define TND_POOL_CONFIG_INIT {sizeof(tnd_pool_config), 0, 30000000000ull, 0, 0, 1, 0}

/** Properties of a connection. */
typedef struct tnd_pool_connection {
  uint32_t struct_size;   /**< in: sizeof(tnd_pool_connection) */
  uint32_t path;          /**< tnd_pool_path of host memory */
  uint32_t can_write;     /**< 0: the key allows reading only */
  uint32_t is_durable;    /**< 1: the backing holds durable commits */
  uint64_t sent_size;     /**< bytes of objects that this connection wrote */
  uint64_t received_size; /**< bytes of objects that this connection read */
  char reason[256]; /**< why the connection has no better path, one line; empty for the best path */
  uint32_t device_path; /**< tnd_pool_path of device memory; without TND_POOL_PATH_GPU_DIRECT its
                           bytes pass through host memory */
  uint32_t reserved;    /**< 0 */
} tnd_pool_connection;

/** Transfers over one path. */
typedef struct tnd_pool_path_traffic {
  uint64_t writes;       /**< transfers into the pool */
  uint64_t written_size; /**< bytes of `writes` */
  uint64_t reads;        /**< transfers out of the pool */
  uint64_t read_size;    /**< bytes of `reads` */
} tnd_pool_path_traffic;

/** Transfers of a connection, counted by the client. Failed transfers and those without bytes do
 * not count. */
typedef struct tnd_pool_traffic {
  uint32_t struct_size;                               /**< in: sizeof(tnd_pool_traffic) */
  uint32_t last_path;                                 /**< tnd_pool_path of the last transfer */
  uint32_t last_is_staged;                            /**< 1: it was staged, see staged_size */
  uint32_t reserved;                                  /**< 0 */
  tnd_pool_path_traffic by_path[TND_POOL_PATH_COUNT]; /**< by tnd_pool_path */
  uint64_t staged_size; /**< bytes of device memory that were copied through host memory */
  uint64_t maps;        /**< views of tnd_pool_map() */
  uint64_t mapped_size; /**< bytes of `maps`; reads through views are not counted */
} tnd_pool_traffic;

/** A committed object. */
typedef struct tnd_pool_info {
  uint64_t size;          /**< bytes */
  uint64_t version;       /**< of this commit; later commits in the pool have higher versions */
  uint64_t created_ns;    /**< of the commit, since 1970-01-01 UTC */
  uint64_t checksum;      /**< by checksum_kind */
  uint32_t checksum_kind; /**< tnd_pool_checksum */
  uint32_t
      flags; /**< TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_DURABLE if the object is durable */
} tnd_pool_info;

/** Counters of the daemon; sizes in bytes. */
typedef struct tnd_pool_statistics {
  uint32_t struct_size;        /**< in: sizeof(tnd_pool_statistics) */
  uint32_t client_count;       /**< connections */
  uint64_t capacity;           /**< of the pool */
  uint64_t used;               /**< of the pool, including objects being written */
  uint64_t object_count;       /**< committed objects of all namespaces */
  uint64_t space_used;         /**< bytes of this namespace */
  uint64_t space_object_count; /**< committed objects of this namespace */
  uint64_t space_quota;        /**< of this namespace; 0: no quota */
  /** Bytes of objects from clients. Clients report the bytes that they copy themselves at commits.
   */
  uint64_t written_size;
  /** Bytes of objects to clients. Clients report the bytes that they copy themselves at most once a
   * second with another message, and at the end of the connection. */
  uint64_t read_size;
  uint64_t commits;   /**< objects committed */
  uint64_t opens;     /**< objects opened for reading */
  uint64_t evictions; /**< objects evicted */
  uint64_t errors;    /**< requests that failed */
  uint64_t uptime_ns; /**< since the daemon started */
} tnd_pool_statistics;

/**
 * Connect to a namespace of a pool.
 *
 * @param url    [in]  pool://host[:port]/namespace; any text after the namespace is ignored.
 * @param config [in]  NULL: TND_POOL_CONFIG_INIT and the environment.
 * @param pool   [out] the connection; the caller disconnects it.
 *
 * @return TND_OK       connected; if there is a key, both sides are authenticated.
 * @return -EINVAL      the URL, config, environment variable or key file is malformed; the message
 * names it.
 * @return -EACCES      the daemon refused the key, or its own proof is wrong; or the key does not
 * allow the namespace.
 * @return -ENOSPC      the namespace is new, and the pool has the maximum number of namespaces.
 * @return -TND_EPEER   no daemon answers there, or the peer does not answer as a pool; the message
 * has the system's error.
 * @return -ETIMEDOUT   no answer within the timeout.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_connect(const char *url,
                                                  const tnd_pool_config *config,
                                                  tnd_pool **pool) TND_NOEXCEPT;

/** End the connection; objects being written are dropped. Its handles must still be closed: until
 * then, views of tnd_pool_map() last, and other calls with the handles return -ESTALE. NULL is a
 * no-op. Thread safety: no other call on the connection may be in progress. */
TND_API void tnd_pool_disconnect(tnd_pool *pool) TND_NOEXCEPT;

/** Get the properties of a connection. -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status
tnd_pool_get_connection(tnd_pool *pool, tnd_pool_connection *connection) TND_NOEXCEPT;

/** Get the client's counters, without a request to the daemon. They continue when the connection
 * broke and was established again. -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status tnd_pool_get_traffic(tnd_pool *pool,
                                                      tnd_pool_traffic *traffic) TND_NOEXCEPT;

/**
 * Register memory with the fabric once, so that transfers from and to it need no registration of
 * their own. Without a fabric this is a no-op.
 *
 * Ownership: the memory stays allocated until tnd_pool_unregister(), which takes its address, or
 * tnd_pool_disconnect().
 * @return TND_OK; -EEXIST: it overlaps registered memory; -ENOMEM, -EINVAL.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_register(tnd_pool *pool,
                                                   void *addr,
                                                   uint64_t size,
                                                   uint32_t memory) TND_NOEXCEPT;
/** Undo tnd_pool_register() of the memory at `addr`. */
TND_API TND_NODISCARD tnd_status tnd_pool_unregister(tnd_pool *pool, void *addr) TND_NOEXCEPT;

/** Request the counters of the daemon that the connection uses, in a cluster of one of its servers.
 * Without a namespace, those of the namespace are 0. */
TND_API TND_NODISCARD tnd_status
tnd_pool_get_statistics(tnd_pool *pool, tnd_pool_statistics *statistics) TND_NOEXCEPT;

/**
 * Begin an object. It is invisible to others before tnd_pool_commit().
 *
 * @param name   [in]  1 to TND_POOL_NAME_SIZE_MAX bytes without 0.
 * @param size   [in]  bytes; memory for them is reserved at once. Writes past the end enlarge the
 * object.
 * @param flags  [in]  TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_EXCLUSIVE, TND_POOL_KEEP.
 * @param set    [in]  NULL, or the name of the set that it commits with, see tnd_pool_set_commit().
 * @param object [out] closed by the caller.
 *
 * Bytes that are never written are 0. With TND_POOL_KEEP the size is at least that of the newest
 * version; tnd_pool_resize() makes it smaller. TND_POOL_EXCLUSIVE is checked by this call, and
 * again by tnd_pool_commit(). For an object of a set, only this call checks it.
 * @return TND_OK.
 * @return -ENOSPC      the pool or the quota is full, and nothing may be evicted.
 * @return -EACCES      the key allows only reading.
 * @return -EEXIST      with TND_POOL_EXCLUSIVE: a committed object has the name.
 * @return -EMFILE      too many handles.
 * @return -EINVAL      an argument is invalid.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_create(tnd_pool *pool,
                                                 const char *name,
                                                 uint64_t size,
                                                 uint32_t flags,
                                                 const char *set,
                                                 tnd_pool_object **object) TND_NOEXCEPT;

/**
 * Open a committed version. It stays readable until it is closed, even if its name is removed or
 * replaced.
 *
 * @param version [in] 0: the newest. -ENOENT: no object has the name, or its newest version is
 * another one. An older version cannot be opened, even if another client still has it open.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_open(tnd_pool *pool,
                                               const char *name,
                                               uint64_t version,
                                               tnd_pool_object **object) TND_NOEXCEPT;

/** Close a handle and unmap its view. An object being written is dropped. An object that is
 * prepared for a set stays in the set. NULL is a no-op. */
TND_API void tnd_pool_close(tnd_pool_object *object) TND_NOEXCEPT;

/** Get the properties of an opened version. For an object being written, these are its size so far
 * and version 0. */
TND_API TND_NODISCARD tnd_status tnd_pool_get_info(tnd_pool_object *object,
                                                   tnd_pool_info *info) TND_NOEXCEPT;

/**
 * Write a range of an object being written. Returns when `source` may be reused.
 *
 * @param memory tnd_pool_memory of source.
 * @return TND_OK; -EBADF: the object is committed; -ENOSPC, -ESTALE, -TND_EPEER, -ETIMEDOUT: the
 * bytes of the range are undefined.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_write(tnd_pool_object *object,
                                                uint64_t offset,
                                                const void *source,
                                                uint64_t size,
                                                uint32_t memory) TND_NOEXCEPT;

/** Change the size of an object being written; new bytes are 0. -EBADF: it is committed. */
TND_API TND_NODISCARD tnd_status tnd_pool_resize(tnd_pool_object *object,
                                                 uint64_t size) TND_NOEXCEPT;

/** A box of up to three dimensions: count[1] x count[0] rows of `size` bytes. The object and memory
 * have separate strides. */
typedef struct tnd_pool_box {
  uint64_t offset;           /**< of the first row in the object */
  uint64_t size;             /**< bytes of a row */
  uint64_t count[2];         /**< rows; [0] is the inner dimension */
  uint64_t object_stride[2]; /**< bytes from row to row in the object */
  uint64_t memory_stride[2]; /**< bytes from row to row in memory */
} tnd_pool_box;

/** Write a box from memory, as tnd_pool_write(). */
TND_API TND_NODISCARD tnd_status tnd_pool_write_box(tnd_pool_object *object,
                                                    const tnd_pool_box *box,
                                                    const void *source,
                                                    uint32_t memory) TND_NOEXCEPT;

/**
 * Read a range. For an object being written, read the bytes written so far.
 *
 * @param read_size [out] bytes read: less than `size` only at the object's end. NULL: a short read
 * returns -ERANGE.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_read(tnd_pool_object *object,
                                               uint64_t offset,
                                               void *target,
                                               uint64_t size,
                                               uint32_t memory,
                                               uint64_t *read_size) TND_NOEXCEPT;

/** Read a box into memory, as tnd_pool_read(). -ERANGE: a row extends past the object's end. */
TND_API TND_NODISCARD tnd_status tnd_pool_read_box(tnd_pool_object *object,
                                                   const tnd_pool_box *box,
                                                   void *target,
                                                   uint32_t memory) TND_NOEXCEPT;

/**
 * Map a committed object's bytes in the pool, read-only and contiguous, until the handle is closed.
 *
 * The mapping remains when the connection breaks or ends, or the daemon ends. The bytes do not
 * change while the connection lives; afterwards, the rule of shared memory above holds.
 *
 * @return TND_OK.
 * @return -EOPNOTSUPP  this connection has no shared memory with the pool, or the object consists
 * of pieces that cannot be mapped one after the other. The latter happens to objects that grew from
 * less than 64 KiB, or across segments of huge pages.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_map(tnd_pool_object *object,
                                              const void **addr,
                                              uint64_t *size) TND_NOEXCEPT;

/** Options of a commit. */
typedef struct tnd_pool_commit_options {
  uint32_t struct_size;   /**< sizeof(tnd_pool_commit_options) */
  uint32_t flags;         /**< TND_POOL_DURABLE, TND_POOL_VERIFY */
  uint32_t checksum_kind; /**< tnd_pool_checksum; with TND_POOL_VERIFY the daemon compares */
  uint32_t has_checksum;  /**< 1: `checksum` is that of the caller's bytes; 0: it is computed over
                             the bytes in the pool */
  uint64_t checksum;      /**< by checksum_kind */
} tnd_pool_commit_options;

/** The options of a commit that is not durable, without a checksum. */
#define TND_POOL_COMMIT_OPTIONS_INIT \
  {sizeof(tnd_pool_commit_options), 0, TND_POOL_CHECKSUM_NONE, 0, 0}

/**
 * Commit an object: from now on, its name refers to it. An object of a set is only prepared, see
 * tnd_pool_set_commit(). Afterwards the handle can only read.
 *
 * After -EIO, -ENOSPC or -ETIMEDOUT the handle must not be written or committed again. The caller
 * closes it, and creates the object again.
 *
 * @param options [in]  NULL: not durable, no checksum.
 * @param version [out] of the object; may be NULL. 0 in a set.
 *
 * @return TND_OK          the object is visible to readers, and durable if requested.
 * @return -TND_ECORRUPT   the bytes do not match the checksum; nothing was committed, and the
 * object can be written and committed again.
 * @return -EOPNOTSUPP     the pool has no backing for durable objects; nothing was committed, and
 * the object can be written and committed again, without TND_POOL_DURABLE.
 * @return -EEXIST         with TND_POOL_EXCLUSIVE: meanwhile an object of this name was committed.
 * @return -EIO, -ENOSPC   the backing failed; the object may be readable, but it is not durable.
 * @return -TND_EPEER, -ETIMEDOUT  the object may be committed or not.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_commit(tnd_pool_object *object,
                                                 const tnd_pool_commit_options *options,
                                                 uint64_t *version) TND_NOEXCEPT;

/**
 * Commit all objects of a set at once, such as one checkpoint of many ranks. Each writer has
 * prepared its object with tnd_pool_commit(). A set is dropped if all of its writers disconnect
 * before this call. If a name is prepared twice, the set has only the later object. The objects
 * replace those of the same names, except for objects that were created with TND_POOL_EXCLUSIVE.
 *
 * @param count the number of objects that the set must have, all prepared; otherwise -EAGAIN, and
 * nothing changes.
 * @param flags TND_POOL_DURABLE: return when all objects are durable. This flag decides, and not
 * that of tnd_pool_commit(), which only checks that the pool has a backing.
 * @return -EEXIST  an object of the set was created with TND_POOL_EXCLUSIVE, and an object of its
 * name was committed meanwhile. Nothing changes.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_set_commit(tnd_pool *pool,
                                                     const char *set,
                                                     uint64_t count,
                                                     uint32_t flags) TND_NOEXCEPT;

/** Create, write and commit an object. `flags`: those of objects and of commits. `options` as in
 * tnd_pool_commit().
 *
 * Up to 64 KiB, or through a socket, the call takes one round trip. Larger objects take two over
 * shared memory: create and commit. They take three over a fabric. The first use of each segment of
 * shared memory takes one more. */
TND_API TND_NODISCARD tnd_status tnd_pool_put(tnd_pool *pool,
                                              const char *name,
                                              const void *source,
                                              uint64_t size,
                                              uint32_t flags,
                                              const tnd_pool_commit_options *options) TND_NOEXCEPT;

/**
 * Read the newest version of an object as a whole. Through a socket, or over a fabric with a
 * capacity of up to 64 KiB, the call takes one round trip; with a larger capacity, two. Over shared
 * memory it takes one, and one more at the first use of each segment. There, an object of up to
 * 1 MiB that was read before may need no round trip. -TND_EPEER: the daemon has ended, also in that
 * case; the next call connects again.
 *
 * @param capacity  bytes at `target`; -ERANGE, with *size written, if the object is larger.
 * @param size [out] of the object.
 * @param flags     TND_POOL_VERIFY: -TND_ECORRUPT if the bytes do not match the object's checksum.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_get(tnd_pool *pool,
                                              const char *name,
                                              void *target,
                                              uint64_t capacity,
                                              uint64_t *size,
                                              uint32_t flags) TND_NOEXCEPT;

/** Get the properties of an object. -ENOENT: no committed object has the name. `version` as in
 * tnd_pool_open(). */
TND_API TND_NODISCARD tnd_status tnd_pool_stat(tnd_pool *pool,
                                               const char *name,
                                               uint64_t version,
                                               tnd_pool_info *info) TND_NOEXCEPT;

/** Called for each name in order; a result other than 0 ends the list. Must not use the same
 * connection. `info` is NULL for a common prefix of tnd_pool_list_delimited(). */
typedef int (*tnd_pool_list_entry)(void *context, const char *name, const tnd_pool_info *info);

/** List the newest version of each object whose name begins with `prefix`, in byte order of names.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_list(tnd_pool *pool,
                                               const char *prefix,
                                               tnd_pool_list_entry entry,
                                               void *context) TND_NOEXCEPT;

/** List one level of names, such as a folder with the delimiter "/". Names that contain `delimiter`
 * after the prefix are not listed. `entry` is called once for all of them that are equal up to the
 * first delimiter, with this common prefix, which ends with the delimiter. The cost does not depend
 * on the number of objects below a common prefix. "": tnd_pool_list(). */
TND_API TND_NODISCARD tnd_status tnd_pool_list_delimited(tnd_pool *pool,
                                                         const char *prefix,
                                                         const char *delimiter,
                                                         tnd_pool_list_entry entry,
                                                         void *context) TND_NOEXCEPT;

/** Properties of a namespace; sizes in bytes. */
typedef struct tnd_pool_namespace_info {
  uint32_t struct_size;   /**< size of the library's structure */
  uint32_t reserved;      /**< 0 */
  uint64_t object_count;  /**< committed objects */
  uint64_t used;          /**< by objects, including those being written */
  uint64_t owned;         /**< memory bound to it, used or not; no other namespace can use it */
  uint64_t quota;         /**< 0: no quota */
  uint64_t segment_count; /**< segments of `owned`; 0: the pool is a file that all share */
} tnd_pool_namespace_info;

/** Called for each namespace, as tnd_pool_list_entry. */
typedef int (*tnd_pool_namespace_entry)(void *context,
                                        const char *name,
                                        const tnd_pool_namespace_info *info);

/**
 * List the namespaces with objects or with clients that may write, in byte order of names. These
 * are the namespaces that the connection's key allows, or all of them if the pool has no keys.
 *
 * @param only [in] NULL, or the name of a single namespace to list.
 *
 * @return TND_OK; -TND_EPEER: also if the daemon is older than this call.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_list_namespaces(tnd_pool *pool,
                                                          const char *only,
                                                          tnd_pool_namespace_entry entry,
                                                          void *context) TND_NOEXCEPT;

/** States of a cluster's server. */
enum {
  TND_POOL_SERVER_UP = 0,
  TND_POOL_SERVER_DRAINING = 1, /**< it runs, and gives its partitions to other servers */
  TND_POOL_SERVER_AWAY = 2      /**< it does not run, and was not removed */
};

/** A server of a cluster. Counts are of the cluster's partitions, which hold namespaces. */
typedef struct tnd_pool_server {
  uint32_t struct_size;    /**< size of the library's structure */
  uint32_t state;          /**< TND_POOL_SERVER_UP, ... */
  const char *name;        /**< valid during the call */
  const char *address;     /**< "host:port", valid during the call; "": unknown */
  const char *domain;      /**< failure domain, valid during the call; "": one of its own */
  uint32_t primary_count;  /**< partitions that it serves */
  uint32_t copy_count;     /**< partitions of which it has a copy, including those it serves */
  uint32_t joining_count;  /**< partitions that are being copied to it */
  uint32_t fragment_count; /**< fragments of objects with an erasure code that it has */
  const char *problem;     /**< why the connected server cannot send to it, or why its drain cannot
                                end, valid during the call; "": nothing is wrong */
} tnd_pool_server;

/** State of a cluster. Start from TND_POOL_CLUSTER_INIT. */
typedef struct tnd_pool_cluster {
  uint32_t struct_size;     /**< sizeof(tnd_pool_cluster) */
  uint32_t copies;          /**< copies that each partition should have */
  uint64_t epoch;           /**< number of the map, which increases with each change */
  uint32_t partition_count; /**< partitions of the cluster */
  uint32_t missing_count;   /**< copies of partitions, and fragments, that are not there, and
                                 copies on servers that the connected server does not reach */
  uint32_t offline_count;   /**< partitions without a copy that runs: they are not served */
  uint32_t lost_count;      /**< partitions whose copies were all lost, and which began again */
  uint64_t silence_ns;      /**< how old this is, because etcd does not answer; 0: it is new */
} tnd_pool_cluster;
/** The initial value of tnd_pool_cluster. */
#define TND_POOL_CLUSTER_INIT {sizeof(tnd_pool_cluster), 0, 0, 0, 0, 0, 0, 0}

/** Called for each server, as tnd_pool_list_entry. */
typedef int (*tnd_pool_server_entry)(void *context, const tnd_pool_server *server);

/**
 * Get the state of the cluster that the pool belongs to, and its servers by name.
 *
 * @param cluster [out] NULL, or the state.
 * @param entry   [in]  NULL, or called for each of the first 256 servers.
 *
 * @return TND_OK
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_get_cluster(tnd_pool *pool,
                                                      tnd_pool_cluster *cluster,
                                                      tnd_pool_server_entry entry,
                                                      void *context) TND_NOEXCEPT;

/**
 * Let a server of the cluster give all partitions to other servers, or end that. The call returns
 * once the setting is stored. It stays when the server restarts.
 *
 * @param server   [in] the server's name.
 * @param draining [in] 1: drain it; 0: it may have partitions again.
 *
 * @return TND_OK
 * @return -ENOENT      the cluster has no such server.
 * @return -EACCES      the connection's key is not valid for all namespaces, or only for reading.
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_set_draining(tnd_pool *pool,
                                                       const char *server,
                                                       uint32_t draining) TND_NOEXCEPT;

/**
 * Forget a server of the cluster that does not run. The call returns once that is stored. If the
 * server is started again, it joins as a new one.
 *
 * @param server [in] the server's name.
 * @param force  [in] 1: also if it may have the only copy of partitions, which begin again, empty.
 *
 * @return TND_OK
 * @return -EBUSY       it runs, or it may have the only copy of partitions and `force` is 0. The
 *                      message has their number.
 * @return -ENOENT      the cluster has no such server.
 * @return -EAGAIN      etcd did not store it.
 * @return -EACCES      the connection's key is not valid for all namespaces, or only for reading.
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_remove_server(tnd_pool *pool,
                                                        const char *server,
                                                        uint32_t force) TND_NOEXCEPT;

/**
 * Count no partition as lost any more. Call it once the losses are known to whom they concern.
 *
 * @return TND_OK
 * @return -EAGAIN      etcd did not store it.
 * @return -EACCES      the connection's key is not valid for all namespaces, or only for reading.
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_clear_losses(tnd_pool *pool) TND_NOEXCEPT;

/** The erasure code of a namespace. */
typedef struct tnd_pool_erasure {
  uint32_t struct_size;       /**< sizeof(tnd_pool_erasure) */
  uint32_t data_count;        /**< data fragments of a group, 2 to 16 */
  uint32_t parity_count;      /**< parity fragments of a group, 1 to 4 */
  uint32_t reserved;          /**< 0 */
  const char *namespace_name; /**< the namespace */
} tnd_pool_erasure;

/** Called for each setting, as tnd_pool_list_entry. */
typedef int (*tnd_pool_erasure_entry)(void *context, const tnd_pool_erasure *setting);

/**
 * Set the erasure code of the large objects of a namespace that are created from now on. Their
 * bytes are in data_count + parity_count fragments on as many servers, and any parity_count of
 * these may be lost. The call returns once the setting is stored.
 *
 * @param namespace_name [in] the namespace.
 * @param data_count     [in] 2 to 16, or 0: copies instead of an erasure code.
 * @param parity_count   [in] 1 to 4, or 0 with a data_count of 0.
 *
 * @return TND_OK
 * @return -EINVAL      the counts are out of range, or the cluster has too few servers that run and
 *                      are not draining, or it has a code for 64 namespaces already.
 * @return -EIO         etcd did not store it.
 * @return -EACCES      the connection's key is not valid for all namespaces, or only for reading.
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_set_erasure(tnd_pool *pool,
                                                      const char *namespace_name,
                                                      uint32_t data_count,
                                                      uint32_t parity_count) TND_NOEXCEPT;

/**
 * List the namespaces that have an erasure code, by name.
 *
 * @param entry [in] called for each of them.
 *
 * @return TND_OK
 * @return -EOPNOTSUPP  the pool is one server.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_list_erasure(tnd_pool *pool,
                                                       tnd_pool_erasure_entry entry,
                                                       void *context) TND_NOEXCEPT;

/** Rename an object; an object with the new name is replaced, unless TND_POOL_EXCLUSIVE is set. The
 * change of a durable object is durable with the next durable commit at the latest, or at once with
 * TND_POOL_DURABLE. */
TND_API TND_NODISCARD tnd_status tnd_pool_rename(tnd_pool *pool,
                                                 const char *name,
                                                 const char *new_name,
                                                 uint32_t flags) TND_NOEXCEPT;

/** Remove a name. Clients that have the object open can continue to read it. `flags`:
 * TND_POOL_DURABLE. */
TND_API TND_NODISCARD tnd_status tnd_pool_remove(tnd_pool *pool,
                                                 const char *name,
                                                 uint32_t flags) TND_NOEXCEPT;

/** Set the flags of the newest version: TND_POOL_EVICTABLE, TND_POOL_PINNED. */
TND_API TND_NODISCARD tnd_status tnd_pool_set_flags(tnd_pool *pool,
                                                    const char *name,
                                                    uint32_t flags) TND_NOEXCEPT;

/** The operation of a request. */
typedef enum tnd_pool_request_kind {
  TND_POOL_REQUEST_PUT = 0,   /**< name, memory, size, flags */
  TND_POOL_REQUEST_GET = 1,   /**< name, memory, size: the capacity */
  TND_POOL_REQUEST_WRITE = 2, /**< object, offset, memory, size */
  TND_POOL_REQUEST_READ = 3,  /**< object, offset, memory, size; short only at the end */
  TND_POOL_REQUEST_COMMIT = 4 /**< object, flags */
} tnd_pool_request_kind;

/** A request of tnd_pool_post(). */
typedef struct tnd_pool_request {
  uint32_t struct_size;    /**< sizeof(tnd_pool_request) */
  uint32_t kind;           /**< tnd_pool_request_kind */
  uint32_t flags;          /**< as in the call of the same name */
  uint32_t checksum_kind;  /**< PUT, COMMIT: the daemon computes it */
  const char *name;        /**< copied by the call */
  tnd_pool_object *object; /**< of WRITE, READ and COMMIT */
  uint64_t offset;         /**< bytes */
  void *memory;            /**< host memory, valid until the completion is returned or the pool is
                              disconnected; PUT and WRITE do not change it */
  uint64_t size;           /**< bytes */
  uint64_t context;        /**< returned in the completion */
} tnd_pool_request;

/** The result of a request, from tnd_pool_poll(). */
typedef struct tnd_pool_completion {
  uint64_t context;  /**< of the request */
  tnd_status status; /**< as of the call of the same name */
  uint32_t kind;     /**< tnd_pool_request_kind */
  uint64_t size;     /**< bytes moved; GET: of the object */
  uint64_t version;  /**< PUT, COMMIT, GET */
  uint32_t path; /**< tnd_pool_path of these bytes; TND_POOL_PATH_NONE after a failure, and if no
                    bytes were moved */
  uint32_t reserved; /**< 0 */
} tnd_pool_completion;

/**
 * Queue a request. After TND_OK, exactly one completion is returned by a later poll. After any
 * other status there is no completion.
 *
 * Progress is made only in calls on the connection. This call does not wait for the request's
 * reply, but may wait for another call on the connection, or to connect again. Over shared memory,
 * WRITE, and READ of a committed object, copy all bytes in this call. They may wait for the daemon
 * to share a segment or to enlarge the object. They overtake earlier requests; all others of a
 * connection are carried out in order. Completions are returned in the order of the posts.
 *
 * The connection's timeout begins at the post. Only tnd_pool_poll() checks it, for the oldest
 * request. When it expires, the connection ends, and all requests in flight complete with
 * -ETIMEDOUT.
 * @return TND_OK; -EAGAIN: 1024 requests are in flight, so poll and try again; -EINVAL, -EBADF,
 * -ESTALE, and statuses of connecting.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_post(tnd_pool *pool,
                                               const tnd_pool_request *request) TND_NOEXCEPT;

/**
 * Make progress and reap completions, waiting for the first one. Without requests in flight, the
 * call returns at once.
 *
 * @param timeout_ns relative; 0 does not wait for replies. A GET that turns out to be of an object
 * in several stripes, and a request that another server of a cluster has to serve, are carried out
 * in the call, whatever the timeout.
 * @param count [out] completions written; 0 if no request completed in time.
 * @return TND_OK; completions report a broken connection.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_poll(tnd_pool *pool,
                                               tnd_pool_completion *completions,
                                               uint32_t capacity,
                                               uint64_t timeout_ns,
                                               uint32_t *count) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
