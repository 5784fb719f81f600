/* tanada/pool.h: a client of the memory pool. C11 and C++20.
 *
 * The paper: Onishi et al., "Acceleration of I/O data transfer with RDMA for massively large-scale
 * GPU simulation", section 2: the original I/O API to a daemon that owns a memory pool on a storage
 * node. */
#ifndef TANADA_POOL_H
#define TANADA_POOL_H

#include "status.h"

TND_EXTERN_C_BEGIN

/** A connection to one namespace of a pool. */
typedef struct tnd_pool tnd_pool;

/** An open object: being written (tnd_pool_create) or committed (tnd_pool_open). */
typedef struct tnd_pool_object tnd_pool_object;

#define TND_POOL_NAME_SIZE_MAX \
  512 /**< bytes of an object's, a set's or a namespace's name, without the end */
#define TND_POOL_DEFAULT_PORT 7440 /**< of TCP, where the URL names none */

/** How bytes travel between this process and the pool. */
typedef enum tnd_pool_path {
  TND_POOL_PATH_SHARED_MEMORY = 0, /**< both map the pool's memory; this process copies, once */
  TND_POOL_PATH_UNIX = 1,          /**< through a UNIX socket */
  TND_POOL_PATH_TCP = 2,           /**< through TCP */
  TND_POOL_PATH_RDMA = 3, /**< the daemon reads and writes this process's memory over a fabric */
  TND_POOL_PATH_GPU_DIRECT =
      4, /**< device memory: its GPU copies from and to the mapping, or RDMA reaches it */
  TND_POOL_PATH_FABRIC =
      5, /**< as RDMA, by a provider that copies in software, such as tcp;ofi_rxm */
  TND_POOL_PATH_NONE = 255 /**< no bytes moved */
} tnd_pool_path;
#define TND_POOL_PATH_COUNT 6 /**< numbers of paths are smaller, but for TND_POOL_PATH_NONE */

/** Where a buffer of the caller's lies. */
typedef enum tnd_pool_memory {
  TND_POOL_MEMORY_HOST = 0,
  TND_POOL_MEMORY_DEVICE = 1 /**< CUDA device memory of the config's device */
} tnd_pool_memory;

/** How a checksum of an object's bytes is made. */
typedef enum tnd_pool_checksum {
  TND_POOL_CHECKSUM_NONE = 0,
  TND_POOL_CHECKSUM_CRC32C = 1, /**< in the low 32 bits */
  TND_POOL_CHECKSUM_XXH3 = 2    /**< XXH3, 64 bits, seed 0 */
} tnd_pool_checksum;

/** Flags of objects, and of calls. */
enum {
  TND_POOL_EVICTABLE = 1,    /**< objects: a full pool may drop it, the one unused longest first */
  TND_POOL_PINNED = 2,       /**< objects: never dropped to make room, evictable or not */
  TND_POOL_DURABLE = 1 << 8, /**< commits: return when the pool's backing holds it */
  TND_POOL_EXCLUSIVE = 1 << 9, /**< fail with -EEXIST where a committed object has the name */
  TND_POOL_VERIFY =
      1 << 10, /**< compare contents with the checksum: a commit's at the daemon, a get's here */
  TND_POOL_KEEP =
      1 << 11 /**< create: start with the bytes of the newest version, where there is one */
};

/** Flags of a connection. */
enum {
  TND_POOL_NO_NAMESPACE = 1 /**< the URL may lack a namespace: the connection is good for
                               tnd_pool_list_namespaces() only, other requests are -EINVAL */
};

/** Settings of a connection. Start from TND_POOL_CONFIG_INIT; a variable of the environment, where
 * it is set, wins. */
