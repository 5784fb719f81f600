// The profiling interface: a program that defines calls of the library itself and reaches the
// library's own by pshmem_.
#include "check.h"

void pshmem_int_put(int *target, const int *source, size_t count, int pe);
void pshmem_barrier_all(void);
long pshmem_ctx_long_atomic_fetch_inc(shmem_ctx_t context, long *target, int pe);

static int puts_seen, barriers_seen, fetches_seen;

void shmem_int_put(int *target, const int *source, size_t count, int pe) {
  puts_seen++;
  pshmem_int_put(target, source, count, pe);
}

void shmem_barrier_all(void) {
  barriers_seen++;
  pshmem_barrier_all();
}

long shmem_ctx_long_atomic_fetch_inc(shmem_ctx_t context, long *target, int pe) {
  fetches_seen++;
  return pshmem_ctx_long_atomic_fetch_inc(context, target, pe);
}

int main(void) {
  start("profiling");
  static int target[3];
  static long counter;
  int const own[3] = {me, me + 1, me + 2};
  shmem_int_put(target, own, 3, target_of(1));
  shmem_int_put(target, own, 0, target_of(1));
  shmem_barrier_all();
  REQUIRE(target[2] == source_of(1) + 2 && puts_seen == 2);
  REQUIRE(shmem_ctx_long_atomic_fetch_inc(SHMEM_CTX_DEFAULT, &counter, target_of(1)) == 0 &&
          fetches_seen == 1);
  int const before = barriers_seen;
  pshmem_barrier_all();
  REQUIRE(barriers_seen == before && before >= 1);
  shmem_pcontrol(0);
  shmem_pcontrol(1);
  shmem_pcontrol(2, "more", 3);
  return finish();
}
