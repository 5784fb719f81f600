// Collectives in the order of a stream against their expected results: all types and operations by
// the tables, sizes to a mebibyte, teams, in sequence and between puts on that stream. The host
// queues all of it and checks at the end. "few": fewer sizes.
#include "stream_test.hpp"

#include <cstring>

using namespace kernel_test;
using tanada::shmem::device::reduction;

namespace {

u8 *target, *source;
u32 round_number = 0;  // each has data of its own
constexpr u64 piece_max = 1 << 20;

// Member i is PE start + i * step.
struct members {
  shmem_team_t team;
  int start, step, count, me;

  TND_HD int pe(int member) const {
    return start + step * member;
  }
};

// ---- transfers

enum class move { broadcast, fcollect, alltoall };

TND_DEVICE u8 pattern(int from, int to, u64 i, u32 round) {
  return u8(i * 11 + u64(from) * 37 + u64(to) * 101 + round * 7 + (i >> 7));
}

TND_KERNEL void fill_pieces(u8 *to, u8 *cleared, u64 size, members all, u32 round) {
  for (int member = 0; member < all.count; member++)
    for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count()) {
      to[u64(member) * size + i] = pattern(all.me, member, i, round);
      cleared[u64(member) * size + i] = 0;
    }
}
TND_KERNEL void check_pieces(
    const u8 *in, u64 size, members all, move what, int root, u32 round, findings *to) {
  int const pieces = what == move::broadcast ? 1 : all.count;
  for (int member = 0; member < pieces; member++)
    for (u64 i = simt::global_thread_rank(); i < size; i += grid_thread_count()) {
      int const from = what == move::broadcast ? root : member;
      EXPECT(to,
             pattern(from, what == move::alltoall ? all.me : 0, i, round),
             in[u64(member) * size + i]);
    }
}

struct move_row {
  size_t size;
  int (*broadcast)(shmem_team_t, void *, const void *, size_t, int, shmemx_stream_t);
  int (*fcollect)(shmem_team_t, void *, const void *, size_t, shmemx_stream_t);
  int (*alltoall)(shmem_team_t, void *, const void *, size_t, shmemx_stream_t);
};
#define MOVE_ROW(NAME, TYPE, A)                                                                    \
  {sizeof(TYPE),                                                                                   \
   [](shmem_team_t team, void *to, const void *from, size_t count, int root, shmemx_stream_t on) { \
     return shmemx_##NAME##_broadcast_on_stream(                                                   \
         team, static_cast<TYPE *>(to), static_cast<const TYPE *>(from), count, root, on);         \
   },                                                                                              \
   [](shmem_team_t team, void *to, const void *from, size_t count, shmemx_stream_t on) {           \
     return shmemx_##NAME##_fcollect_on_stream(                                                    \
         team, static_cast<TYPE *>(to), static_cast<const TYPE *>(from), count, on);               \
   },                                                                                              \
   [](shmem_team_t team, void *to, const void *from, size_t count, shmemx_stream_t on) {           \
     return shmemx_##NAME##_alltoall_on_stream(                                                    \
         team, static_cast<TYPE *>(to), static_cast<const TYPE *>(from), count, on);               \
   }},
const move_row by_bytes{
    1, shmemx_broadcastmem_on_stream, shmemx_fcollectmem_on_stream, shmemx_alltoallmem_on_stream};
const move_row by_type[] = {SHMEM_TABLE_RMA(MOVE_ROW, )};

void check_move(const move_row &row, const members &all, move what, size_t elements, int root) {
  u64 const size = elements * row.size;
  u32 const round = round_number++;
  queue(fill_pieces, source, target, size, all, round);
  REQUIRE(shmemx_team_barrier_on_stream(all.team, stream) == 0);
  if (what == move::broadcast)
    REQUIRE(row.broadcast(all.team, target, source, elements, root, stream) == 0);
  if (what == move::fcollect)
    REQUIRE(row.fcollect(all.team, target, source, elements, stream) == 0);
  if (what == move::alltoall)
    REQUIRE(row.alltoall(all.team, target, source, elements, stream) == 0);
  queue(check_pieces, target, size, all, what, root, round, found_here);
}