typedef struct tnd_pool_config {
  uint32_t struct_size;   /**< sizeof(tnd_pool_config) */
  uint32_t flags;         /**< TND_POOL_NO_NAMESPACE, or 0 */
  uint64_t timeout_ns;    /**< limit of each call that names no other, relative; TND_POOL_TIMEOUT */
  const char *key_file;   /**< the client's key, mode 0600; NULL: TND_POOL_KEY_FILE, else none */
  const char *fabric;     /**< libfabric provider for RDMA; NULL: TND_POOL_FABRIC, else none */
  uint32_t shared_memory; /**< 1: map the pool's memory where it is this node's; 0: never;
                             TND_POOL_SHARED_MEMORY=on|off */
  uint32_t device_index;  /**< CUDA device of TND_POOL_MEMORY_DEVICE; TND_POOL_DEVICE_INDEX */
} tnd_pool_config;

#define TND_POOL_CONFIG_INIT {sizeof(tnd_pool_config), 0, 30000000000ull, 0, 0, 1, 0}

/** What a connection is. */
typedef struct tnd_pool_connection {
  uint32_t struct_size;              /**< in: sizeof(tnd_pool_connection) */
  uint32_t path;                     /**< tnd_pool_path of host memory */
  uint32_t can_write;                /**< 0: the key allows reading only */
  uint32_t is_durable;               /**< 1: the backing holds durable commits */
  uint64_t sent_size, received_size; /**< bytes of objects that this connection moved */
  char reason[256]; /**< why not a better path, one line; empty for the best there is */
} tnd_pool_connection;

/** What moved by one path. */
typedef struct tnd_pool_path_traffic {
  uint64_t writes, written_size; /**< transfers into the pool, and their bytes */
  uint64_t reads, read_size;     /**< transfers out of it */
} tnd_pool_path_traffic;

/** What a connection moved, counted on this side. Transfers that failed and those without bytes do
 * not count. */
typedef struct tnd_pool_traffic {
  uint32_t struct_size;    /**< in: sizeof(tnd_pool_traffic) */
  uint32_t last_path;      /**< tnd_pool_path of the last transfer */
  uint32_t last_is_staged; /**< 1: it was staged, see staged_size */
  uint32_t reserved;
  tnd_pool_path_traffic by_path[TND_POOL_PATH_COUNT]; /**< by tnd_pool_path */
  uint64_t staged_size; /**< bytes of these that went through a buffer of host memory, since they
                           were the device's */
  uint64_t maps, mapped_size; /**< views of tnd_pool_map(), and their bytes; who reads them how
                                 often is not known */
} tnd_pool_traffic;

/** A committed object. */
typedef struct tnd_pool_info {
  uint64_t size;          /**< bytes */
  uint64_t version;       /**< of this commit; later commits in the pool have higher ones */
  uint64_t created_ns;    /**< of the commit, since 1970-01-01 UTC */
  uint64_t checksum;      /**< by checksum_kind */
  uint32_t checksum_kind; /**< tnd_pool_checksum */
  uint32_t
      flags; /**< TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_DURABLE when the backing holds it */
} tnd_pool_info;

/** Counters of the daemon; sizes in bytes. */
typedef struct tnd_pool_statistics {
  uint32_t struct_size; /**< in: sizeof(tnd_pool_statistics) */
  uint32_t client_count;
  uint64_t capacity, used; /**< of the pool; `used` includes objects being written */
  uint64_t object_count;   /**< committed, of all namespaces */
  uint64_t space_used, space_object_count, space_quota; /**< of this namespace; quota 0: none */
  /** Bytes of objects from and to clients. Those that clients copy themselves are as they tell:
   * what they wrote, at commits; what they read, with their next message when a second has gone by,
   * and at the end of the connection. */
  uint64_t written_size, read_size;
  uint64_t commits, opens, evictions, errors;
  uint64_t uptime_ns;
} tnd_pool_statistics;

