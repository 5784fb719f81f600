/* tanada/gfile.h: files from inside kernels, the host side. C11 and C++20.
 *
 * The paper: Matsumiya, Takahashi, Oyama, "Accessing a distributed file system from GPU code",
 * table 1. The calls that kernels make are in tanada/device/gfile.cuh. */
#ifndef TANADA_GFILE_H
#define TANADA_GFILE_H

#include "status.h"

TND_EXTERN_C_BEGIN

/** One instance: its tiers, its open files and the threads that serve its kernels. */
typedef struct tnd_gfile tnd_gfile;

/** Handle that is passed to kernels by value (tanada/device/gfile.cuh: tanada::gfile_ref). */
typedef struct tnd_gfile_ref {
  void *state;         /**< device memory; opaque */
  uint64_t timeout_ns; /**< timeout of each device call; TND_NO_DEADLINE: unlimited */
} tnd_gfile_ref;

/** Which page leaves a full tier. */
typedef enum tnd_gfile_replacement {
  TND_GFILE_FIFO = 0, /**< the paper's policy */
  TND_GFILE_LRU = 1,
  TND_GFILE_CLOCK = 2
} tnd_gfile_replacement;

/** Whether stores may write directly to device memory (section 3.4 of the paper). */
typedef enum tnd_gfile_direct {
  TND_GFILE_DIRECT_AUTO = 0, /**< if no processor copies: GPUDirect Storage with its driver */
  TND_GFILE_DIRECT_ON =
      1, /**< if a store can, including cuFile's compatibility mode and the host executor */
  TND_GFILE_DIRECT_OFF = 2
} tnd_gfile_direct;

/** Whether kernels may read the pages of memory-backed files (tmpfs, hugetlbfs, memfd) in place. */
typedef enum tnd_gfile_mapping {
  TND_GFILE_MAPPING_AUTO =
      0, /**< on a GPU; on the host executor only files that are sealed against shrinking */
  TND_GFILE_MAPPING_OFF = 1
} tnd_gfile_mapping;

/** Where the kernels of an instance run. */
typedef enum tnd_gfile_device {
  TND_GFILE_DEVICE_AUTO =
      0, /**< chosen from the program's kernels and GPUs: see tnd_gfile_register_module */
  TND_GFILE_DEVICE_HOST = 1, /**< the host executor */
  TND_GFILE_DEVICE_CUDA = 2  /**< a GPU, or fail */
} tnd_gfile_device;

/**
 * Settings. Start from TND_GFILE_CONFIG_INIT. An environment variable that is set overrides its
 * field. Sizes are written as 4096, 64KiB, 2MiB, 8GiB; times as 10us, 250ms, 5s, none.
 */
typedef struct tnd_gfile_config {
  uint32_t struct_size;      /**< sizeof(tnd_gfile_config) */
  uint32_t page_size;        /**< bytes; a power of two, 4 KiB to 2 MiB; TND_GFILE_PAGE_SIZE */
  uint64_t device_tier_size; /**< bytes; at least one page; TND_GFILE_DEVICE_TIER_SIZE */
  uint64_t host_tier_size;   /**< bytes; at least one page; TND_GFILE_HOST_TIER_SIZE */
  uint32_t replacement;      /**< tnd_gfile_replacement; TND_GFILE_REPLACEMENT=fifo|lru|clock */
  uint32_t
      service_threads; /**< 1 to 64; 0: chosen from the processors; TND_GFILE_SERVICE_THREADS */
  uint64_t timeout_ns; /**< timeout of device calls and of gfinalize's flush; TND_GFILE_TIMEOUT */
  uint32_t file_count_max;     /**< files open or remembered at a time, 1 to 16384;
                                  TND_GFILE_FILE_COUNT_MAX */
  uint32_t device;             /**< tnd_gfile_device; TND_GFILE_DEVICE=auto|host|cuda */
  uint32_t device_index;       /**< which GPU; TND_GFILE_DEVICE_INDEX */
  uint32_t flags;              /**< must be 0 */
  uint32_t direct;             /**< tnd_gfile_direct; TND_GFILE_DIRECT=auto|on|off */
  uint32_t mapping;            /**< tnd_gfile_mapping; TND_GFILE_MAPPING=auto|off */
  uint64_t direct_window_size; /**< bytes of device memory where stores may place data; 64 MiB;
                                  TND_GFILE_DIRECT_WINDOW_SIZE */
  uint64_t mapping_size_max;   /**< bytes of files mapped at a time; 0: half of the memory;
                                  TND_GFILE_MAPPING_SIZE_MAX */
  uint64_t wait_timeout_ns;    /**< timeout of ghandle(); TND_NO_DEADLINE: unlimited;
                                  TND_GFILE_WAIT_TIMEOUT */
} tnd_gfile_config;

