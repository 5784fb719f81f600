// shmemg/device_names.cuh: the draft's names of the calls in shmemg/device.cuh, which includes this
// file. Not for direct inclusion.
#pragma once

// ---- PEs and addresses

/// As shmem_my_pe, shmem_n_pes.
SHMEMG_DEVICE inline int shmemg_my_pe() {
  return tanada::shmem::device::job_view().me;
}
SHMEMG_DEVICE inline int shmemg_n_pes() {
  return tanada::shmem::device::job_view().count;
}

/// The address at which kernels of this PE load and store `dest` of the given PE; null if unmapped.
SHMEMG_DEVICE inline void *shmemg_ptr(const void *dest, int pe) {
  namespace d = tanada::shmem::device;
  d::pe_address at;
  if (d::find(d::context_first, dest, 1, pe, at) != tanada::status::ok || at.is_unmapped())
    return nullptr;
  return at.translate(const_cast<void *>(dest));
}

// ---- by group. S: the suffix of the name. GROUP: the group's type.

#define SHMEMG_PUTS_(S, GROUP, NBI, ENDS)                                                         \
  SHMEMG_DEVICE inline void shmemg_putmem##NBI##S(                                                \
      void *dest, const void *source, size_t nelems, int pe) {                                    \
    using namespace tanada;                                                                       \
    (void)shmem::device::put<shmem::device::ends::ENDS>(                                          \
        GROUP{}, shmemg::default_context, dest, source, nelems, pe);                              \
  }                                                                                               \
  SHMEMG_DEVICE inline void shmemg_ctx_putmem##NBI##S(                                            \
      shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe) {                   \
    using namespace tanada;                                                                       \
    (void)shmem::device::put<shmem::device::ends::ENDS>(                                          \
        GROUP{}, shmemg::number_of(ctx), dest, source, nelems, pe);                               \
  }                                                                                               \
  SHMEMG_DEVICE inline void shmemg_getmem##NBI##S(                                                \
      void *dest, const void *source, size_t nelems, int pe) {                                    \
    using namespace tanada;                                                                       \
    (void)shmem::device::get<shmem::device::ends::ENDS>(                                          \
        GROUP{}, shmemg::default_context, dest, source, nelems, pe);                              \
  }                                                                                               \
  SHMEMG_DEVICE inline void shmemg_ctx_getmem##NBI##S(                                            \
      shmem_ctx_t ctx, void *dest, const void *source, size_t nelems, int pe) {                   \
    using namespace tanada;                                                                       \
    (void)shmem::device::get<shmem::device::ends::ENDS>(                                          \
        GROUP{}, shmemg::number_of(ctx), dest, source, nelems, pe);                               \
  }                                                                                               \
  SHMEMG_DEVICE inline void shmemg_putmem_signal##NBI##S(void *dest,                              \
                                                         const void *source,                      \
                                                         size_t nelems,                           \
                                                         uint64_t *sig_addr,                      \
                                                         uint64_t signal,                         \
                                                         int sig_op,                              \
                                                         int pe) {                                \
    using namespace tanada;                                                                       \
    (void)shmem::device::put_signal<shmem::device::ends::ENDS>(GROUP{},                           \
                                                               shmemg::default_context,           \
                                                               dest,                              \
                                                               source,                            \
                                                               nelems,                            \
                                                               reinterpret_cast<u64 *>(sig_addr), \
                                                               signal,                            \
                                                               sig_op,                            \
                                                               pe);                               \
  }                                                                                               \
  SHMEMG_DEVICE inline void shmemg_ctx_putmem_signal##NBI##S(shmem_ctx_t ctx,                     \
                                                             void *dest,                          \
                                                             const void *source,                  \
                                                             size_t nelems,                       \
                                                             uint64_t *sig_addr,                  \
                                                             uint64_t signal,                     \
                                                             int sig_op,                          \
                                                             int pe) {                            \
    using namespace tanada;                                                                       \
    (void)shmem::device::put_signal<shmem::device::ends::ENDS>(GROUP{},                           \
                                                               shmemg::number_of(ctx),            \
                                                               dest,                              \
                                                               source,                            \
                                                               nelems,                            \
                                                               reinterpret_cast<u64 *>(sig_addr), \
                                                               signal,                            \
                                                               sig_op,                            \
                                                               pe);                               \
  }

