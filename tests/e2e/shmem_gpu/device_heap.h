// Included before the programs of tests/conformance/shmem (-include). Their symmetric heap is then
// that of the device, on the host executor, whose memory their own loads and stores can access.
// Variables of the program stay in host memory, so sources and targets are of both kinds.
#ifndef TND_TESTS_SHMEMG_DEVICE_HEAP_H
#define TND_TESTS_SHMEMG_DEVICE_HEAP_H

#include <shmem.h>
#include <shmemg.h>
#include <stdio.h>
#include <stdlib.h>

static inline int device_init(int level, int *provided) {
  int const code = shmem_init_thread(level | SHMEM_DEVICE_HOST_INIT, provided);
  if (code != 0 || (*provided & SHMEM_DEVICE_HOST_INIT) == 0) {
    fprintf(stderr, "no device: %d\n", code);
    exit(1);
  }
  *provided &= ~SHMEM_DEVICE_HOST_INIT;
  return 0;
}
static inline void device_start(void) {
  int provided = 0;
  device_init(SHMEM_THREAD_SINGLE, &provided);
}

#define shmem_init() device_start()
#define start_pes(count) device_start()
#define shmem_init_thread(level, provided) device_init(level, provided)
#define shmem_malloc shmemg_malloc
#define shmem_calloc shmemg_calloc
#define shmem_align shmemg_align
#define shmem_free shmemg_free

#endif