/** The default settings. */
#define TND_GFILE_CONFIG_INIT \
  {sizeof(tnd_gfile_config),  \
   131072,                    \
   256ull << 20,              \
   128ull << 20,              \
   TND_GFILE_LRU,             \
   0,                         \
   30000000000ull,            \
   16384,                     \
   TND_GFILE_DEVICE_AUTO,     \
   0,                         \
   0,                         \
   TND_GFILE_DIRECT_AUTO,     \
   TND_GFILE_MAPPING_AUTO,    \
   64ull << 20,               \
   0,                         \
   3600000000000ull}

#define TND_GFILE_LATENCY_BUCKETS 32 /**< elements of tnd_gfile_statistics.rpc_latency */

/** Counters of an instance; they never decrease. */
typedef struct tnd_gfile_statistics {
  uint32_t struct_size;        /**< in: sizeof(tnd_gfile_statistics) */
  uint32_t is_cuda;            /**< 1: kernels run on a GPU; 0: on the host executor */
  uint64_t device_hits;        /**< pages found in the device tier */
  uint64_t host_hits;          /**< pages that kernels copied from the host tier without the CPU */
  uint64_t misses;             /**< pages requested by RPC */
  uint64_t uncached_transfers; /**< pages that bypassed the device tier because every frame was in
                                  use */
  uint64_t store_reads;        /**< read operations sent to stores */
  uint64_t store_read_size;    /**< bytes */
  uint64_t store_writes;       /**< write operations sent to stores */
  uint64_t store_write_size;   /**< bytes */
  uint64_t requests;           /**< requests from kernels that were served */
  uint64_t evictions;          /**< pages evicted from the host tier */
  uint64_t write_errors;       /**< write-backs that failed */
  uint64_t mapped_copies;      /**< pages that kernels copied from a mapped file without the CPU */
  uint64_t direct_copies;      /**< pages that a store wrote directly to device memory */
  uint64_t device_evictions;   /**< pages evicted from the device tier */
  uint64_t read_size;          /**< bytes that gread has returned */
  uint64_t write_size;         /**< bytes that gwrite has accepted */
  uint64_t rpc_latency[TND_GFILE_LATENCY_BUCKETS]; /**< [i]: misses answered after 2^i to 2^(i+1)
                                                      ns, as measured by kernels */
} tnd_gfile_statistics;

/** The initial value of tnd_gfile_statistics. */
#define TND_GFILE_STATISTICS_INIT \
  {sizeof(tnd_gfile_statistics), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}}

/** The path to the device for bytes of a file that are in no tier. */
typedef enum tnd_gfile_path {
  TND_GFILE_PATH_STAGED = 0, /**< store to host tier; kernels copy from there */
  TND_GFILE_PATH_MAPPED = 1, /**< kernels read the file's own pages in host memory */
  TND_GFILE_PATH_DIRECT = 2, /**< the store writes them to device memory; no processor copies */
  TND_GFILE_PATH_DIRECT_COMPATIBLE =
      3 /**< the same, but a processor copies (cuFile's compatibility mode) */
} tnd_gfile_path;

/** A file that is open, or remembered because of its cached pages. */
typedef struct tnd_gfile_file {
  uint32_t struct_size;   /**< sizeof(tnd_gfile_file) of the library that filled it */
  uint32_t path;          /**< tnd_gfile_path */
  uint32_t opens;         /**< at the host; groups that share a descriptor are one */
  uint32_t write_opens;   /**< of these, opens for writing; both 0: remembered */
  uint64_t size;          /**< bytes */
  uint64_t device_hits;   /**< pages, as in tnd_gfile_statistics */
  uint64_t host_hits;     /**< pages, as in tnd_gfile_statistics */
  uint64_t mapped_copies; /**< pages, as in tnd_gfile_statistics */
  uint64_t direct_copies; /**< pages, as in tnd_gfile_statistics */
  uint64_t misses;        /**< pages, as in tnd_gfile_statistics */
  uint64_t read_size;     /**< bytes, as in tnd_gfile_statistics */
  uint64_t write_size;    /**< bytes, as in tnd_gfile_statistics */
  char url[1024];         /**< as the first gopen named it */
  char reason[256];       /**< one line: why no better path is used; empty for the best one */
} tnd_gfile_file;

