// C++: overloads where C11 has generic forms, with and without a context, beside the names of C.
#include <shmem.h>

#include <complex>
#include <cstdio>
#include <vector>

static int me, right, left, wrong;

#define REQUIRE(condition)                                                                 \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(                                                                        \
          stderr, "PE %d, %s:%d: %s does not hold\n", me, __FILE__, __LINE__, #condition); \
      wrong = 1;                                                                           \
    }                                                                                      \
  } while (0)

template <class T>
void memory() {
  static T target[4], more[4], strided[8];
  static uint64_t signal;
  T const own[4] = {T(me), T(me + 1), T(me + 2), T(me + 3)};
  T got[4] = {};
  shmem_put(target, own, 3, right);
  shmem_p(SHMEM_CTX_DEFAULT, target + 3, own[3], right);
  shmem_put_nbi(SHMEM_CTX_DEFAULT, more, own, 4, right);
  shmem_iput(strided, own, 2, 1, 4, right);
  shmem_barrier_all();
  for (int i = 0; i < 4; i++)
    REQUIRE(target[i] == T(left + i) && more[i] == T(left + i) && strided[2 * i] == T(left + i));
  shmem_get(got, target, 4, right);
  REQUIRE(got[3] == own[3] && shmem_g(target + 1, right) == own[1] &&
          shmem_g(SHMEM_CTX_DEFAULT, target, right) == own[0]);
  shmem_barrier_all();
  shmem_put_signal(more, own, 4, &signal, 1, SHMEM_SIGNAL_ADD, right);
  shmem_signal_wait_until(&signal, SHMEM_CMP_EQ, 1);
  REQUIRE(more[2] == T(left + 2));
  shmem_barrier_all();
  REQUIRE(shmem_broadcast(SHMEM_TEAM_WORLD, more, target, 4, 0) == 0 &&
          more[0] == T(shmem_n_pes() - 1));
  shmem_barrier_all();
}

template <class T>
void atomics() {
  static T word;
  shmem_atomic_set(&word, T(4), right);
  shmem_fence();
  shmem_atomic_add(SHMEM_CTX_DEFAULT, &word, T(2), right);
  REQUIRE(shmem_atomic_fetch_inc(&word, right) == 6 &&
          shmem_atomic_compare_swap(&word, T(7), T(9), right) == 7);
  REQUIRE(shmem_atomic_swap(SHMEM_CTX_DEFAULT, &word, T(11), right) == 9 &&
          shmem_atomic_fetch(&word, right) == 11);
  shmem_barrier_all();
  shmem_wait_until(&word, SHMEM_CMP_EQ, T(11));
  REQUIRE(shmem_test(&word, SHMEM_CMP_GT, T(3)));
  shmem_barrier_all();
}

int main() {
  shmem_init();
  int const count = shmem_n_pes();
  me = shmem_my_pe();
  right = (me + 1) % count;
  left = (me + count - 1) % count;
  memory<float>();
  memory<double>();
  memory<long double>();
  memory<char>();
  memory<signed char>();
  memory<unsigned short>();
  memory<int>();
  memory<long>();
  memory<unsigned long long>();
  memory<std::size_t>();
  atomics<int>();
  atomics<long>();
  atomics<unsigned int>();
  atomics<uint64_t>();
  auto *const heap = static_cast<long *>(shmem_calloc(8, sizeof(long)));
  std::vector<long> const own(8, me);
  shmem_long_put(heap, own.data(), own.size(), right);
  shmem_barrier_all();
  REQUIRE(heap[7] == left);
  shmem_team_t team = SHMEM_TEAM_INVALID;
  REQUIRE(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, count, nullptr, 0, &team) == 0);
  REQUIRE(shmem_sum_reduce(team, heap, heap, 1) == 0 && heap[0] == long(count) * (count - 1) / 2);
  shmem_team_destroy(team);
  shmem_barrier_all();
  if (wrong)
    shmem_global_exit(1);
  if (me == 0)
    std::printf("overloads passed with %d PEs\n", count);
  std::fflush(stdout);
  shmem_free(heap);
  shmem_finalize();
}
