// Deprecated collective calls on active sets (section 9.10).
#include "products/shmem/collectives/active_set.hpp"
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/define.hpp"

namespace tanada::shmem {
namespace {

static_assert(sync_words <= SHMEM_SYNC_SIZE && SHMEM_SYNC_VALUE == 0);

// `operation` is called with what has the operations' names: a far_group, or all PEs as a team.
template <class Operation>
inline void on_set(const collective_call &call, const active_set &set, long *sync,
                   Operation operation) {
  auto &current = require_running(call.name);
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, call);
  if (set.is_everybody(*current.job)) {
    static_cast<void>(told(operation(collective{current.coordination->teams.everybody()}), call));
    return;
  }
  auto const members = set.members(*current.job);
  if (members.count() == 0) {
    fatal(
        call.name,
        "%d PEs from %d on, 2^%d apart, are not among the job's %d, or this one is not among them",
        set.size, set.start, set.log_stride, int(current.job->count()));
  }
  auto &kept = *current.coordination;
  wires const by{current.job.get(), &kept.context, &kept.context, &kept.teams.desertion(call.name)};
  if (by.job->map().locate(sync, sync_words * sizeof(long), by.job->me()).where == nullptr) {
    fatal(status::range, {call.name, sync, sync_words * sizeof(long), int(by.job->me())});
  }
  if (is_device_memory(current, sync)) {
    fatal(call.name, "pSync at address %p is memory of the device: it is in memory of the host",
          static_cast<void *>(sync));
  }
  far_group all{by, members, words_of(sync)};
  static_cast<void>(told(operation(all), call));
}

void reduce_set(const char *call, const active_set &set, long *sync, const reduction &what,
                void *target, const void *source, int count) {
  if (count < 0)
    fatal(call, "%d elements", count);
  size_t const size = checked_size(call, size_t(count), what.size);
  on_set({call, target, size, source, size}, set, sync,
         [&](auto &&all) { return all.reduce(what, target, source, size_t(count)); });
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_sync, (int PE_start, int logPE_stride, int PE_size, long *pSync), {
  on_set({call}, {PE_start, logPE_stride, PE_size}, pSync, [](auto &&all) { return all.sync(); });
})

SHMEM_DEFINE(void, shmem_barrier, (int PE_start, int logPE_stride, int PE_size, long *pSync), {
  complete(require_running(call), call);
  on_set({call}, {PE_start, logPE_stride, PE_size}, pSync, [](auto &&all) { return all.sync(); });
})

#define SHMEM_DEFINE_OLD_MOVES_(BITS)                                                              \
  SHMEM_DEFINE(                                                                                    \
      void, shmem_broadcast##BITS,                                                                 \
      (void *dest, const void *source, size_t nelems, int PE_root, int PE_start, int logPE_stride, \
       int PE_size, long *pSync),                                                                  \
      {                                                                                            \
        size_t const size = checked_size(call, nelems, BITS / 8);                                  \
        if (PE_root < 0 || PE_root >= PE_size)                                                     \
          fatal(call, "the root %d of %d PEs", PE_root, PE_size);                                  \
        on_set({call, dest, size, source, size}, {PE_start, logPE_stride, PE_size}, pSync,         \
               [&](auto &&all) { return all.broadcast(dest, source, size, PE_root, false); });     \
      })                                                                                           \
  SHMEM_DEFINE(void, shmem_collect##BITS,                                                          \
               (void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride,     \
                int PE_size, long *pSync),                                                         \
               {                                                                                   \
                 size_t const size = checked_size(call, nelems, BITS / 8);                         \
                 on_set({call, dest, size, source, size}, {PE_start, logPE_stride, PE_size},       \
                        pSync, [&](auto &&all) { return all.collect(dest, source, size); });       \
               })                                                                                  \
  SHMEM_DEFINE(void, shmem_fcollect##BITS,                                                         \
               (void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride,     \
                int PE_size, long *pSync),                                                         \
               {                                                                                   \
                 size_t const size = checked_size(call, nelems, BITS / 8, size_t(PE_size));        \
                 on_set({call, dest, size * size_t(PE_size), source, size},                        \
                        {PE_start, logPE_stride, PE_size}, pSync,                                  \
                        [&](auto &&all) { return all.fcollect(dest, source, size); });             \
               })                                                                                  \
  SHMEM_DEFINE(void, shmem_alltoall##BITS,                                                         \
               (void *dest, const void *source, size_t nelems, int PE_start, int logPE_stride,     \
                int PE_size, long *pSync),                                                         \
               {                                                                                   \
                 size_t const size = checked_size(call, nelems, BITS / 8, size_t(PE_size)),        \
                              all_size = size * size_t(PE_size);                                   \
                 on_set({call, dest, all_size, source, all_size},                                  \
                        {PE_start, logPE_stride, PE_size}, pSync,                                  \
                        [&](auto &&all) { return all.alltoall(dest, source, size); });             \
               })                                                                                  \
  SHMEM_DEFINE(void, shmem_alltoalls##BITS,                                                        \
               (void *dest, const void *source, ptrdiff_t dst, ptrdiff_t sst, size_t nelems,       \
                int PE_start, int logPE_stride, int PE_size, long *pSync),                         \
               {                                                                                   \
                 if (dst < 1 || sst < 1)                                                           \
                   fatal(call, "elements are %td and %td apart", dst, sst);                        \
                 far_group::strides const shape{BITS / 8, nelems, dst, sst};                       \
                 size_t const members = size_t(PE_size);                                           \
                 on_set({call, dest, checked_extent(call, shape, dst, members), source,            \
                         checked_extent(call, shape, sst, members)},                               \
                        {PE_start, logPE_stride, PE_size}, pSync,                                  \
                        [&](auto &&all) { return all.alltoall_strided(dest, source, shape); });    \
               })

SHMEM_DEFINE_OLD_MOVES_(32)
SHMEM_DEFINE_OLD_MOVES_(64)

#define SHMEM_DEFINE_TO_ALL_(NAME, TYPE, OP, OPERATION)                                       \
  SHMEM_DEFINE(void, shmem_##NAME##_##OP##_to_all,                                            \
               (TYPE * dest, const TYPE *source, int nreduce, int PE_start, int logPE_stride, \
                int PE_size, TYPE *, long *pSync),                                            \
               {                                                                              \
                 reduce_set(call, {PE_start, logPE_stride, PE_size}, pSync,                   \
                            reduction_of<TYPE, OPERATION>, dest, source, nreduce);            \
               })
#define SHMEM_DEFINE_OLD_BITS_(NAME, TYPE, A)    \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, and, bit_and) \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, or, bit_or)   \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, xor, bit_xor)
#define SHMEM_DEFINE_OLD_ORDERED_(NAME, TYPE, A) \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, max, maximum) \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, min, minimum)
#define SHMEM_DEFINE_OLD_ARITHMETIC_(NAME, TYPE, A) \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, sum, sum)        \
  SHMEM_DEFINE_TO_ALL_(NAME, TYPE, prod, product)

SHMEM_TABLE_OLD_REDUCE_BITS(SHMEM_DEFINE_OLD_BITS_, )
SHMEM_TABLE_OLD_REDUCE_ORDERED(SHMEM_DEFINE_OLD_ORDERED_, )
SHMEM_TABLE_OLD_REDUCE_ARITHMETIC(SHMEM_DEFINE_OLD_ARITHMETIC_, )
