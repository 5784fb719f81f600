/*
 * bench/shmemg/host_calls.c: OpenSHMEM calls of the host on memory of devices: microseconds for a
 * call, GB/s of large puts. From PE 0 to the last PE. Prints lines "name value unit". Run with
 * oshrun -n 2.
 */
#include <shmem.h>
#include <shmemg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { rounds = 2000, warm = 50, large_rounds = 10 };
static const size_t large = (size_t)256 << 20;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

#define MEASURE(NAME, COUNT, CALL)                           \
  do {                                                       \
    double begin = 0;                                        \
    for (int i = 0; i < (COUNT) + warm; i++) {               \
      if (i == warm)                                         \
        begin = now();                                       \
      CALL;                                                  \
    }                                                        \
    printf("%s %.3f us\n", NAME, (now() - begin) / (COUNT)); \
    shmem_quiet();                                           \
  } while (0)

int main(void) {
  int provided = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_HOST_INIT, &provided) != 0 ||
      !(provided & SHMEM_DEVICE_HOST_INIT))
    return 1;
  int const me = shmem_my_pe(), peer = shmem_n_pes() - 1;
  char *const target = shmemg_malloc(large), *const source = shmemg_malloc(large);
  uint64_t *const word = shmemg_calloc(8, sizeof *word);
  uint64_t *const host = shmem_calloc(8, sizeof *host);
  if (target == NULL || source == NULL || word == NULL || host == NULL) {
    fprintf(stderr, "SHMEM_DEVICE_SYMMETRIC_SIZE is too small\n");
    shmem_global_exit(1);
  }
  uint64_t mine = 7;
  shmem_barrier_all();
  if (me == 0) {
    MEASURE("put_quiet_peer_8", rounds, (shmem_putmem(target, source, 8, peer), shmem_quiet()));
    MEASURE("put_local_own_8", rounds, shmem_putmem(target, &mine, 8, me));
    MEASURE("put_quiet_own_8", rounds, (shmem_putmem(target, &mine, 8, me), shmem_quiet()));
    MEASURE("p_quiet_peer_8", rounds, (shmem_uint64_p(word, mine, peer), shmem_quiet()));
    MEASURE("g_peer_8", rounds, mine += shmem_uint64_g(word, peer));
    MEASURE("fetch_add_peer_8", rounds, mine += shmem_uint64_atomic_fetch_add(word, 1, peer));
    MEASURE("put_signal_quiet_peer_8",
            rounds,
            (shmem_putmem_signal(target, source, 8, host, mine, SHMEM_SIGNAL_SET, peer),
             shmem_quiet()));
    double const begin = now();
    for (int i = 0; i < large_rounds; i++)
      shmem_putmem_nbi(target, source, large, peer);
    shmem_quiet();
    printf("put_quiet_peer_%zu %.1f GB/s\n",
           large,
           (double)large * large_rounds / (now() - begin) / 1e3);
  }
  shmem_barrier_all();
  shmem_finalize();
  return mine == 0;
}