/**
 * Connect to a namespace of a pool.
 *
 * @param url    [in]  pool://host[:port]/namespace; what follows the namespace is ignored.
 * @param config [in]  NULL: TND_POOL_CONFIG_INIT and the environment.
 * @param pool   [out] the connection; the caller disconnects it.
 *
 * @return TND_OK       connected, both sides authenticated where there is a key.
 * @return -EINVAL      malformed URL, config, variable or key file; the message names it.
 * @return -EACCES      the daemon refused the key, or its own proof is wrong; or the key names
 * other namespaces.
 * @return -ENOSPC      the pool has all the namespaces that it may have, and this is none of them.
 * @return -TND_EPEER   nobody answers there, or not as a pool; the message gives the system's
 * words.
 * @return -ETIMEDOUT   no answer within the timeout.
 * A connection that breaks fails what is under way with -TND_EPEER; the next call connects again,
 * once. Handles opened before are gone then: they fail with -ESTALE. Thread safety: any thread.
 * Calls on one connection exclude each other; connect once a thread for more.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_connect(const char *url, const tnd_pool_config *config,
                                                  tnd_pool **pool) TND_NOEXCEPT;

/* Besides what each of them says, calls return: -EINVAL a NULL, an unknown flag, a wrong
 * struct_size; -ENAMETOOLONG; -ENOENT there is no such object; -EACCES a change with a key for
 * reading only; -ESTALE a handle whose connection was lost or ended; -EIO its bytes were lost with
 * a part of the pool's file; -TND_EPEER, -ETIMEDOUT what the daemon has done of it is not known.
 * tnd_last_message() has the reason. Sizes and offsets are bytes. */

/** End the connection and its handles; objects being written are dropped. NULL is ok and does
 * nothing. */
TND_API void tnd_pool_disconnect(tnd_pool *pool) TND_NOEXCEPT;

/** -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status
tnd_pool_get_connection(tnd_pool *pool, tnd_pool_connection *connection) TND_NOEXCEPT;

/** Counters of this side; asks nobody. They go on when the connection was lost and made again.
 * -EINVAL: struct_size is too small. */
TND_API TND_NODISCARD tnd_status tnd_pool_get_traffic(tnd_pool *pool,
                                                      tnd_pool_traffic *traffic) TND_NOEXCEPT;

/**
 * Register memory with the fabric once, so that transfers from and to it need no registration of
 * their own. Without a fabric this does nothing.
 *
 * Ownership: the memory stays allocated until tnd_pool_unregister(), which takes its address, or
 * tnd_pool_disconnect().
 * @return TND_OK, -EEXIST it overlaps with what is registered, -ENOMEM, -EINVAL.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_register(tnd_pool *pool, void *addr, uint64_t size,
                                                   uint32_t memory) TND_NOEXCEPT;
TND_API TND_NODISCARD tnd_status tnd_pool_unregister(tnd_pool *pool, void *addr) TND_NOEXCEPT;

/** Ask the daemon for its counters. */
TND_API TND_NODISCARD tnd_status
tnd_pool_get_statistics(tnd_pool *pool, tnd_pool_statistics *statistics) TND_NOEXCEPT;

/**
 * Begin an object. Nobody sees it before tnd_pool_commit().
 *
 * @param name   [in]  1 to TND_POOL_NAME_SIZE_MAX bytes without 0.
 * @param size   [in]  bytes; memory for them is set aside at once. Writes behind it make the object
 * larger.
 * @param flags  [in]  TND_POOL_EVICTABLE, TND_POOL_PINNED, TND_POOL_EXCLUSIVE, TND_POOL_KEEP.
 * @param set    [in]  NULL, or the name of the set that it commits with, see tnd_pool_set_commit().
 * @param object [out] closed by the caller.
 *
 * Bytes that nobody writes are 0.
 * @return TND_OK, -ENOSPC the pool or the quota is full and nothing may be dropped, -EACCES the key
 * allows reading only, -EEXIST with TND_POOL_EXCLUSIVE, -EMFILE too many handles, -EINVAL.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_create(tnd_pool *pool, const char *name, uint64_t size,
                                                 uint32_t flags, const char *set,
                                                 tnd_pool_object **object) TND_NOEXCEPT;

/**
 * Open a committed version; it stays readable until closed, whatever happens to its name.
 *
 * @param version [in] 0: the newest. -ENOENT: there is none, or no longer.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_open(tnd_pool *pool, const char *name, uint64_t version,
                                               tnd_pool_object **object) TND_NOEXCEPT;

/** Close a handle. What was being written and is not committed is dropped. NULL is ok. */
TND_API void tnd_pool_close(tnd_pool_object *object) TND_NOEXCEPT;

