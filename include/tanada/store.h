/* tanada/store.h: files of stores, from the host: the names in a folder of any URL that gfile
 * opens, and the bytes of its files. C11 and C++20. */
#ifndef TANADA_STORE_H
#define TANADA_STORE_H

#include "status.h"

TND_EXTERN_C_BEGIN

/** The names of one folder, as they were when tnd_store_list() read them. */
typedef struct tnd_store_listing tnd_store_listing;

/** The kind of an entry. */
typedef enum tnd_store_kind { TND_STORE_FILE = 0, TND_STORE_FOLDER = 1 } tnd_store_kind;

/** The size of a folder, and of a file that cannot be opened for reading. */
#define TND_STORE_SIZE_UNKNOWN UINT64_MAX

/** Settings of tnd_store_list(). Start from TND_STORE_LIST_OPTIONS_INIT. */
typedef struct tnd_store_list_options {
  uint32_t struct_size;     /**< sizeof(tnd_store_list_options) */
  uint32_t entry_count_max; /**< a larger folder is an error; 1,000,000 */
  uint32_t has_sizes;       /**< 1: each file is opened for its size; 0: all sizes are unknown */
  uint32_t reserved;        /**< 0 */
  uint64_t timeout_ns;      /**< relative, of the whole call; TND_NO_DEADLINE: unlimited; 30 s */
} tnd_store_list_options;

/** The initial value of tnd_store_list_options. */
#define TND_STORE_LIST_OPTIONS_INIT {sizeof(tnd_store_list_options), 1000000, 1, 0, 30000000000ull}

/** A file or folder of a listing. */
typedef struct tnd_store_entry {
  uint32_t struct_size; /**< in: sizeof(tnd_store_entry) */
  uint32_t kind;        /**< tnd_store_kind */
  uint64_t size;        /**< bytes, or TND_STORE_SIZE_UNKNOWN */
  const char *url;      /**< for gopen; of a folder with '/' at its end. Valid until the listing is
                             destroyed */
  const char *name;     /**< the part of `url` after the folder's */
  uint32_t name_size;   /**< bytes of `name`, without a folder's '/' at its end */
  uint32_t reserved;    /**< 0 */
} tnd_store_entry;

/** The initial value of tnd_store_entry. */
#define TND_STORE_ENTRY_INIT {sizeof(tnd_store_entry), 0, 0, 0, 0, 0, 0}

/**
 * List the files and folders in a folder, sorted by name. Folders below it are not entered.
 *
 * A folder without files, and one that does not exist, have no entries: not every store has
 * folders. Of mem:// and pool://, names with '/' are shown as folders. The store is opened for the
 * call, which takes as long as a connection to its servers. With has_sizes, each file is opened and
 * closed, up to 64 at a time.
 *
 * @param url     [in]  the folder: a path, or scheme://...; with or without '/' at its end.
 * @param options [in]  NULL: TND_STORE_LIST_OPTIONS_INIT.
 * @param listing [out] the entries. Ownership: the caller destroys it.
 *
 * @return TND_OK       the listing is complete.
 * @return -EINVAL      NULL, an empty URL, an unknown scheme or a field out of its range.
 * @return -EOVERFLOW   there are more than entry_count_max entries; the message has the number.
 * @return -ETIMEDOUT   the store did not answer in time.
 * @return -TND_ENOPLUGIN  the store's plugin or package is missing; the message names it.
 * @return otherwise    the status of the store, such as -EACCES.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_store_list(const char *url,
                                                const tnd_store_list_options *options,
                                                tnd_store_listing **listing) TND_NOEXCEPT;

/** The number of entries; 0 for NULL. Thread safety: any thread. */
TND_API uint32_t tnd_store_listing_count(const tnd_store_listing *listing) TND_NOEXCEPT;

/**
 * Read an entry.
 *
 * @param entry [in,out] struct_size on entry; unchanged after an error.
 *
 * @return TND_OK   the entry was read.
 * @return -EINVAL  NULL, a struct_size that is too small, or an index that is too large.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_store_listing_get(const tnd_store_listing *listing,
                                                       uint32_t index,
                                                       tnd_store_entry *entry) TND_NOEXCEPT;

/** Free a listing. NULL is a no-op. */
TND_API void tnd_store_listing_destroy(tnd_store_listing *listing) TND_NOEXCEPT;

/** A file that is open on the host. */
typedef struct tnd_store_file tnd_store_file;

/** Flags of tnd_store_open(). */
enum {
  TND_STORE_READ = 1,
  TND_STORE_WRITE = 2,
  TND_STORE_CREATE = 4,    /**< with TND_STORE_WRITE: create the file if it does not exist */
  TND_STORE_EXCLUSIVE = 8, /**< with TND_STORE_CREATE: -EEXIST if the file exists */
  TND_STORE_TRUNCATE = 16  /**< with TND_STORE_WRITE: the file begins empty */
};

/**
 * Open a file for reads and writes by the host. Kernels open files by gfile.
 *
 * The file has a connection of its own to its store. What it writes may be visible to others
 * only once it is synchronized or closed: pool:// commits then.
 *
 * @param url        [in]  a path, or scheme://...
 * @param flags      [in]  TND_STORE_READ, TND_STORE_WRITE or both, and further ones.
 * @param timeout_ns [in]  relative, of each call on the file; TND_NO_DEADLINE: unlimited.
 * @param file       [out] the file. Ownership: the caller closes it.
 *
 * @return TND_OK       the file is open.
 * @return -EINVAL      NULL, an empty URL, an unknown scheme, flags that exclude one another.
 * @return -ENOENT, -EEXIST, -EACCES  as of open().
 * @return -ETIMEDOUT   the store did not answer in time.
 * @return -TND_ENOPLUGIN  the store's plugin or package is missing; the message names it.
 *
 * Thread safety: any thread. Calls on one file exclude each other.
 */
TND_API TND_NODISCARD tnd_status tnd_store_open(const char *url,
                                                uint32_t flags,
                                                uint64_t timeout_ns,
                                                tnd_store_file **file) TND_NOEXCEPT;

/** Read bytes. `*read_size` is less than `size` only at the end of the file. After an error the
 * bytes of `target` are undefined. -EBADF: the file is not open for reading. */
TND_API TND_NODISCARD tnd_status tnd_store_read(tnd_store_file *file,
                                                uint64_t offset,
                                                void *target,
                                                uint64_t size,
                                                uint64_t *read_size) TND_NOEXCEPT;

/** Write bytes. A write past the end enlarges the file; bytes that are never written are 0. After
 * an error the range is undefined. -EBADF: the file is not open for writing. */
TND_API TND_NODISCARD tnd_status tnd_store_write(tnd_store_file *file,
                                                 uint64_t offset,
                                                 const void *source,
                                                 uint64_t size) TND_NOEXCEPT;

/** Get the size of the file in bytes. */
TND_API TND_NODISCARD tnd_status tnd_store_get_size(tnd_store_file *file,
                                                    uint64_t *size) TND_NOEXCEPT;

/** Change the size of the file. New bytes are 0. */
TND_API TND_NODISCARD tnd_status tnd_store_truncate(tnd_store_file *file,
                                                    uint64_t size) TND_NOEXCEPT;

/** Make what was written durable, as far as the store can. */
TND_API TND_NODISCARD tnd_status tnd_store_sync(tnd_store_file *file) TND_NOEXCEPT;

/** Close a file, whatever the status. An error means that bytes which were written may be lost.
 * NULL is a no-op. */
TND_API TND_NODISCARD tnd_status tnd_store_close(tnd_store_file *file) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
