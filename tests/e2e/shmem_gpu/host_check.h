// Shared parts of the programs host_*.c: check.h of OpenSHMEM's programs, a start with a device,
// and memory of each kind. No program here loads from or stores to device memory directly: they use
// calls.
#ifndef TND_TESTS_SHMEMG_HOST_CHECK_H
#define TND_TESTS_SHMEMG_HOST_CHECK_H

#include <shmemg.h>

#include "check.h"

// X(NAME, TYPE) of the types of atomics and waits. Separate from the library's own table, which the
// programs test.
#define AMO_TYPES(X)                \
  X(int, int);                      \
  X(long, long);                    \
  X(longlong, long long);           \
  X(uint, unsigned);                \
  X(ulong, unsigned long);          \
  X(ulonglong, unsigned long long); \
  X(int32, int32_t);                \
  X(int64, int64_t);                \
  X(uint32, uint32_t);              \
  X(uint64, uint64_t);              \
  X(size, size_t);                  \
  X(ptrdiff, ptrdiff_t)

static inline void start_device(const char *name) {
  int provided = -1;
  program = name;
  if (shmem_init_thread(SHMEM_THREAD_MULTIPLE | SHMEM_DEVICE_HOST_INIT, &provided) != 0)
    exit(1);
  me = shmem_my_pe();
  pe_count = shmem_n_pes();
  REQUIRE(provided == (SHMEM_THREAD_MULTIPLE | SHMEM_DEVICE_HOST_INIT));
}

static inline void *symmetric_device(size_t size) {
  void *const memory = shmemg_malloc(size);
  REQUIRE(memory != NULL);
  return memory;
}

// By calls, as either may be memory of the device.
static inline void copy_in(void *at, const void *from, size_t size) {
  shmem_putmem(at, from, size, me);
  shmem_quiet();
}
static inline void copy_out(void *to, const void *at, size_t size) {
  shmem_getmem(to, at, size, me);
}

static inline void fill_at(void *at, size_t size, unsigned seed) {
  void *const bytes = allocate(size);
  fill(bytes, size, seed);
  copy_in(at, bytes, size);
  free(bytes);
}
static inline int has_pattern_at(const void *at, size_t size, unsigned seed) {
  void *const bytes = allocate(size);
  copy_out(bytes, at, size);
  int const has = has_pattern(bytes, size, seed);
  free(bytes);
  return has;
}

#endif