/** The first device call that failed. */
typedef struct tnd_gfile_fault {
  uint32_t struct_size; /**< in: sizeof(tnd_gfile_fault) */
  tnd_status status;    /**< TND_OK: no call has failed yet */
  uint32_t site;        /**< tnd_gfile_site */
  uint32_t thread;      /**< rank in its block */
  uint64_t block;       /**< rank in its grid */
  uint64_t words[2];    /**< fd and offset, if the call has them */
  char url[1024];       /**< of the file; empty if the descriptor was not open */
} tnd_gfile_fault;

/** The initial value of tnd_gfile_fault. */
#define TND_GFILE_FAULT_INIT {sizeof(tnd_gfile_fault), 0, 0, 0, 0, {0, 0}, {0}}

/** The device call that failed. */
typedef enum tnd_gfile_site {
  TND_GFILE_SITE_NONE = 0,
  TND_GFILE_SITE_OPEN = 1,
  TND_GFILE_SITE_READ = 2,
  TND_GFILE_SITE_WRITE = 3,
  TND_GFILE_SITE_CLOSE = 4,
  TND_GFILE_SITE_STAT = 5,
  TND_GFILE_SITE_UNLINK = 6,
  TND_GFILE_SITE_TRUNCATE = 7,
  TND_GFILE_SITE_SYNC = 8,
  TND_GFILE_SITE_PREFETCH = 9,
  TND_GFILE_SITE_MAP = 10
} tnd_gfile_site;

/**
 * Create an instance: allocate its tiers and start its service threads. Stores are opened at first
 * use.
 *
 * @param config [in]  NULL: TND_GFILE_CONFIG_INIT and the environment.
 * @param gfile  [out] the instance. Ownership: the caller destroys it.
 *
 * @return TND_OK   the instance is ready.
 * @return -EINVAL  a field or a variable is out of its range; tnd_last_message() names it.
 * @return -ENOMEM  a tier does not fit; the message contains its size.
 * @return -EAGAIN  a thread cannot be started; the message names it.
 * @return -ENODEV, -TND_ENOPLUGIN  there is no GPU, and `config` requires one or all kernels of the
 *         program are for one. The message contains the driver's error.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_create(const tnd_gfile_config *config,
                                                  tnd_gfile **gfile) TND_NOEXCEPT;

/**
 * The reference to pass to kernels, by value. Valid until tnd_gfile_destroy(). `state` is NULL if
 * gfile is NULL.
 */
TND_API tnd_gfile_ref tnd_gfile_get_ref(const tnd_gfile *gfile) TND_NOEXCEPT;

