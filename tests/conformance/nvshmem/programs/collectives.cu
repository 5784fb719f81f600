// Collectives of kernels by a thread, a warp and a block, of host code and of streams, on all PEs
// and on teams; and queries of teams.
#include "check.h"

namespace {

constexpr int count = 100;

}  // namespace

__global__ void collect_all(nvshmem_team_t team, int *target, const int *source, int group) {
  if (group == 0 && threadIdx.x == 0)
    (void)nvshmem_int_fcollect(team, target, source, count);
  if (group == 1 && threadIdx.x < 32)
    (void)nvshmemx_int_fcollect_warp(team, target, source, count);
  if (group == 2)
    (void)nvshmemx_int_fcollect_block(team, target, source, count);
}
template <class T>
__global__ void reduce_all(nvshmem_team_t team, T *target, const T *source, int size);
template <>
__global__ void reduce_all(nvshmem_team_t team, float *target, const float *source, int size) {
  (void)nvshmemx_float_sum_reduce_block(team, target, source, size_t(size));
}
template <>
__global__ void reduce_all(nvshmem_team_t team, half *target, const half *source, int size) {
  (void)nvshmemx_half_sum_reduce_block(team, target, source, size_t(size));
}
__global__ void reduce_pairs(nvshmem_team_t team, double2 *target, const double2 *source) {
  (void)nvshmemx_double2_maxloc_reduce_block(team, target, source, 1);
}
__global__ void scatter_sums(nvshmem_team_t team, long *target, const long *source, int size) {
  (void)nvshmemx_long_sum_reducescatter_block(team, target, source, size_t(size));
}
__global__ void query_team(nvshmem_team_t team, int *answers) {
  answers[0] = nvshmem_team_my_pe(team);
  answers[1] = nvshmem_team_n_pes(team);
  answers[2] = nvshmem_team_translate_pe(team, 0, NVSHMEM_TEAM_WORLD);
  nvshmem_team_sync(team);
}

namespace {

// A team, and what its members are in the job.
struct members {
  nvshmem_team_t team;
  int first, step, total, me;

  int world(int member) const {
    return first + member * step;
  }
};

void test_collect(const members &group) {
  int *const source = symmetric_array(count, nvshmem_my_pe() + 1);
  int *const target = symmetric_array(size_t(count) * size_t(nvshmem_n_pes()), 0);
  for (int kind = 0; kind < 5 && group.total > 0; kind++) {
    CHECK_CUDA(cudaMemset(target, 0, sizeof(int) * count * size_t(group.total)));
    (void)nvshmem_team_sync(group.team);
    if (kind < 3)
      collect_all<<<1, 64>>>(group.team, target, source, kind);
    else if (kind == 3)
      CHECK(nvshmem_int_fcollect(group.team, target, source, count) == 0);
    else
      CHECK(nvshmemx_int_fcollect_on_stream(group.team, target, source, count, 0) == 0);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int member = 0; member < group.total; member++)
      CHECK(element(target, size_t(member) * count + 7) == group.world(member) + 1);
  }
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(target);
}

template <class T>
void test_sum(const members &group, size_t size) {
  T *const source = symmetric_array(size, T(float(nvshmem_my_pe() + 1)));
  T *const target = symmetric_array(size, T(0.0f));
  float sum = 0;
  for (int member = 0; member < group.total; member++)
    sum += float(group.world(member) + 1);
  if (group.total > 0) {
    reduce_all<T><<<1, 128>>>(group.team, target, source, int(size));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(float(element(target, size - 1)) == sum);
  }
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(target);
}

void test_reductions_of_streams() {
  int const total = nvshmem_n_pes();
  long *const source = symmetric_array(5000, long{2});
  long *const target = symmetric_array(5000, long{0});
  CHECK(nvshmemx_long_prod_reduce_on_stream(NVSHMEM_TEAM_WORLD, target, source, 5000, 0) == 0);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK(element(target, 4999) == 1L << total);
  CHECK(nvshmem_long_sum_reduce(NVSHMEM_TEAM_WORLD, target, source, 5000) == 0);
  CHECK(element(target, 0) == 2L * total);
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(target);
}

