/* port/gpu/plugin.h: everything that crosses between the core and libtanada_cuda.so: one versioned table of
 * C functions. All return a tnd_status and leave the reason in last_message(). */
#ifndef TANADA_PORT_GPU_PLUGIN_H
#define TANADA_PORT_GPU_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <tanada/status.h>

#define TND_GPU_PLUGIN_ABI 1
#define TND_GPU_PLUGIN_SYMBOL "tnd_gpu_plugin"

typedef struct tnd_gpu_plugin {
  uint32_t abi; /* TND_GPU_PLUGIN_ABI */
  tnd_status (*device_count)(uint32_t *count);
  /* makes the device current in the calling thread and keeps its primary context alive */
  tnd_status (*open)(uint32_t device_index, char *name, size_t name_size, uint32_t *multiprocessor_count,
                     uint64_t *memory_size);
  tnd_status (*allocate_device)(uint32_t device_index, size_t size, void **addr);
  void (*free_device)(uint32_t device_index, void *addr);
  tnd_status (*allocate_host)(uint32_t device_index, size_t size, void **addr);
  void (*free_host)(uint32_t device_index, void *addr);
  tnd_status (*copy)(uint32_t device_index, void *target, const void *source, size_t size);
  tnd_status (*fill)(uint32_t device_index, void *target, uint8_t value, size_t size);
  tnd_status (*synchronize)(uint32_t device_index); /* blocks without limit */
  const char *(*last_message)(void);                 /* of the calling thread */
} tnd_gpu_plugin;

#endif