void check_moves(const members &all, bool few) {
  for (size_t const size : {1, 3, 8, 100, 1000, 4096, 4100, 20001, 33000, 65536, 200001, 1 << 20}) {
    if (few && size > 100 && size != 4100 && size != 65536)
      continue;
    for (int root = 0; root < all.count; root++)
      check_move(by_bytes, all, move::broadcast, size, root);
    check_move(by_bytes, all, move::fcollect, size, 0);
    check_move(by_bytes, all, move::alltoall, size, 0);
    look(__LINE__);
  }
  for (auto const &row : by_type)
    for (size_t const count_of : {7, 1500}) {
      if (few && count_of != 7)
        continue;
      check_move(row, all, move::broadcast, count_of, all.count - 1);
      check_move(row, all, move::fcollect, count_of, 0);
      check_move(row, all, move::alltoall, count_of, 0);
    }
  look(__LINE__);
}

// ---- reductions

template <class T>
TND_DEVICE T element_of(int pe, u64 i, u32 round) {
  return T((u64(pe) * 3 + i + round) % 5 + 1);
}
template <class T>
TND_KERNEL void fill_elements(T *to, u64 elements, members all, u32 round) {
  for (u64 i = simt::global_thread_rank(); i < elements; i += grid_thread_count())
    to[i] = element_of<T>(all.pe(all.me), i, round);
}
template <reduction Op, class T>
TND_KERNEL void check_elements(const T *in, u64 elements, members all, u32 round, findings *to) {
  for (u64 i = simt::global_thread_rank(); i < elements; i += grid_thread_count()) {
    T expected = element_of<T>(all.pe(0), i, round);
    for (int member = 1; member < all.count; member++)
      expected =
          tanada::shmem::device::combine<Op>(expected, element_of<T>(all.pe(member), i, round));
    EXPECT(to, 1, expected == in[i]);
  }
}

// Alternately into another array, in place, and into one with another alignment than the source.
template <reduction Op, class T, class Call>
void check_reduce(const members &all, size_t elements, Call call) {
  u32 const round = round_number++;
  T *const from = reinterpret_cast<T *>(source);
  T *const to = round % 3 == 1 ? from : reinterpret_cast<T *>(target) + round % 3 / 2;
  queue(fill_elements<T>, from, elements, all, round);
  REQUIRE(shmemx_team_barrier_on_stream(all.team, stream) == 0);
  REQUIRE(call(all.team, to, from, elements, stream) == 0);
  queue(check_elements<Op, T>, to, elements, all, round, found_here);
}

constexpr size_t reduce_counts[] = {1, 3, 600, 1025, 9001, 33000};
size_t reduce_count_end = 6;  // of which this many are tested

#define CHECK_REDUCE(NAME, TYPE, OP, KIND)                                             \
  for (size_t i = 0; i < reduce_count_end; i++)                                        \
    check_reduce<reduction::KIND, TYPE>(all, reduce_counts[i], [](auto... arguments) { \
      return shmemx_##NAME##_##OP##_reduce_on_stream(arguments...);                    \
    });
#define REDUCE_ROW(NAME, TYPE, A)      \
  CHECK_REDUCE(NAME, TYPE, sum, sum)   \
  CHECK_REDUCE(NAME, TYPE, prod, prod) \
  CHECK_REDUCE(NAME, TYPE, min, min)   \
  CHECK_REDUCE(NAME, TYPE, max, max)
#define REDUCE_BITS_ROW(NAME, TYPE, A)   \
  CHECK_REDUCE(NAME, TYPE, and, bit_and) \
  CHECK_REDUCE(NAME, TYPE, or, bit_or)   \
  CHECK_REDUCE(NAME, TYPE, xor, bit_xor)

void check_reductions(const members &all, bool few) {
  reduce_count_end = few ? 2 : 6;
  SHMEMG_TABLE_REDUCE(REDUCE_ROW, )
  SHMEM_TABLE_REDUCE_BITS(REDUCE_BITS_ROW, )
  look(__LINE__);
  if (few)
    CHECK_REDUCE(float, float, sum, sum)
  CHECK_REDUCE(double, double, max, max)
  check_reduce<reduction::sum, float>(all, few ? 12000 : piece_max / 4, [](auto... a) {
    return shmemx_float_sum_reduce_on_stream(a...);
  });
  look(__LINE__);
}

// ---- in sequence

