// The deprecated collective calls on active sets (section 9.10).
#include "products/shmem/collectives/active_set.hpp"
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/define.hpp"

namespace tanada::shmem {
namespace {

static_assert(sync_words <= SHMEM_SYNC_SIZE && SHMEM_SYNC_VALUE == 0);

// Returns the set's members. Ends the job if the set is invalid.
group checked_members(const runtime &current, const char *call, const active_set &set) {
  auto members = set.members(*current.job);
  if (members.count() == 0) {
    fatal(call,
          "invalid active set of {} PEs from {} on, 2^{} apart: the job has {} PEs, and this PE "
          "must be in it",
          set.size,
          set.start,
          set.log_stride,
          current.job->count());
  }
  return members;
}

// Ends the job unless `sync` is symmetric host memory.
void check_sync_array(const runtime &current, const char *call, long *sync) {
  auto const me = current.job->me();
  constexpr size_t size = sync_words * sizeof(long);
  if (current.job->map().locate(sync, size, me).segment_ptr == nullptr)
    fatal(status::range, {call, sync, size, int(me)});
  if (is_device_memory(current, sync)) {
    fatal(call,
          "pSync at address {} is device memory: it must be in host memory",
          static_cast<void *>(sync));
  }
}

// Calls `operation` with a fabric_group; if the set is all PEs, with a `collective` of them, which
// has the same operations.
template <class Operation>
inline void on_set(const collective_call &call,
                   const active_set &set,
                   long *sync,
                   Operation operation) {
  auto &current = require_running(call.name);
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, call);
  if (set.is_whole_job(*current.job)) {
    static_cast<void>(
        return_code(operation(collective{current.coordination->teams.legacy_world()}), call));
    return;
  }
  auto const members = checked_members(current, call.name, set);
  check_sync_array(current, call.name, sync);
  auto &state = *current.coordination;
  channel_ref const channel{
      current.job.get(), &state.context, &state.context, &state.teams.guard_for(call.name)};
  fabric_group fabric{channel, members, signals_in_array(sync)};
  static_cast<void>(return_code(operation(fabric), call));
}

void reduce_set(const char *call,
                const active_set &set,
                long *sync,
                const reduction &op,
                void *target,
                const void *source,
                int count) {
  if (count < 0)
    fatal(call, "the number of elements is {}: it must not be negative", count);
  size_t const size = checked_size(call, size_t(count), op.size);
  on_set({call, target, size, source, size}, set, sync, [&](auto &&coll) {
    return coll.reduce(op, target, source, size_t(count));
  });
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_sync, (int PE_start, int logPE_stride, int PE_size, long *pSync), {
  on_set({call}, {PE_start, logPE_stride, PE_size}, pSync, [](auto &&coll) { return coll.sync(); });
})

SHMEM_DEFINE(void, shmem_barrier, (int PE_start, int logPE_stride, int PE_size, long *pSync), {
  complete(require_running(call), call);
  on_set({call}, {PE_start, logPE_stride, PE_size}, pSync, [](auto &&coll) { return coll.sync(); });
})

#define SHMEM_DEFINE_OLD_MOVES_(BITS)                                                             \
  SHMEM_DEFINE(                                                                                   \
      void,                                                                                       \
      shmem_broadcast##BITS,                                                                      \
      (void *dest,                                                                                \
       const void *source,                                                                        \
       size_t nelems,                                                                             \
       int PE_root,                                                                               \
       int PE_start,                                                                              \
       int logPE_stride,                                                                          \
       int PE_size,                                                                               \
       long *pSync),                                                                              \
      {                                                                                           \
        size_t const size = checked_size(call, nelems, BITS / 8);                                 \
        if (PE_root < 0 || PE_root >= PE_size)                                                    \
          fatal(call, "PE_root {} is not in an active set of {} PEs", PE_root, PE_size);          \
        on_set({call, dest, size, source, size},                                                  \
               {PE_start, logPE_stride, PE_size},                                                 \
               pSync,                                                                             \
               [&](auto &&coll) { return coll.broadcast(dest, source, size, PE_root, false); });  \
      })                                                                                          \
  SHMEM_DEFINE(void,                                                                              \
               shmem_collect##BITS,                                                               \
               (void *dest,                                                                       \
                const void *source,                                                               \
                size_t nelems,                                                                    \
                int PE_start,                                                                     \
                int logPE_stride,                                                                 \
                int PE_size,                                                                      \
                long *pSync),                                                                     \
               {                                                                                  \
                 size_t const size = checked_size(call, nelems, BITS / 8);                        \
                 on_set({call, dest, size, source, size},                                         \
                        {PE_start, logPE_stride, PE_size},                                        \
                        pSync,                                                                    \
                        [&](auto &&coll) { return coll.collect(dest, source, size); });           \
               })                                                                                 \
  SHMEM_DEFINE(void,                                                                              \
               shmem_fcollect##BITS,                                                              \
               (void *dest,                                                                       \
                const void *source,                                                               \
                size_t nelems,                                                                    \
                int PE_start,                                                                     \
                int logPE_stride,                                                                 \
                int PE_size,                                                                      \
                long *pSync),                                                                     \
               {                                                                                  \
                 size_t const size = checked_size(call, nelems, BITS / 8, size_t(PE_size));       \
                 on_set({call, dest, size * size_t(PE_size), source, size},                       \
                        {PE_start, logPE_stride, PE_size},                                        \
                        pSync,                                                                    \
                        [&](auto &&coll) { return coll.fcollect(dest, source, size); });          \
               })                                                                                 \
  SHMEM_DEFINE(void,                                                                              \
               shmem_alltoall##BITS,                                                              \
               (void *dest,                                                                       \
                const void *source,                                                               \
                size_t nelems,                                                                    \
                int PE_start,                                                                     \
                int logPE_stride,                                                                 \
                int PE_size,                                                                      \
                long *pSync),                                                                     \
               {                                                                                  \
                 size_t const size = checked_size(call, nelems, BITS / 8, size_t(PE_size)),       \
                              all_size = size * size_t(PE_size);                                  \
                 on_set({call, dest, all_size, source, all_size},                                 \
                        {PE_start, logPE_stride, PE_size},                                        \
                        pSync,                                                                    \
                        [&](auto &&coll) { return coll.alltoall(dest, source, size); });          \
               })                                                                                 \
  SHMEM_DEFINE(void,                                                                              \
               shmem_alltoalls##BITS,                                                             \
               (void *dest,                                                                       \
                const void *source,                                                               \
                ptrdiff_t dst,                                                                    \
                ptrdiff_t sst,                                                                    \
                size_t nelems,                                                                    \
                int PE_start,                                                                     \
                int logPE_stride,                                                                 \
                int PE_size,                                                                      \
                long *pSync),                                                                     \
               {                                                                                  \
                 if (dst < 1 || sst < 1)                                                          \
                   fatal(call, "strides are {} and {}: both must be at least 1", dst, sst);       \
                 fabric_group::strides const shape{BITS / 8, nelems, dst, sst};                   \
                 size_t const members = size_t(PE_size);                                          \
                 on_set({call,                                                                    \
                         dest,                                                                    \
                         checked_extent(call, shape, dst, members),                               \
                         source,                                                                  \
                         checked_extent(call, shape, sst, members)},                              \
                        {PE_start, logPE_stride, PE_size},                                        \
                        pSync,                                                                    \
                        [&](auto &&coll) { return coll.alltoall_strided(dest, source, shape); }); \
               })

SHMEM_DEFINE_OLD_MOVES_(32)
SHMEM_DEFINE_OLD_MOVES_(64)

#define SHMEM_DEFINE_TO_ALL_(NAME, TYPE, OP, OPERATION)        \
  SHMEM_DEFINE(void,                                           \
               shmem_##NAME##_##OP##_to_all,                   \
               (TYPE * dest,                                   \
                const TYPE *source,                            \
                int nreduce,                                   \
                int PE_start,                                  \
                int logPE_stride,                              \
                int PE_size,                                   \
                TYPE *,                                        \
                long *pSync),                                  \
               {                                               \
                 reduce_set(call,                              \
                            {PE_start, logPE_stride, PE_size}, \
                            pSync,                             \
                            reduction_of<TYPE, OPERATION>,     \
                            dest,                              \
                            source,                            \
                            nreduce);                          \
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