#define SHMEMG_GROUPS_(S, GROUP)                                                           \
  SHMEMG_PUTS_(S, GROUP, , at_once)                                                        \
  SHMEMG_PUTS_(S, GROUP, _nbi, later)                                                      \
  SHMEMG_DEVICE inline uint64_t shmemg_signal_wait_until##S(                               \
      uint64_t *sig_addr, int cmp, uint64_t cmp_value) {                                   \
    using namespace tanada;                                                                \
    u64 last = 0;                                                                          \
    (void)shmem::device::wait(                                                             \
        GROUP{}, reinterpret_cast<const u64 *>(sig_addr), cmp, u64(cmp_value), last);      \
    return last;                                                                           \
  }                                                                                        \
  SHMEMG_DEVICE inline void shmemg_fence##S() {                                            \
    (void)tanada::shmemg::fence(tanada::GROUP{});                                          \
  }                                                                                        \
  SHMEMG_DEVICE inline void shmemg_ctx_fence##S(shmem_ctx_t ctx) {                         \
    (void)tanada::shmemg::fence(tanada::GROUP{}, tanada::shmemg::number_of(ctx));          \
  }                                                                                        \
  SHMEMG_DEVICE inline void shmemg_quiet##S() {                                            \
    (void)tanada::shmemg::quiet(tanada::GROUP{});                                          \
  }                                                                                        \
  SHMEMG_DEVICE inline void shmemg_ctx_quiet##S(shmem_ctx_t ctx) {                         \
    (void)tanada::shmemg::quiet(tanada::GROUP{}, tanada::shmemg::number_of(ctx));          \
  }                                                                                        \
  SHMEMG_DEVICE inline int shmemg_sync_all##S() {                                          \
    return int(tanada::shmemg::sync(tanada::GROUP{}));                                     \
  }                                                                                        \
  SHMEMG_DEVICE inline int shmemg_team_sync##S(shmem_team_t team) {                        \
    return int(tanada::shmemg::sync(tanada::GROUP{}, tanada::shmemg::number_of(team)));    \
  }                                                                                        \
  /** A quiet, then a sync. Nonzero: see shmemg/device.cuh. */                             \
  SHMEMG_DEVICE inline int shmemgx_barrier_all##S() {                                      \
    return int(tanada::shmemg::barrier(tanada::GROUP{}));                                  \
  }                                                                                        \
  SHMEMG_DEVICE inline int shmemgx_team_barrier##S(shmem_team_t team) {                    \
    return int(tanada::shmemg::barrier(tanada::GROUP{}, tanada::shmemg::number_of(team))); \
  }

SHMEMG_GROUPS_(, this_thread)
SHMEMG_GROUPS_(_tg, this_block)
SHMEMG_GROUPS_(_htg, this_warp)

SHMEMG_DEVICE inline uint64_t shmemg_signal_fetch(const uint64_t *sig_addr) {
  return tanada::shmem::device::load_acquire(sig_addr);
}

/// Only a signal, without data and without a fence.
SHMEMG_DEVICE inline void shmemgx_signal_set(uint64_t *sig_addr, uint64_t signal, int pe) {
  using namespace tanada;
  (void)shmem::device::put_signal_only(
      shmemg::default_context, reinterpret_cast<u64 *>(sig_addr), signal, false, pe);
}
SHMEMG_DEVICE inline void shmemgx_signal_add(uint64_t *sig_addr, uint64_t signal, int pe) {
  using namespace tanada;
  (void)shmem::device::put_signal_only(
      shmemg::default_context, reinterpret_cast<u64 *>(sig_addr), signal, true, pe);
}

// ---- by type

