/* shmemg/host.h: what the host calls for memory of devices. C99 and C++11.
 *
 * A PE that starts with shmem_init_thread(level | SHMEM_DEVICE_HOST_INIT, &provided) has a second
 * symmetric heap, in the memory of its device. All calls of shmem.h take its addresses, symmetric
 * or local, beside those of the host's; docs/shmem_devices.md. */
#ifndef TANADA_COMPAT_SHMEMG_HOST_H
#define TANADA_COMPAT_SHMEMG_HOST_H

#include "../shmem/setup.h"

#include "../shmem/begin.h"

/** With the thread level, shmem_init_thread(): the same in all PEs. `provided` has those that there
 * are. */
#define SHMEM_DEVICE_HOST_INIT 0x100   /**< calls of the host take memory of devices */
#define SHMEM_DEVICE_KERNEL_INIT 0x200 /**< kernels call */

/** Option of shmem_ctx_create(), and of shmem_team_create_ctx() with a team of devices: for
 * kernels, not for the host. */
#define SHMEM_DEVICE_CTX 8L

/** Of shmemx_device_kind(): there is no device heap; it is memory of the host; it is out of the
 * reach of host code, and no GPU's (TND_HOST_DEVICE=guarded); it is a GPU's, by CUDA. */
#define SHMEMX_DEVICE_NONE 0
#define SHMEMX_DEVICE_HOST 1
#define SHMEMX_DEVICE_GUARDED 2
#define SHMEMX_DEVICE_CUDA 3

#define SHMEM_DECLARE_DEVICE_MEMORY_(P)                                                            \
  /** As shmem_malloc and the others, of the heap in the memory of devices: collective, with equal \
   * arguments in all PEs; NULL, in all of them, for no bytes and when the heap has no such piece. \
   */                                                                                              \
  void *P##shmemg_malloc(size_t size);                                                             \
  void *P##shmemg_calloc(size_t count, size_t size);                                               \
  void *P##shmemg_align(size_t alignment, size_t size);                                            \
  void P##shmemg_free(void *ptr);                                                                  \
  /** What the memory of the device heap is: SHMEMX_DEVICE_*. Not of the draft. */                 \
  int P##shmemx_device_kind(void);

SHMEM_DECLARE_DEVICE_MEMORY_()
SHMEM_DECLARE_DEVICE_MEMORY_(p)

#include "../shmem/end.h"

#endif