/**
 * Wait for the kernels launched so far in this process on the instance's device.
 *
 * @param timeout_ns relative; TND_NO_DEADLINE: unlimited.
 *
 * @return TND_OK       the kernels have finished, and no write-back has failed unreported. Device
 *         calls return their statuses in the kernel. After the first failed call of the instance,
 *         one wait stores that call, its file and its status for tnd_last_message().
 * @return -ETIMEDOUT   kernels are still running; nothing changed.
 * @return -EINVAL      the driver refused a simt::launch(); the message contains its reason.
 *         Returned once.
 * @return -TND_EDEVICE a kernel trapped or the device is lost; the message contains the driver's
 *         error.
 * @return otherwise    the first write-back error that no gfsync or gclose has returned. Returned
 *         once.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_wait(tnd_gfile *gfile, uint64_t timeout_ns) TND_NOEXCEPT;

/**
 * Wait for the kernels, write back all dirty pages, close every file, stop the threads and free the
 * tiers.
 *
 * Files that kernels left open are published as by gclose. NULL is a no-op and returns TND_OK.
 *
 * A process that calls exit() or returns from main() without this call writes back the data of
 * gwrite within 10 s; data that are not written by then are logged. _exit(), abort() and fatal
 * signals lose the data without a log line.
 *
 * @return TND_OK        all data reached their stores.
 * @return -ETIMEDOUT    kernels or a store did not finish within the configured timeout, and no
 *         write-back error is known.
 * @return -TND_EDEVICE  the device is lost.
 * @return otherwise     a write-back error that was not returned before. If kernels or a store did
 *         not finish either, the message reports that.
 *
 * If kernels or a store did not finish, memory that they may still access is kept until the process
 * ends. Ownership: `gfile` is invalid afterwards, whatever the status.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_destroy(tnd_gfile *gfile) TND_NOEXCEPT;

/**
 * Read the counters; kernels may be running. With a smaller struct_size, of an older library, the
 * fields that fit are written.
 *
 * @return TND_OK, or -EINVAL: NULL, or struct_size is smaller than in any library.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status
tnd_gfile_get_statistics(tnd_gfile *gfile, tnd_gfile_statistics *statistics) TND_NOEXCEPT;

/**
 * Report the path and the counters of each file; kernels may be running.
 *
 * @param files [out]    the first `capacity` files; NULL with capacity 0 returns only the count.
 * @param count [out]    the number of files, even if it exceeds `capacity`.
 *
 * @return TND_OK, or -EINVAL: an argument is NULL that must not be.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_get_files(tnd_gfile *gfile,
                                                     tnd_gfile_file *files,
                                                     uint32_t capacity,
                                                     uint32_t *count) TND_NOEXCEPT;

/**
 * Start a Chrome trace of the service threads of all instances, for chrome://tracing or Perfetto.
 * The variable TND_GFILE_TRACE does the same from the first tnd_gfile_create() to the end of the
 * process.
 *
 * @param path a file, which is overwritten; "%p" in it is replaced by the process id.
 *
 * @return TND_OK, -EBUSY: a trace is already being written, -EINVAL: NULL, or the error of open(2).
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_trace_start(const char *path) TND_NOEXCEPT;

/**
 * End the trace and close its file.
 *
 * @return TND_OK, -TND_ESTATE: no trace is being written, or -EIO: the file is incomplete.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_trace_stop(void) TND_NOEXCEPT;

/**
 * Read the first fault; kernels may be running. With a smaller struct_size, of an older library,
 * the fields that fit are written.
 *
 * @return TND_OK, or -EINVAL: NULL, or struct_size is smaller than in any library.
 *
 * Thread safety: any thread.
 */
TND_API TND_NODISCARD tnd_status tnd_gfile_get_fault(tnd_gfile *gfile,
                                                     tnd_gfile_fault *fault) TND_NOEXCEPT;

/**
 * The paper's three calls, on one instance for the whole process. The forms of the device calls
 * without a gfile_ref use this instance. ginitialize returns -EBUSY if the instance already exists;
 * ghandle and gfinalize return -TND_ESTATE if it does not.
 *
 * ghandle waits for all kernels launched before it, at most wait_timeout_ns of the configuration
 * (an hour by default), and returns the statuses of tnd_gfile_wait(). After -ETIMEDOUT it may be
 * called again.
 */
TND_API TND_NODISCARD tnd_status ginitialize(const tnd_gfile_config *config) TND_NOEXCEPT;
/** Wait for the kernels of the process's instance, see ginitialize(). */
TND_API TND_NODISCARD tnd_status ghandle(void) TND_NOEXCEPT;
/** End the process's instance, see ginitialize() and tnd_gfile_destroy(). */
TND_API TND_NODISCARD tnd_status gfinalize(void) TND_NOEXCEPT;

/** The instance of ginitialize(), or NULL. */
TND_API tnd_gfile *tnd_gfile_default(void) TND_NOEXCEPT;

/** The call by which a module of tnd_gfile_register_module() takes a new reference. */
typedef tnd_status (*tnd_gfile_module_update)(const tnd_gfile_ref *ref);

/**
 * Register a module, that is, code that contains kernels. tanada/device/gfile.cuh calls this for
 * every translation unit that includes it.
 *
 * TND_GFILE_DEVICE_AUTO depends on the registered modules. If all of them are for the host
 * executor, it selects the host executor. If all are for a GPU, it selects a GPU or fails, since
 * the host executor cannot run them. Otherwise (both kinds, or none, as with NVRTC and Python) it
 * selects a GPU if there is one, else the host executor.
 *
 * @param is_cuda 1: kernels for a GPU; 0: for the host executor.
 * @param update  called with the reference of the process's instance whenever that changes (state
 *        NULL after gfinalize), if the instance is on a device of this kind. NULL: nothing to
 *        update. Must not throw.
 *
 * @return TND_OK, -EINVAL: another is_cuda, -ENOMEM: 1024 modules are already registered, or the
 *         status of `update`. The registration lasts for the life of the process.
 *
 * Thread safety: any thread.
 */
TND_API tnd_status tnd_gfile_register_module(int is_cuda,
                                             tnd_gfile_module_update update) TND_NOEXCEPT;

TND_EXTERN_C_END

#endif
