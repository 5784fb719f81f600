/*
 * bench/shmemg/pairs.c: puts and gets of the host between two PEs, from either kind of memory to
 * either kind (pairs.h). TND_PGAS_NODE=none makes PEs of one machine act as nodes. Run with
 * oshrun -n 2.
 */
#include <shmem.h>
#include <shmemg.h>
#include <stdint.h>
#include <string.h>

#include "pairs.h"

enum call { PUT, GET };
static const char *const call_names[] = {"put", "get"};

static char *local[PAIRS_SIDES], *remote[PAIRS_SIDES];
static int peer;

static void start(enum call call, int source, int target, size_t offset, size_t size) {
  if (call == PUT)
    shmem_putmem_nbi(remote[target] + offset, local[source] + offset, size, peer);
  else
    shmem_getmem_nbi(local[target] + offset, remote[source] + offset, size, peer);
}

static double one_by_one_us(enum call call, int source, int target, size_t size, int rounds) {
  double begin = 0;
  for (int i = 0; i < rounds + PAIRS_WARM; i++) {
    if (i == PAIRS_WARM)
      begin = pairs_now_us();
    start(call, source, target, 0, size);
    shmem_quiet();
  }
  return (pairs_now_us() - begin) / rounds;
}

static void measure(enum call call, int source, int target, size_t size, int rounds_max) {
  double const us = one_by_one_us(call, source, target, size, pairs_rounds(size, rounds_max));
  pairs_print_latency(call_names[call], source, target, size, us);
  int const count = pairs_count(size), windows = pairs_bounded(pairs_window / size, 3, 8);
  double begin = 0;
  for (int i = 0; i < windows + 1; i++) {
    if (i == 1)
      begin = pairs_now_us();
    for (int k = 0; k < count; k++)
      start(call, source, target, (size_t)k * size % pairs_size_max, size);
    shmem_quiet();
  }
  double const bytes = (double)size * count * windows;
  pairs_print_rate(call_names[call], source, target, size, bytes, pairs_now_us() - begin);
}

/* The last byte of the largest put and get must have arrived. */
static int is_moved(void) {
  unsigned char byte = 42, back = 0;
  for (int source = 0; source < PAIRS_SIDES; source++)
    for (int target = 0; target < PAIRS_SIDES; target++, byte++) {
      shmem_putmem(local[source] + pairs_size_max - 1, &byte, 1, shmem_my_pe());
      shmem_quiet();
      start(PUT, source, target, 0, pairs_size_max);
      shmem_quiet();
      shmem_getmem(&back, remote[target] + pairs_size_max - 1, 1, peer);
      if (back != byte) {
        fprintf(stderr, "wrong byte: put from %c\n", pairs_letter(source));
        return 0;
      }
    }
  return 1;
}

int main(int argc, char **argv) {
  int const rounds_max = pairs_rounds_max(argc, argv), sizes = pairs_sizes(argc, argv);
  int provided = 0, code = 0;
  if (shmem_init_thread(SHMEM_THREAD_SINGLE | SHMEM_DEVICE_HOST_INIT, &provided) != 0 ||
      !(provided & SHMEM_DEVICE_HOST_INIT))
    return 1;
  peer = shmem_n_pes() - 1;
  local[PAIRS_HOST] = shmem_malloc(pairs_size_max);
  remote[PAIRS_HOST] = shmem_malloc(pairs_size_max);
  local[PAIRS_DEVICE] = shmemg_malloc(pairs_size_max);
  remote[PAIRS_DEVICE] = shmemg_malloc(pairs_size_max);
  for (int side = 0; side < PAIRS_SIDES; side++)
    if (local[side] == NULL || remote[side] == NULL) {
      fprintf(stderr, "the symmetric heaps need 192 MiB each\n");
      shmem_global_exit(1);
    }
  memset(local[PAIRS_HOST], 1, pairs_size_max);
  memset(remote[PAIRS_HOST], 1, pairs_size_max);
  shmem_putmem(local[PAIRS_DEVICE], local[PAIRS_HOST], pairs_size_max, shmem_my_pe());
  shmem_putmem(remote[PAIRS_DEVICE], local[PAIRS_HOST], pairs_size_max, shmem_my_pe());
  shmem_barrier_all();
  if (shmem_my_pe() == 0) {
    code = is_moved() ? 0 : 1;
    for (int index = 0; index < sizes && code == 0; index++)
      for (int source = 0; source < PAIRS_SIDES; source++)
        for (int target = 0; target < PAIRS_SIDES; target++)
          for (enum call call = PUT; call <= GET; call++)
            measure(call, source, target, pairs_size(index), rounds_max);
  }
  shmem_barrier_all();
  if (code != 0)
    shmem_global_exit(code);
  shmem_finalize();
  return code;
}