#define SHMEMG_ELEMENT_(NAME, TYPE, A)                                                           \
  SHMEMG_DEVICE inline void shmemg_##NAME##_p(TYPE *dest, TYPE value, int pe) {                  \
    (void)tanada::shmem::device::put_value(tanada::shmemg::default_context, dest, value, pe);    \
  }                                                                                              \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_p(                                               \
      shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe) {                                         \
    (void)tanada::shmem::device::put_value(tanada::shmemg::number_of(ctx), dest, value, pe);     \
  }                                                                                              \
  SHMEMG_DEVICE inline TYPE shmemg_##NAME##_g(const TYPE *source, int pe) {                      \
    return tanada::shmem::device::get_value(tanada::shmemg::default_context, source, pe);        \
  }                                                                                              \
  SHMEMG_DEVICE inline TYPE shmemg_ctx_##NAME##_g(shmem_ctx_t ctx, const TYPE *source, int pe) { \
    return tanada::shmem::device::get_value(tanada::shmemg::number_of(ctx), source, pe);         \
  }                                                                                              \
  SHMEMG_ROWS_(NAME, TYPE, , this_thread)                                                        \
  SHMEMG_ROWS_(NAME, TYPE, _tg, this_block)                                                      \
  SHMEMG_ROWS_(NAME, TYPE, _htg, this_warp)

#define SHMEMG_ROWS_(NAME, TYPE, S, GROUP)                                                   \
  SHMEMG_DEVICE inline void shmemgx_##NAME##_iput##S(                                        \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) { \
    (void)tanada::shmemg::iput(tanada::GROUP{}, dest, source, dst, sst, nelems, pe);         \
  }                                                                                          \
  SHMEMG_DEVICE inline void shmemgx_##NAME##_iget##S(                                        \
      TYPE *dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems, int pe) { \
    (void)tanada::shmemg::iget(tanada::GROUP{}, dest, source, dst, sst, nelems, pe);         \
  }

#define SHMEMG_UPDATE_(CTX, KIND, TYPE, DEST, VALUE, COND)                       \
  tanada::shmem::device::update<tanada::shmem::device::update_kind::KIND, TYPE>( \
      CTX, DEST, VALUE, COND, pe)
#define SHMEMG_CHANGE_(CTX, KIND, TYPE, DEST, VALUE, COND)                              \
  tanada::shmem::device::update<tanada::shmem::device::update_kind::KIND, TYPE, false>( \
      CTX, DEST, VALUE, COND, pe)

// The value is stored at once: a quiet has nothing to complete for it.
#define SHMEMG_FETCHING_(NAME, TYPE, OP, KIND)                                            \
  SHMEMG_DEVICE inline TYPE shmemg_##NAME##_atomic_##OP(TYPE *dest, TYPE value, int pe) { \
    return SHMEMG_UPDATE_(                                                                \
        tanada::shmemg::default_context, KIND, TYPE, dest, value, static_cast<TYPE>(0));  \
  }                                                                                       \
  SHMEMG_DEVICE inline TYPE shmemg_ctx_##NAME##_atomic_##OP(                              \
      shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe) {                                  \
    return SHMEMG_UPDATE_(                                                                \
        tanada::shmemg::number_of(ctx), KIND, TYPE, dest, value, static_cast<TYPE>(0));   \
  }                                                                                       \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_##OP##_nbi(                            \
      TYPE *fetch, TYPE *dest, TYPE value, int pe) {                                      \
    *fetch = SHMEMG_UPDATE_(                                                              \
        tanada::shmemg::default_context, KIND, TYPE, dest, value, static_cast<TYPE>(0));  \
  }                                                                                       \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_##OP##_nbi(                        \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE value, int pe) {                     \
    *fetch = SHMEMG_UPDATE_(                                                              \
        tanada::shmemg::number_of(ctx), KIND, TYPE, dest, value, static_cast<TYPE>(0));   \
  }
#define SHMEMG_PLAIN_(NAME, TYPE, OP, KIND)                                               \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_##OP(TYPE *dest, TYPE value, int pe) { \
    (void)SHMEMG_CHANGE_(                                                                 \
        tanada::shmemg::default_context, KIND, TYPE, dest, value, static_cast<TYPE>(0));  \
  }                                                                                       \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_##OP(                              \
      shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe) {                                  \
    (void)SHMEMG_CHANGE_(                                                                 \
        tanada::shmemg::number_of(ctx), KIND, TYPE, dest, value, static_cast<TYPE>(0));   \
  }