/** What was opened; of an object being written its size so far, version 0. */
TND_API TND_NODISCARD tnd_status tnd_pool_get_info(tnd_pool_object *object,
                                                   tnd_pool_info *info) TND_NOEXCEPT;

/**
 * Write a range of an object being written; returns when `source` may be used again.
 *
 * @param memory tnd_pool_memory of source.
 * @return TND_OK, -EBADF the object is committed, -ENOSPC, -ESTALE, -TND_EPEER, -ETIMEDOUT: the
 * range is undefined.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_write(tnd_pool_object *object, uint64_t offset,
                                                const void *source, uint64_t size,
                                                uint32_t memory) TND_NOEXCEPT;

/** Make an object being written shorter, or longer with bytes that are 0. -EBADF: it is committed.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_resize(tnd_pool_object *object,
                                                 uint64_t size) TND_NOEXCEPT;

/** A box of up to three dimensions: count[1] x count[0] rows of `size` bytes, on both sides with
 * strides of their own. */
typedef struct tnd_pool_box {
  uint64_t offset;           /**< of the first row in the object */
  uint64_t size;             /**< bytes of a row */
  uint64_t count[2];         /**< rows; [0] inner */
  uint64_t object_stride[2]; /**< bytes from row to row in the object */
  uint64_t memory_stride[2]; /**< bytes from row to row in memory */
} tnd_pool_box;

/** tnd_pool_write() of a box out of memory. */
TND_API TND_NODISCARD tnd_status tnd_pool_write_box(tnd_pool_object *object,
                                                    const tnd_pool_box *box, const void *source,
                                                    uint32_t memory) TND_NOEXCEPT;

/**
 * Read a range; of an object being written as it is so far.
 *
 * @param read_size [out] bytes read: less than `size` at the object's end only. NULL: anything
 * short is -ERANGE.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_read(tnd_pool_object *object, uint64_t offset,
                                               void *target, uint64_t size, uint32_t memory,
                                               uint64_t *read_size) TND_NOEXCEPT;

/** tnd_pool_read() of a box into memory; -ERANGE when a row lies past the end. */
TND_API TND_NODISCARD tnd_status tnd_pool_read_box(tnd_pool_object *object, const tnd_pool_box *box,
                                                   void *target, uint32_t memory) TND_NOEXCEPT;

/**
 * A committed object's bytes where they lie in the pool, read-only, contiguous, until the handle is
 * closed.
 *
 * Neither a broken connection nor the daemon's end takes them away. While the daemon lives they do
 * not change; one that lost the connection and goes on may use the memory of an object that was
 * replaced or removed again.
 *
 * @return TND_OK, or -EOPNOTSUPP when this connection has no shared memory with the pool, or the
 * object, having grown from less than 64 KiB, or over segments of huge pages, lies in pieces that
 * cannot be mapped one after the other.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_map(tnd_pool_object *object, const void **addr,
                                              uint64_t *size) TND_NOEXCEPT;

/** How to commit. */
typedef struct tnd_pool_commit_options {
  uint32_t struct_size;   /**< sizeof(tnd_pool_commit_options) */
  uint32_t flags;         /**< TND_POOL_DURABLE, TND_POOL_VERIFY */
  uint32_t checksum_kind; /**< tnd_pool_checksum; with TND_POOL_VERIFY the daemon compares */
  uint32_t has_checksum; /**< 1: `checksum` is of the bytes the caller meant; 0: it is computed over
                            what the pool has */
  uint64_t checksum;
} tnd_pool_commit_options;

