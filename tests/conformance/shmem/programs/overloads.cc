// The same header in C++: the C names, and a program that is C++ throughout.
#include <shmem.h>

#include <complex>
#include <cstdio>
#include <vector>

int main() {
  shmem_init();
  int const me = shmem_my_pe(), count = shmem_n_pes(), right = (me + 1) % count, left = (me + count - 1) % count;
  static long word;
  static double pair[2];
  auto *const heap = static_cast<long *>(shmem_calloc(8, sizeof(long)));
  std::vector<long> own(8, me);
  shmem_long_put(heap, own.data(), own.size(), right);
  shmem_long_p(&word, me, right);
  double const mine[2] = {me + 0.5, -1.0};
  shmem_ctx_double_put_nbi(SHMEM_CTX_DEFAULT, pair, mine, 2, right);
  shmem_barrier_all();
  bool good = word == left && heap[7] == left && pair[0] == left + 0.5;
  good = good && shmem_long_atomic_fetch_add(&word, 1, right) == me;
  shmem_team_t team = SHMEM_TEAM_INVALID;
  good = good && shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, count, nullptr, 0, &team) == 0;
  shmem_sync_all();
  good = good && shmem_long_sum_reduce(team, heap, heap, 1) == 0 && heap[0] == long(count) * (count - 1) / 2;
  shmem_team_destroy(team);
  shmem_barrier_all();
  if (!good) {
    std::fprintf(stderr, "PE %d: a result is wrong\n", me);
    shmem_global_exit(1);
  }
  if (me == 0) std::printf("overloads passed with %d PEs\n", count);
  shmem_free(heap);
  shmem_finalize();
}