#define SHMEMG_AMO_EXTENDED_(NAME, TYPE, A)                                              \
  SHMEMG_DEVICE inline TYPE shmemg_##NAME##_atomic_fetch(const TYPE *source, int pe) {   \
    return SHMEMG_UPDATE_(tanada::shmemg::default_context,                               \
                          fetch,                                                         \
                          TYPE,                                                          \
                          const_cast<TYPE *>(source),                                    \
                          static_cast<TYPE>(0),                                          \
                          static_cast<TYPE>(0));                                         \
  }                                                                                      \
  SHMEMG_DEVICE inline TYPE shmemg_ctx_##NAME##_atomic_fetch(                            \
      shmem_ctx_t ctx, const TYPE *source, int pe) {                                     \
    return SHMEMG_UPDATE_(tanada::shmemg::number_of(ctx),                                \
                          fetch,                                                         \
                          TYPE,                                                          \
                          const_cast<TYPE *>(source),                                    \
                          static_cast<TYPE>(0),                                          \
                          static_cast<TYPE>(0));                                         \
  }                                                                                      \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_fetch_nbi(                            \
      TYPE *fetch, const TYPE *source, int pe) {                                         \
    *fetch = shmemg_##NAME##_atomic_fetch(source, pe);                                   \
  }                                                                                      \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_fetch_nbi(                        \
      shmem_ctx_t ctx, TYPE *fetch, const TYPE *source, int pe) {                        \
    *fetch = shmemg_ctx_##NAME##_atomic_fetch(ctx, source, pe);                          \
  }                                                                                      \
  SHMEMG_FETCHING_(NAME, TYPE, swap, swap)                                               \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_set(TYPE *dest, TYPE value, int pe) { \
    tanada::shmem::device::set(tanada::shmemg::default_context, dest, value, pe);        \
  }                                                                                      \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_set(                              \
      shmem_ctx_t ctx, TYPE *dest, TYPE value, int pe) {                                 \
    tanada::shmem::device::set(tanada::shmemg::number_of(ctx), dest, value, pe);         \
  }

#define SHMEMG_AMO_(NAME, TYPE, A)                                                                 \
  SHMEMG_DEVICE inline TYPE shmemg_##NAME##_atomic_compare_swap(                                   \
      TYPE *dest, TYPE cond, TYPE value, int pe) {                                                 \
    return SHMEMG_UPDATE_(tanada::shmemg::default_context, compare_swap, TYPE, dest, value, cond); \
  }                                                                                                \
  SHMEMG_DEVICE inline TYPE shmemg_ctx_##NAME##_atomic_compare_swap(                               \
      shmem_ctx_t ctx, TYPE *dest, TYPE cond, TYPE value, int pe) {                                \
    return SHMEMG_UPDATE_(tanada::shmemg::number_of(ctx), compare_swap, TYPE, dest, value, cond);  \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_compare_swap_nbi(                               \
      TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe) {                                    \
    *fetch = shmemg_##NAME##_atomic_compare_swap(dest, cond, value, pe);                           \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_compare_swap_nbi(                           \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, TYPE cond, TYPE value, int pe) {                   \
    *fetch = shmemg_ctx_##NAME##_atomic_compare_swap(ctx, dest, cond, value, pe);                  \
  }                                                                                                \
  SHMEMG_FETCHING_(NAME, TYPE, fetch_add, add)                                                     \
  SHMEMG_PLAIN_(NAME, TYPE, add, add)                                                              \
  SHMEMG_DEVICE inline TYPE shmemg_##NAME##_atomic_fetch_inc(TYPE *dest, int pe) {                 \
    return shmemg_##NAME##_atomic_fetch_add(dest, static_cast<TYPE>(1), pe);                       \
  }                                                                                                \
  SHMEMG_DEVICE inline TYPE shmemg_ctx_##NAME##_atomic_fetch_inc(                                  \
      shmem_ctx_t ctx, TYPE *dest, int pe) {                                                       \
    return shmemg_ctx_##NAME##_atomic_fetch_add(ctx, dest, static_cast<TYPE>(1), pe);              \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_fetch_inc_nbi(                                  \
      TYPE *fetch, TYPE *dest, int pe) {                                                           \
    *fetch = shmemg_##NAME##_atomic_fetch_add(dest, static_cast<TYPE>(1), pe);                     \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_fetch_inc_nbi(                              \
      shmem_ctx_t ctx, TYPE *fetch, TYPE *dest, int pe) {                                          \
    *fetch = shmemg_ctx_##NAME##_atomic_fetch_add(ctx, dest, static_cast<TYPE>(1), pe);            \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_##NAME##_atomic_inc(TYPE *dest, int pe) {                       \
    shmemg_##NAME##_atomic_add(dest, static_cast<TYPE>(1), pe);                                    \
  }                                                                                                \
  SHMEMG_DEVICE inline void shmemg_ctx_##NAME##_atomic_inc(shmem_ctx_t ctx, TYPE *dest, int pe) {  \
    shmemg_ctx_##NAME##_atomic_add(ctx, dest, static_cast<TYPE>(1), pe);                           \
  }                                                                                                \
  SHMEMG_WAIT_(NAME, TYPE, , this_thread)                                                          \
  SHMEMG_WAIT_(NAME, TYPE, _tg, this_block)                                                        \
  SHMEMG_WAIT_(NAME, TYPE, _htg, this_warp)

