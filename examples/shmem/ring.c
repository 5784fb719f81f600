/* Each PE puts its number to its right neighbour with a signal, waits for its left one's, and all
 * add up what they received. oshcc ring.c -o ring && oshrun -n 4 ./ring */
#include <shmem.h>
#include <stdio.h>

static long received; /* symmetric: the same variable in each PE, accessed by put and get */
static uint64_t signals;
static long sum;

int main(void) {
  shmem_init();
  long const me = shmem_my_pe();
  int const count = shmem_n_pes();
  int const right = (int)(me + 1) % count;
  shmem_put_signal(&received, &me, 1, &signals, 1, SHMEM_SIGNAL_ADD, right);
  shmem_signal_wait_until(&signals, SHMEM_CMP_EQ, 1);
  shmem_sum_reduce(SHMEM_TEAM_WORLD, &sum, &received, 1);
  if (me == 0)
    printf("%d PEs, their numbers add up to %ld\n", count, sum);
  shmem_finalize();
  return sum == (long)count * (count - 1) / 2 ? 0 : 1;
}