#define TND_POOL_COMMIT_OPTIONS_INIT \
  {sizeof(tnd_pool_commit_options), 0, TND_POOL_CHECKSUM_NONE, 0, 0}

/**
 * Publish an object: from now on it is what its name opens. Of a set: prepare it, see
 * tnd_pool_set_commit(). The handle is a reader's then.
 *
 * @param options [in]  NULL: not durable, no checksum.
 * @param version [out] of the object; NULL is ok. 0 in a set.
 *
 * @return TND_OK          readers see it; durable if that was asked for.
 * @return -TND_ECORRUPT   the bytes do not have the checksum; nothing was published, the object can
 * be written again.
 * @return -EOPNOTSUPP     durable was asked of a pool that keeps nothing; nothing was published.
 * @return -EIO, -ENOSPC   the backing failed; the object may be readable, but it is not durable.
 * @return -TND_EPEER, -ETIMEDOUT  it may be published or not.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_commit(tnd_pool_object *object,
                                                 const tnd_pool_commit_options *options,
                                                 uint64_t *version) TND_NOEXCEPT;

/**
 * Publish all objects of a set at once, as one checkpoint of many ranks. Each of them was committed
 * by its writer, which prepared it; a set whose writers have all gone before this call is dropped.
 *
 * @param count how many objects the set must have, all prepared; else -EAGAIN and nothing changes.
 * @param flags TND_POOL_DURABLE.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_set_commit(tnd_pool *pool, const char *set,
                                                     uint64_t count, uint32_t flags) TND_NOEXCEPT;

/** Create, write and commit in one round trip. `flags`: of objects and of commits. `options` as in
 * tnd_pool_commit(). */
TND_API TND_NODISCARD tnd_status tnd_pool_put(tnd_pool *pool, const char *name, const void *source,
                                              uint64_t size, uint32_t flags,
                                              const tnd_pool_commit_options *options) TND_NOEXCEPT;

/**
 * Read the newest version of an object as a whole in one round trip; on the pool's node without one
 * when it was read before. -TND_EPEER when the daemon has ended since, also then; the next call
 * connects again.
 *
 * @param capacity  bytes at `target`; -ERANGE, with *size written, when the object is larger.
 * @param size [out] of the object.
 * @param flags     TND_POOL_VERIFY: -TND_ECORRUPT when the bytes do not have the object's checksum.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_get(tnd_pool *pool, const char *name, void *target,
                                              uint64_t capacity, uint64_t *size,
                                              uint32_t flags) TND_NOEXCEPT;

/** -ENOENT: no committed object has the name. `version` as in tnd_pool_open(). */
TND_API TND_NODISCARD tnd_status tnd_pool_stat(tnd_pool *pool, const char *name, uint64_t version,
                                               tnd_pool_info *info) TND_NOEXCEPT;

/** Called for each name in order; anything but 0 ends the list. Must not call the same connection.
 */
typedef int (*tnd_pool_list_entry)(void *context, const char *name, const tnd_pool_info *info);

/** The newest version of each object whose name begins with `prefix`, sorted by bytes. */
TND_API TND_NODISCARD tnd_status tnd_pool_list(tnd_pool *pool, const char *prefix,
                                               tnd_pool_list_entry entry,
                                               void *context) TND_NOEXCEPT;

/** What a namespace has; sizes in bytes. */
typedef struct tnd_pool_namespace_info {
  uint32_t struct_size; /**< of the library's structure */
  uint32_t reserved;
  uint64_t object_count;
  uint64_t used;          /**< by objects, those being written included */
  uint64_t owned;         /**< memory that is bound to it, used or not; no other namespace has it */
  uint64_t quota;         /**< 0: none */
  uint64_t segment_count; /**< parts of `owned`; 0: the pool is a file, which all share */
} tnd_pool_namespace_info;

/** As tnd_pool_list_entry, of a namespace. */
typedef int (*tnd_pool_namespace_entry)(void *context, const char *name,
                                        const tnd_pool_namespace_info *info);