#define SHMEMG_AMO_BITS_(NAME, TYPE, A)            \
  SHMEMG_FETCHING_(NAME, TYPE, fetch_and, bit_and) \
  SHMEMG_FETCHING_(NAME, TYPE, fetch_or, bit_or)   \
  SHMEMG_FETCHING_(NAME, TYPE, fetch_xor, bit_xor) \
  SHMEMG_PLAIN_(NAME, TYPE, and, bit_and)          \
  SHMEMG_PLAIN_(NAME, TYPE, or, bit_or)            \
  SHMEMG_PLAIN_(NAME, TYPE, xor, bit_xor)

// shmemgx_ calls return 0, or the status with which the wait ended.
#define SHMEMG_WAIT_(NAME, TYPE, S, GROUP)                                                       \
  SHMEMG_DEVICE inline void shmemg_##NAME##_wait_until##S(TYPE *ivar, int cmp, TYPE cmp_value) { \
    (void)tanada::shmem::device::wait(tanada::GROUP{}, ivar, cmp, cmp_value);                    \
  }                                                                                              \
  SHMEMG_DEVICE inline int shmemgx_##NAME##_wait_until##S(TYPE *ivar, int cmp, TYPE cmp_value) { \
    return int(tanada::shmem::device::wait(tanada::GROUP{}, ivar, cmp, cmp_value));              \
  }                                                                                              \
  SHMEMG_DEVICE inline int shmemg_##NAME##_test##S(TYPE *ivar, int cmp, TYPE cmp_value) {        \
    return tanada::shmem::device::test(tanada::GROUP{}, ivar, cmp, cmp_value) ? 1 : 0;           \
  }

SHMEM_TABLE_RMA(SHMEMG_ELEMENT_, )
SHMEM_TABLE_AMO_EXTENDED(SHMEMG_AMO_EXTENDED_, )
SHMEM_TABLE_AMO(SHMEMG_AMO_, )
SHMEM_TABLE_AMO_BITS(SHMEMG_AMO_BITS_, )

#undef SHMEMG_PUTS_
#undef SHMEMG_GROUPS_
#undef SHMEMG_ELEMENT_
#undef SHMEMG_ROWS_
#undef SHMEMG_UPDATE_
#undef SHMEMG_FETCHING_
#undef SHMEMG_PLAIN_
#undef SHMEMG_AMO_EXTENDED_
#undef SHMEMG_AMO_
#undef SHMEMG_AMO_BITS_
#undef SHMEMG_WAIT_
