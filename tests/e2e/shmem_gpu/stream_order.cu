// Data stored by kernels of a stream are visible to all after a collective of the stream, which
// adds no fence for them: plain stores to the next PE's memory before a sync, and sources that
// kernels have just written before a reduction. usage: shmemg_stream_order [ROUNDS]
#include "stream_test.hpp"

using namespace kernel_test;

namespace {

TND_DEVICE u64 value_of(u64 i, u32 round, int pe) {
  return (u64(round) << 32) + i * 64 + u64(pe);
}

TND_KERNEL void store_at_next(u64 *box, u64 size, u32 round) {
  int const self = shmemg_my_pe(), next = (self + 1) % shmemg_n_pes();
  auto *const there = static_cast<u64 *>(shmemg_ptr(box, next));
  for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count()) {
    if (there != nullptr)
      there[i] = value_of(i, round, self);
    else
      shmemg_ulonglong_p(
          reinterpret_cast<unsigned long long *>(box) + i, value_of(i, round, self), next);
  }
  if (there == nullptr)
    shmemg_quiet();
}
TND_KERNEL void check_box(const u64 *box, u64 size, u32 round, findings *to) {
  int const all = shmemg_n_pes(), before = (shmemg_my_pe() + all - 1) % all;
  for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count())
    EXPECT(to, value_of(i, round, before), box[i]);
}
void check_stores(u64 size, u32 rounds) {
  auto *const box = allocate<u64>(size);
  for (u32 round = 1; round <= rounds; round++) {
    queue(store_at_next, box, size, round);
    REQUIRE(shmemx_sync_all_on_stream(stream) == 0);
    queue(check_box, box, size, round, found_here);
    REQUIRE(shmemx_sync_all_on_stream(stream) == 0);
  }
}

TND_KERNEL void make_source(u64 *source, u64 size, u32 round) {
  for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count())
    source[i] = value_of(i, round, shmemg_my_pe());
}
TND_KERNEL void check_sums(const u64 *sums, u64 size, u32 round, findings *to) {
  u64 const all = u64(shmemg_n_pes());
  for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count())
    EXPECT(to, all * value_of(i, round, 0) + all * (all - 1) / 2, sums[i]);
}
void check_sources(u64 size, u32 rounds) {
  auto *const source = allocate<unsigned long long>(size), *const sums =
                                                               allocate<unsigned long long>(size);
  for (u32 round = 1; round <= rounds; round++) {
    queue(make_source, reinterpret_cast<u64 *>(source), size, round);
    REQUIRE(shmemx_ulonglong_sum_reduce_on_stream(
                SHMEM_DEVICE_TEAM_WORLD, sums, source, size, stream) == 0);
    queue(check_sums, reinterpret_cast<u64 *>(sums), size, round, found_here);
  }
}

}  // namespace

int main(int argc, char **argv) {
  u32 const rounds = argc > 1 ? u32(std::strtoul(argv[1], nullptr, 10)) : 20;
  start();
  make_stream();
  for (u64 const size : {u64{64}, u64{20000}}) {
    check_stores(size, rounds);
    look(__LINE__);
  }
  for (u64 const size :
       {u64{1500}, u64{6000}, u64{40000}}) {  // one block with boxes, one without, many blocks
    check_sources(size, rounds);
    look(__LINE__);
  }
  return finish("stream_order");
}
