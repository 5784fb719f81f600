/* seams/gpu/gpu_plugin.h: the versioned table of C functions through which the core uses
 * libtanada_cuda.so. All return a tnd_status and leave the reason in last_message().
 */
#ifndef TANADA_PORT_GPU_PLUGIN_H
#define TANADA_PORT_GPU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <tanada/status.h>

#define TND_GPU_PLUGIN_ABI 7
#define TND_GPU_PLUGIN_SYMBOL "tnd_gpu_plugin"

/* seams/gpu/device_queue.hpp's row_shape and word_update. */
typedef struct tnd_gpu_rows {
  size_t row_size, count;
  ptrdiff_t target_stride, source_stride;
} tnd_gpu_rows;

typedef struct tnd_gpu_update {
  uint32_t kind; /* a fabric_atomic */
  uint32_t size; /* of the word: 4 or 8 bytes */
  uint64_t operand, compare;
} tnd_gpu_update;

typedef struct tnd_gpu_queue tnd_gpu_queue;

typedef struct tnd_gpu_plugin {
  uint32_t abi; /* TND_GPU_PLUGIN_ABI */
  tnd_status (*device_count)(uint32_t *count);
  /* makes the device current in the calling thread and keeps its primary context alive; pci_bus_id:
   * 16 bytes */
  tnd_status (*open)(uint32_t device_index,
                     char *name,
                     size_t name_size,
                     uint32_t *multiprocessor_count,
                     uint64_t *memory_size,
                     char *pci_bus_id);
  tnd_status (*allocate_device)(uint32_t device_index, size_t size, void **addr);
  void (*free_device)(uint32_t device_index, void *addr);
  /* size is the requested size, then the actual one; the caller closes the descriptor */
  tnd_status (*allocate_shared)(uint32_t device_index, size_t *size, void **addr, int *descriptor);
  tnd_status (*map_shared)(uint32_t device_index, int descriptor, size_t size, void **addr);
  void (*unmap_shared)(uint32_t device_index,
                       void *addr,
                       size_t size); /* also of allocate_shared's */
  int (*is_device_memory)(const void *addr);
  /* timeout_ns: of each wait of its calls, except queue_wait's */
  tnd_status (*queue_open)(uint32_t device_index, uint64_t timeout_ns, tnd_gpu_queue **queue);
  void (*queue_close)(tnd_gpu_queue *queue);
  tnd_status (*queue_put)(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
  tnd_status (*queue_get)(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
  tnd_status (*queue_copy)(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
  tnd_status (*queue_copy_rows)(tnd_gpu_queue *queue,
                                void *target,
                                const void *source,
                                const tnd_gpu_rows *shape);
  tnd_status (*queue_update)(tnd_gpu_queue *queue,
                             void *target,
                             const tnd_gpu_update *operation,
                             uint64_t *before);
  tnd_status (*queue_order)(tnd_gpu_queue *queue);
  tnd_status (*queue_wait)(tnd_gpu_queue *queue, uint64_t deadline_ns); /* on CLOCK_MONOTONIC */
  tnd_status (*allocate_host)(uint32_t device_index, size_t size, void **addr);
  void (*free_host)(uint32_t device_index, void *addr);
  tnd_status (*copy)(uint32_t device_index, void *target, const void *source, size_t size);
  tnd_status (*fill)(uint32_t device_index, void *target, uint8_t value, size_t size);
  tnd_status (*synchronize)(uint32_t device_index); /* blocks without limit */
  /* At its address; only for reading unless is_writable. */
  tnd_status (*register_host)(uint32_t device_index,
                              const void *addr,
                              size_t size,
                              int is_writable);
  void (*unregister_host)(uint32_t device_index, const void *addr);
  tnd_status (*direct_prepare)(uint32_t device_index, int compatible_too, int *compatible);
  tnd_status (*direct_open)(int descriptor, uint64_t *file);
  void (*direct_close)(uint64_t file);
  tnd_status (*direct_read)(uint32_t device_index,
                            uint64_t file,
                            uint64_t offset,
                            void *target,
                            size_t size,
                            size_t *moved);
  /* NVTX ranges, for a profiler that the environment has attached */
  uint64_t (*range_start)(const char *name);
  void (*range_end)(uint64_t range);
  const char *(*last_message)(void); /* of the calling thread */
  /* the device whose context is current in the calling thread; ENODEV: no device */
  tnd_status (*device_current)(uint32_t *device_index);
  /* whether what network cards write to the device's memory can be made visible: EOPNOTSUPP if not.
   * fabric_settle does so */
  tnd_status (*fabric_prepare)(uint32_t device_index);
  tnd_status (*fabric_settle)(uint32_t device_index);
} tnd_gpu_plugin;

#endif
