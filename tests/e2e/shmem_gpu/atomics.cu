// Atomic operations in kernels, for each type; no update is lost when threads of all PEs use one
// word.
#include "kernel_test.hpp"

using namespace kernel_test;

namespace {

// By one PE on the next one's words, which no other PE accesses.
#define CHECK_EXTENDED(NAME, TYPE, A)                                                        \
  {                                                                                          \
    using type = TYPE;                                                                       \
    TYPE *const at = reinterpret_cast<TYPE *>(words), *const got =                           \
                                                          reinterpret_cast<TYPE *>(fetched); \
    shmemg_##NAME##_atomic_set(at, type(7), next);                                           \
    shmemg_quiet();                                                                          \
    EXPECT(to, type(7) == shmemg_##NAME##_atomic_fetch(at, next), 1);                        \
    EXPECT(to, type(7) == shmemg_##NAME##_atomic_swap(at, type(9), next), 1);                \
    shmemg_##NAME##_atomic_fetch_nbi(got, at, next);                                         \
    shmemg_##NAME##_atomic_swap_nbi(got + 1, at, type(11), next);                            \
    shmemg_quiet();                                                                          \
    EXPECT(to, type(9) == got[0], 1);                                                        \
    EXPECT(to, type(9) == got[1], 1);                                                        \
    shmemg_ctx_##NAME##_atomic_set(ctx, at, type(12), next);                                 \
    shmemg_ctx_quiet(ctx);                                                                   \
    EXPECT(to, type(12) == shmemg_ctx_##NAME##_atomic_fetch(ctx, at, next), 1);              \
    EXPECT(to, type(12) == shmemg_ctx_##NAME##_atomic_swap(ctx, at, type(3), next), 1);      \
    shmemg_ctx_##NAME##_atomic_fetch_nbi(ctx, got, at, next);                                \
    shmemg_ctx_##NAME##_atomic_swap_nbi(ctx, got + 1, at, type(0), next);                    \
    shmemg_ctx_quiet(ctx);                                                                   \
    EXPECT(to, type(3) == got[0] && type(3) == got[1], 1);                                   \
  }

#define CHECK_AMO(NAME, TYPE, A)                                                             \
  {                                                                                          \
    using type = TYPE;                                                                       \
    TYPE *const at = reinterpret_cast<TYPE *>(words), *const got =                           \
                                                          reinterpret_cast<TYPE *>(fetched); \
    shmemg_##NAME##_atomic_set(at, 5, next);                                                 \
    shmemg_quiet();                                                                          \
    EXPECT(to, 5, shmemg_##NAME##_atomic_compare_swap(at, 4, 8, next));                      \
    EXPECT(to, 5, shmemg_##NAME##_atomic_compare_swap(at, 5, 8, next));                      \
    EXPECT(to, 8, shmemg_ctx_##NAME##_atomic_compare_swap(ctx, at, 8, 6, next));             \
    shmemg_##NAME##_atomic_compare_swap_nbi(got, at, 6, 20, next);                           \
    shmemg_ctx_##NAME##_atomic_compare_swap_nbi(ctx, got + 1, at, 20, 21, next);             \
    shmemg_quiet();                                                                          \
    EXPECT(to, 6, got[0]);                                                                   \
    EXPECT(to, 20, got[1]);                                                                  \
    EXPECT(to, 21, shmemg_##NAME##_atomic_fetch_inc(at, next));                              \
    EXPECT(to, 22, shmemg_ctx_##NAME##_atomic_fetch_inc(ctx, at, next));                     \
    shmemg_##NAME##_atomic_inc(at, next);                                                    \
    shmemg_ctx_##NAME##_atomic_inc(ctx, at, next);                                           \
    shmemg_##NAME##_atomic_fetch_inc_nbi(got, at, next);                                     \
    shmemg_ctx_##NAME##_atomic_fetch_inc_nbi(ctx, got + 1, at, next);                        \
    shmemg_quiet();                                                                          \
    EXPECT(to, 25, got[0]);                                                                  \
    EXPECT(to, 26, got[1]);                                                                  \
    EXPECT(to, 27, shmemg_##NAME##_atomic_fetch_add(at, type(-7), next));                    \
    EXPECT(to, 20, shmemg_ctx_##NAME##_atomic_fetch_add(ctx, at, 10, next));                 \
    shmemg_##NAME##_atomic_add(at, 100, next);                                               \
    shmemg_ctx_##NAME##_atomic_add(ctx, at, 1000, next);                                     \
    shmemg_##NAME##_atomic_fetch_add_nbi(got, at, 1, next);                                  \
    shmemg_ctx_##NAME##_atomic_fetch_add_nbi(ctx, got + 1, at, 1, next);                     \
    shmemg_quiet();                                                                          \
    EXPECT(to, 1130, got[0]);                                                                \
    EXPECT(to, 1131, got[1]);                                                                \
    EXPECT(to, 1132, shmemg_##NAME##_atomic_fetch(at, next));                                \
  }

#define CHECK_BIT(NAME, OP, BEFORE, WITH, AFTER)                                  \
  shmemg_##NAME##_atomic_set(at, BEFORE, next);                                   \
  EXPECT(to, BEFORE, shmemg_##NAME##_atomic_fetch_##OP(at, WITH, next));          \
  EXPECT(to, AFTER, shmemg_##NAME##_atomic_swap(at, BEFORE, next));               \
  EXPECT(to, BEFORE, shmemg_ctx_##NAME##_atomic_fetch_##OP(ctx, at, WITH, next)); \
  EXPECT(to, AFTER, shmemg_##NAME##_atomic_swap(at, BEFORE, next));               \
  shmemg_##NAME##_atomic_##OP(at, WITH, next);                                    \
  EXPECT(to, AFTER, shmemg_##NAME##_atomic_swap(at, BEFORE, next));               \
  shmemg_ctx_##NAME##_atomic_##OP(ctx, at, WITH, next);                           \
  EXPECT(to, AFTER, shmemg_##NAME##_atomic_swap(at, BEFORE, next));               \
  shmemg_##NAME##_atomic_fetch_##OP##_nbi(got, at, WITH, next);                   \
  shmemg_quiet();                                                                 \
  EXPECT(to, BEFORE, got[0]);                                                     \
  shmemg_ctx_##NAME##_atomic_fetch_##OP##_nbi(ctx, got, at, WITH, next);          \
  shmemg_quiet();                                                                 \
  EXPECT(to, AFTER, got[0]);

#define CHECK_BITS(NAME, TYPE, A)                                                            \
  {                                                                                          \
    TYPE *const at = reinterpret_cast<TYPE *>(words), *const got =                           \
                                                          reinterpret_cast<TYPE *>(fetched); \
    CHECK_BIT(NAME, and, 12, 10, 8)                                                          \
    CHECK_BIT(NAME, or, 12, 10, 14)                                                          \
  }
#define CHECK_XOR(NAME, TYPE, A)                                                             \
  {                                                                                          \
    TYPE *const at = reinterpret_cast<TYPE *>(words), *const got =                           \
                                                          reinterpret_cast<TYPE *>(fetched); \
    shmemg_##NAME##_atomic_set(at, 12, next);                                                \
    EXPECT(to, 12, shmemg_##NAME##_atomic_fetch_xor(at, 10, next));                          \
    EXPECT(to, 6, shmemg_ctx_##NAME##_atomic_fetch_xor(ctx, at, 10, next));                  \
    shmemg_##NAME##_atomic_xor(at, 1, next);                                                 \
    shmemg_ctx_##NAME##_atomic_xor(ctx, at, 2, next);                                        \
    shmemg_##NAME##_atomic_fetch_xor_nbi(got, at, 4, next);                                  \
    shmemg_ctx_##NAME##_atomic_fetch_xor_nbi(ctx, got + 1, at, 4, next);                     \
    shmemg_quiet();                                                                          \
    EXPECT(to, 15, got[0]);                                                                  \
    EXPECT(to, 11, got[1]);                                                                  \
  }

TND_KERNEL void check_extended(u64 *words, u64 *fetched, shmem_ctx_t ctx, findings *to) {
  int const next = (shmemg_my_pe() + 1) % shmemg_n_pes();
  SHMEM_TABLE_AMO_EXTENDED(CHECK_EXTENDED, )
}
TND_KERNEL void check_integers(u64 *words, u64 *fetched, shmem_ctx_t ctx, findings *to) {
  int const next = (shmemg_my_pe() + 1) % shmemg_n_pes();
  SHMEM_TABLE_AMO(CHECK_AMO, )
}
TND_KERNEL void check_bits(u64 *words, u64 *fetched, shmem_ctx_t ctx, findings *to) {
  int const next = (shmemg_my_pe() + 1) % shmemg_n_pes();
  SHMEM_TABLE_AMO_BITS(CHECK_BITS, )
  SHMEM_TABLE_AMO_BITS(CHECK_XOR, )
}

// Every thread of every PE takes tickets at PE 0: each ticket is taken once.
TND_KERNEL void tickets(u64 *counter, u32 *taken, u32 rounds) {
  for (u32 i = 0; i < rounds; i++) {
    unsigned long const mine =
        shmemg_ulong_atomic_fetch_add(reinterpret_cast<unsigned long *>(counter), 1, 0);
    shmemg_uint_atomic_inc(taken + mine, 0);
  }
  shmemg_quiet();
}
TND_KERNEL void check_tickets(const u64 *counter, const u32 *taken, u64 all, findings *to) {
  EXPECT(to, all, *counter);
  for (u64 i = 0; i < all; i++)
    EXPECT(to, 1, taken[i]);
}

// A spinlock of compare_swap protects data that plain puts and gets change.
TND_KERNEL void under_lock(u64 *lock, u64 *value, u32 rounds) {
  for (u32 i = 0; i < rounds; i++) {
    while (shmemg_ulong_atomic_compare_swap(
               reinterpret_cast<unsigned long *>(lock), 0, u64(shmemg_my_pe()) + 1, 0) != 0)
      simt::pause();
    shmemg_fence();
    u64 const seen = shmemg_ulong_g(reinterpret_cast<const unsigned long *>(value), 0) + 1;
    shmemg_putmem(value, &seen, sizeof seen, 0);
    shmemg_quiet();
    shmemg_ulong_atomic_set(reinterpret_cast<unsigned long *>(lock), 0, 0);
  }
  shmemg_quiet();
}
TND_KERNEL void check_value(const u64 *value, u64 expected, findings *to) {
  EXPECT(to, expected, *value);
}

}  // namespace

int main(int argc, char **argv) {
  start();
  u32 const rounds = argc > 1 ? u32(std::atoi(argv[1])) : 10;
  u64 *const words = allocate<u64>(8), *const fetched = allocate<u64>(8),
             *const counter = allocate<u64>(1), *const lock = allocate<u64>(2);
  u64 const ticket_count = u64(count) * 2 * 64 * rounds;
  u32 *const taken = allocate<u32>(ticket_count);
  shmem_ctx_t const ctx = SHMEM_DEVICE_CTX_DEFAULT;
  RUN(1, 1, check_extended, words, fetched, ctx, found_here);
  RUN(1, 1, check_integers, words, fetched, ctx, found_here);
  RUN(1, 1, check_bits, words, fetched, ctx, found_here);
  RUN(2, 64, tickets, counter, taken, rounds);
  if (me == 0) {
    simt::launch(
        simt::dim3(1), simt::dim3(1), check_tickets, counter, taken, ticket_count, found_here);
    synchronize(__LINE__);
  }
  RUN(1, 1, under_lock, lock, lock + 1, rounds);
  if (me == 0) {
    simt::launch(
        simt::dim3(1), simt::dim3(1), check_value, lock + 1, u64(count) * rounds, found_here);
    synchronize(__LINE__);
  }
  RUN(1, 1, check_value, counter, me == 0 ? ticket_count : u64{0}, found_here);
  return finish("atomics");
}
