// Collective calls on teams but reductions (section 9.10).
#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/define.hpp"

namespace tanada::shmem {
namespace {

struct block {
  void *target;
  const void *source;
  size_t count, size;  // elements, and bytes of one
};

// Debug mode: the argument is the same in all members.
inline void check_equal(const char *call, shmem_team_t handle, const char *argument,
                        uint64_t value) {
  auto &current = require_running(call);
  if (!current.options.is_debug) [[likely]]
    return;
  if (auto *const of = team_of_call(current, handle, call); of != nullptr)
    require_equal(current, of, call, argument, value);
}

// `operation(collective, bytes)`; the whole target and source are so many blocks in this PE.
struct block_counts {
  size_t target, source;
};
template <class Operation>
inline int move(const char *call, shmem_team_t handle, const block &what,
                block_counts (*counts)(size_t members), Operation operation) {
  auto &current = require_running(call);
  auto *const of = team_of_call(current, handle, call);
  if (of == nullptr) [[unlikely]]
    return 1;
  size_t const members = size_t(of->count()),
               size = checked_size(call, what.count, what.size, members);
  auto const [targets, sources] = counts(members);
  collective_call const named{call, what.target, size * targets, what.source, size * sources};
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, named);
  return told(operation(collective{*of}, size), named);
}

int broadcast(const char *call, shmem_team_t handle, const block &what, int root) {
  check_equal(call, handle, "PE_root", uint64_t(root));
  check_equal(call, handle, "nelems", what.count);
  return move(
      call, handle, what, [](size_t) { return block_counts{1, 1}; },
      [&](collective all, size_t size) {
        return all.broadcast(what.target, what.source, size, root);
      });
}

int alltoall(const char *call, shmem_team_t handle, const block &what) {
  check_equal(call, handle, "nelems", what.count);
  return move(
      call, handle, what, [](size_t members) { return block_counts{members, members}; },
      [&](collective all, size_t size) { return all.alltoall(what.target, what.source, size); });
}

int alltoalls(const char *call, shmem_team_t handle, const block &what, ptrdiff_t target_stride,
              ptrdiff_t source_stride) {
  check_equal(call, handle, "nelems", what.count);
  check_equal(call, handle, "dst", uint64_t(target_stride));
  check_equal(call, handle, "sst", uint64_t(source_stride));
  if (target_stride < 1 || source_stride < 1)
    return 1;
  auto &current = require_running(call);
  auto *const of = team_of_call(current, handle, call);
  if (of == nullptr) [[unlikely]]
    return 1;
  far_group::strides const shape{what.size, what.count, target_stride, source_stride};
  collective_call const named{
      call, what.target, checked_extent(call, shape, target_stride, size_t(of->count())),
      what.source, checked_extent(call, shape, source_stride, size_t(of->count()))};
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, named);
  return told(collective{*of}.alltoall_strided(what.target, what.source, shape), named);
}

int fcollect(const char *call, shmem_team_t handle, const block &what) {
  check_equal(call, handle, "nelems", what.count);
  return move(
      call, handle, what, [](size_t members) { return block_counts{members, 1}; },
      [&](collective all, size_t size) { return all.fcollect(what.target, what.source, size); });
}

int collect(const char *call, shmem_team_t handle, const block &what) {
  return move(
      call, handle, what, [](size_t) { return block_counts{1, 1}; },
      [&](collective all, size_t size) { return all.collect(what.target, what.source, size); });
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_sync_all, (void),
             { static_cast<void>(told(collective{*require_running(call).world}.sync(), {call})); })

SHMEM_DEFINE(void, shmem_barrier_all, (void), {
  auto &current = require_running(call);
  complete(current, call);
  static_cast<void>(told(collective{*current.world}.sync(), {call}));
})

SHMEM_DEFINE(int, shmem_team_sync, (shmem_team_t handle), {
  auto *const of = team_of_call(require_running(call), handle, call);
  return of == nullptr ? 1 : told(collective{*of}.sync(), {call});
})

#define SHMEM_DEFINE_MOVES_(BROADCAST, ALLTOALL, ALLTOALLS, COLLECT, FCOLLECT, TYPE, SIZE)         \
  SHMEM_DEFINE(int, BROADCAST,                                                                     \
               (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems, int PE_root),   \
               { return broadcast(call, team, {dest, source, nelems, SIZE}, PE_root); })           \
  SHMEM_DEFINE(int, ALLTOALL, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), \
               { return alltoall(call, team, {dest, source, nelems, SIZE}); })                     \
  SHMEM_DEFINE(int, ALLTOALLS,                                                                     \
               (shmem_team_t team, TYPE * dest, const TYPE *source, ptrdiff_t dst, ptrdiff_t sst,  \
                size_t nelems),                                                                    \
               { return alltoalls(call, team, {dest, source, nelems, SIZE}, dst, sst); })          \
  SHMEM_DEFINE(int, COLLECT, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems),  \
               { return collect(call, team, {dest, source, nelems, SIZE}); })                      \
  SHMEM_DEFINE(int, FCOLLECT, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), \
               { return fcollect(call, team, {dest, source, nelems, SIZE}); })
#define SHMEM_DEFINE_TYPED_MOVES_(NAME, TYPE, A)                                                   \
  SHMEM_DEFINE_MOVES_(shmem_##NAME##_broadcast, shmem_##NAME##_alltoall, shmem_##NAME##_alltoalls, \
                      shmem_##NAME##_collect, shmem_##NAME##_fcollect, TYPE, sizeof(TYPE))

SHMEM_DEFINE_MOVES_(shmem_broadcastmem, shmem_alltoallmem, shmem_alltoallsmem, shmem_collectmem,
                    shmem_fcollectmem, void, 1)
SHMEM_TABLE_RMA(SHMEM_DEFINE_TYPED_MOVES_, )
