// The device's heap: allocations, zeros, alignments, its end; both heaps at once.
#include "host_check.h"

int main(void) {
  start_device("host_memory");
  REQUIRE(shmemx_device_kind() != SHMEMX_DEVICE_NONE);
  REQUIRE(shmemg_malloc(0) == NULL && shmemg_calloc(0, 8) == NULL && shmemg_calloc(8, 0) == NULL &&
          shmemg_align(64, 0) == NULL && shmemg_align(48, 8) == NULL);
  shmemg_free(NULL);
  REQUIRE(shmemg_malloc(SIZE_MAX / 2) == NULL && shmemg_calloc(SIZE_MAX, 2) == NULL &&
          shmemg_malloc(SIZE_MAX) == NULL);

  char *const dirty = symmetric_device(1 << 16);
  fill_at(dirty, 1 << 16, 5);
  shmemg_free(dirty);
  char *const zeros = shmemg_calloc(1 << 10, 64), *const seen = allocate(1 << 16);
  REQUIRE(zeros == dirty);
  copy_out(seen, zeros, 1 << 16);
  for (int i = 0; i < 1 << 16; i++)
    REQUIRE(seen[i] == 0);

  for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
    char *const piece = shmemg_align(alignment, 100);
    REQUIRE(piece != NULL && (uintptr_t)piece % alignment == 0);
    shmemg_free(piece);
  }

  // Equal offsets in all PEs; memory of one heap never becomes the other's.
  char *const host = symmetric(1 << 16);
  REQUIRE(shmem_addr_accessible(zeros, me) && shmem_addr_accessible(host, me));
  for (int pe = 0; pe < pe_count; pe++) {
    REQUIRE(shmem_addr_accessible(zeros, pe));
    REQUIRE(shmem_ptr(zeros, pe) != NULL && shmem_ptr(host, pe) != NULL);
  }
  REQUIRE(shmem_ptr(zeros, me) == (void *)zeros && shmem_ptr(zeros, pe_count) == NULL &&
          shmem_ptr(zeros, -1) == NULL);
  int const next = (me + 1) % pe_count, before = (me + pe_count - 1) % pe_count;
  fill_at(zeros, 1 << 16, (unsigned)me);
  shmem_barrier_all();
  shmem_putmem(host, zeros, 1 << 16, next);
  shmem_barrier_all();
  REQUIRE(has_pattern(host, 1 << 16, (unsigned)before));
  shmem_free(host);
  shmemg_free(zeros);

  size_t total = 0;
  enum { PIECES = 4096 };
  void *pieces[PIECES];
  int count = 0;
  for (; count < PIECES; count++) {
    pieces[count] = shmemg_malloc(1 << 16);
    if (pieces[count] == NULL)
      break;
    total += 1 << 16;
  }
  REQUIRE(total >= 1 << 20);
  if (count < PIECES)
    REQUIRE(shmemg_malloc(1 << 16) == NULL);
  void *const other = shmem_malloc(1 << 16);  // the host's heap has its own
  REQUIRE(other != NULL);
  shmem_free(other);
  while (count > 0)
    shmemg_free(pieces[--count]);
  REQUIRE(symmetric_device(total / 2) != NULL);
  free(seen);
  return finish();
}