/**
 * The namespaces with objects or with clients that may write, sorted by bytes: those that the
 * connection's key is good for; all of them where the pool has no keys.
 *
 * @param only [in] NULL, or the name of the one that is wanted.
 *
 * @return TND_OK, -TND_EPEER also from a daemon that is older than this call.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_list_namespaces(tnd_pool *pool, const char *only,
                                                          tnd_pool_namespace_entry entry,
                                                          void *context) TND_NOEXCEPT;

/** Give an object another name; replaces what has it, unless TND_POOL_EXCLUSIVE. Durable objects:
 * with the next durable commit at the latest, or at once with TND_POOL_DURABLE. */
TND_API TND_NODISCARD tnd_status tnd_pool_rename(tnd_pool *pool, const char *name,
                                                 const char *new_name, uint32_t flags) TND_NOEXCEPT;

/** Remove a name; those who have it open go on reading. `flags`: TND_POOL_DURABLE. */
TND_API TND_NODISCARD tnd_status tnd_pool_remove(tnd_pool *pool, const char *name,
                                                 uint32_t flags) TND_NOEXCEPT;

/** Set the flags of the newest version: TND_POOL_EVICTABLE, TND_POOL_PINNED. */
TND_API TND_NODISCARD tnd_status tnd_pool_set_flags(tnd_pool *pool, const char *name,
                                                    uint32_t flags) TND_NOEXCEPT;

/** What a request asks for. */
typedef enum tnd_pool_request_kind {
  TND_POOL_REQUEST_PUT = 0,   /**< name, memory, size, flags */
  TND_POOL_REQUEST_GET = 1,   /**< name, memory, size: the capacity */
  TND_POOL_REQUEST_WRITE = 2, /**< object, offset, memory, size */
  TND_POOL_REQUEST_READ = 3,  /**< object, offset, memory, size; short at the end only */
  TND_POOL_REQUEST_COMMIT = 4 /**< object, flags */
} tnd_pool_request_kind;

typedef struct tnd_pool_request {
  uint32_t struct_size;   /**< sizeof(tnd_pool_request) */
  uint32_t kind;          /**< tnd_pool_request_kind */
  uint32_t flags;         /**< as in the call of the same name */
  uint32_t checksum_kind; /**< PUT, COMMIT: the daemon computes it */
  const char *name;       /**< copied by the call */
  tnd_pool_object *object;
  uint64_t offset;  /**< bytes */
  void *memory;     /**< host memory; kept by the caller, not changed by PUT and WRITE */
  uint64_t size;    /**< bytes */
  uint64_t context; /**< handed back */
} tnd_pool_request;

typedef struct tnd_pool_completion {
  uint64_t context;
  tnd_status status;
  uint32_t kind;
  uint64_t size;    /**< bytes moved; GET: of the object */
  uint64_t version; /**< PUT, COMMIT, GET */
  uint32_t path;    /**< tnd_pool_path of these bytes; TND_POOL_PATH_NONE after a failure and where
                       none were moved */
  uint32_t reserved;
} tnd_pool_completion;

/**
 * Queue a request. One that returns TND_OK yields exactly one completion, from a later poll; any
 * other status none.
 *
 * Nothing moves but in tnd_pool_poll() and in this call, which does not wait. Requests of one
 * connection are carried out in their order.
 * @return TND_OK, -EAGAIN too many are under way: poll, then repeat; -EINVAL.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_post(tnd_pool *pool,
                                               const tnd_pool_request *request) TND_NOEXCEPT;

/**
 * Move what can be moved and reap completions, waiting for the first.
 *
 * @param timeout_ns relative; 0 does not wait.
 * @param count [out] completions written; 0 when none came in time.
 * @return TND_OK; a broken connection is told by the completions.
 */
TND_API TND_NODISCARD tnd_status tnd_pool_poll(tnd_pool *pool, tnd_pool_completion *completions,
                                               uint32_t capacity, uint64_t timeout_ns,
                                               uint32_t *count) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