// In place, or into another array.
void test_scatter(bool is_in_place, int size) {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes();
  long *const source = symmetric_array(size_t(size) * size_t(total), long{0});
  long *const target = is_in_place ? source : symmetric_array(size_t(size), long{0});
  for (int i = 0; i < size * total; i++) {
    long const value = long{i} * (me + 1);
    CHECK_CUDA(cudaMemcpy(source + i, &value, sizeof value, cudaMemcpyDefault));
  }
  nvshmem_barrier_all();
  scatter_sums<<<1, 96>>>(NVSHMEM_TEAM_WORLD, target, source, size);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < size; i += 13)
    CHECK(element(target, size_t(i)) == long{me * size + i} * total * (total + 1) / 2);
  nvshmem_barrier_all();
  if (!is_in_place)
    nvshmem_free(target);
  nvshmem_free(source);
}

void test_largest() {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes();
  double2 *const source = symmetric_array(1, make_double2((me + 1) % total, me));
  double2 *const target = symmetric_array(1, make_double2(-1, -1));
  reduce_pairs<<<1, 32>>>(NVSHMEM_TEAM_WORLD, target, source);
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK(element(target, 0).x == total - 1);
  CHECK(element(target, 0).y == (total + total - 2) % total);
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(target);
}

void test_moves() {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes();
  int *const source = symmetric_array(size_t(total), me);
  int *const target = symmetric_array(size_t(total), -1);
  CHECK(nvshmem_int_broadcast(NVSHMEM_TEAM_WORLD, target, source, 1, total - 1) == 0);
  CHECK(element(target, 0) == total - 1);
  nvshmem_barrier_all();
  CHECK(nvshmemx_int_alltoall_on_stream(NVSHMEM_TEAM_WORLD, target, source, 1, 0) == 0);
  CHECK_CUDA(cudaDeviceSynchronize());
  for (int pe = 0; pe < total; pe++)
    CHECK(element(target, size_t(pe)) == pe);
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(target);
}

void test_queries(const members &group) {
  int *const answers = symmetric_array(3, -7);
  if (group.total > 0) {
    query_team<<<1, 1>>>(group.team, answers);
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(element(answers, 0) == group.me);
    CHECK(element(answers, 1) == group.total);
    CHECK(element(answers, 2) == group.first);
    CHECK(nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, nvshmem_my_pe(), group.team) == group.me);
    CHECK(nvshmem_barrier(group.team) == 0);
  }
  nvshmem_barrier_all();
  nvshmem_free(answers);
}

members split_odd_and_even() {
  int const me = nvshmem_my_pe(), total = nvshmem_n_pes();
  nvshmem_team_t even = NVSHMEM_TEAM_INVALID, odd = NVSHMEM_TEAM_INVALID;
  CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 0, 2, (total + 1) / 2, nullptr, 0, &even) ==
        0);
  if (total > 1)
    CHECK(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, 1, 2, total / 2, nullptr, 0, &odd) == 0);
  bool const is_odd = me % 2 != 0;
  CHECK((is_odd ? even : odd) == NVSHMEM_TEAM_INVALID);
  return {is_odd ? odd : even, is_odd ? 1 : 0, 2, is_odd ? total / 2 : (total + 1) / 2, me / 2};
}

}  // namespace

int main() {
  start();
  members const all{NVSHMEM_TEAM_WORLD, 0, 1, nvshmem_n_pes(), nvshmem_my_pe()};
  members const half_of_them = split_odd_and_even();
  for (const members &group : {all, half_of_them}) {
    test_queries(group);
    test_collect(group);
    test_sum<float>(group, 3000);
    test_sum<half>(group, 64);
  }
  test_reductions_of_streams();
  test_scatter(false, 300);
  test_scatter(true, 2000);
  test_largest();
  test_moves();
  nvshmem_team_destroy(half_of_them.team);
  return end();
}