TND_KERNEL void number_places(u64 *to, u64 places, int pe) {
  for (u64 i = simt::global_thread_rank(); i < places; i += grid_thread_count())
    to[i] = i * 64 + u64(pe);
}
TND_KERNEL void check_row(
    const u64 *broadcasts, const u64 *sums, u64 rows, members all, findings *to) {
  for (u64 i = simt::global_thread_rank(); i < rows; i += grid_thread_count()) {
    EXPECT(to, i * 64 + u64(all.pe(int(i) % all.count)), broadcasts[i]);
    u64 sum = 0;
    for (int member = 0; member < all.count; member++)
      sum += i * 64 + u64(all.pe(member));
    EXPECT(to, sum, sums[i]);
  }
}
// Only collectives, each with its own memory: a fast PE must not overtake a slow one.
void check_in_a_row(const members &all, u64 rows) {
  u64 *const to = reinterpret_cast<u64 *>(target), *const from = reinterpret_cast<u64 *>(source);
  queue(number_places, from, rows, all.pe(all.me));
  REQUIRE(shmemx_team_sync_on_stream(all.team, stream) == 0);
  for (u64 i = 0; i < rows; i++) {
    REQUIRE(shmemx_ulonglong_broadcast_on_stream(
                all.team, to + i, from + i, 1, int(i) % all.count, stream) == 0);
    if (i % 5 == 0)
      REQUIRE(shmemx_ulonglong_sum_reduce_on_stream(
                  all.team, to + rows + i, from + i, rows - i < 5 ? rows - i : 5, stream) == 0);
  }
  queue(check_row, to, to + rows, rows, all, found_here);
  REQUIRE(shmemx_team_barrier_on_stream(all.team, stream) == 0);
  look(__LINE__);
}

TND_KERNEL void make_part(u64 *own, u64 *result, u64 elements, u32 round) {
  for (u64 i = simt::global_thread_rank(); i < elements; i += grid_thread_count()) {
    own[i] = u64(shmemg_my_pe()) * 1000 + i + round;
    result[i] = 0;
  }
}
TND_KERNEL void check_sum_of_parts(const u64 *sums, u64 elements, u32 round, findings *to) {
  u64 const all = u64(shmemg_n_pes());
  for (u64 i = simt::global_thread_rank(); i < elements; i += grid_thread_count())
    EXPECT(to, all * (all - 1) / 2 * 1000 + all * (i + round), sums[i]);
}
// Each PE puts its part to the next, which sums the received data: puts, signals and collectives
// have one order.
void check_between_puts(u64 elements, u32 rounds) {
  u64 *const received = reinterpret_cast<u64 *>(target), *const result = received + elements,
             *const own = reinterpret_cast<u64 *>(source);
  auto *const signal = allocate<uint64_t>(1);
  int const next = (me + 1) % count;
  for (u32 round = 1; round <= rounds; round++) {
    queue(make_part, own, result, elements, round);
    shmemx_putmem_signal_on_stream(
        received, own, elements * sizeof(u64), signal, round, SHMEM_SIGNAL_SET, next, stream);
    shmemx_signal_wait_until_on_stream(signal, SHMEM_CMP_GE, round, stream);
    REQUIRE(shmemx_ulonglong_sum_reduce_on_stream(
                SHMEM_DEVICE_TEAM_WORLD, result, received, elements, stream) == 0);
    queue(check_sum_of_parts, result, elements, round, found_here);
    if (round % 2 == 0)
      REQUIRE(shmemx_sync_all_on_stream(stream) == 0);
    else
      shmemx_barrier_all_on_stream(stream);
  }
  look(__LINE__);
}

void check_team(const members &all, bool few) {
  if (all.me < 0)
    return;
  check_moves(all, few);
  check_reductions(all, few);
  check_in_a_row(all, few ? 20 : 200);
}

}  // namespace

int main(int argc, char **argv) {
  bool const few = argc > 1 && std::strcmp(argv[1], "few") == 0;
  start();
  make_stream();
  target = allocate<u8>(piece_max * size_t(count) + 64);
  source = allocate<u8>(piece_max * size_t(count) + 64);
  check_team({SHMEM_DEVICE_TEAM_WORLD, 0, 1, count, me}, few);
  shmem_barrier_all();
  check_between_puts(200, few ? 6 : 40);
  if (!few)
    check_between_puts(30000, 4);
  shmem_barrier_all();
  // Every other PE, from the last on.
  shmem_team_t team = SHMEM_TEAM_INVALID;
  int const size = (count + 1) / 2, first = (count - 1) % 2;
  REQUIRE(shmem_team_split_strided(SHMEM_DEVICE_TEAM_WORLD, first, 2, size, nullptr, 0, &team) ==
          0);
  if (team != SHMEM_TEAM_INVALID) {
    check_team({team, first, 2, size, shmem_team_my_pe(team)}, true);
    shmem_team_destroy(team);
  }
  shmem_barrier_all();
  return finish("streams");
}
