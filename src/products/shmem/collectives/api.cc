// The collective calls on teams, except reductions (section 9.10).
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/define.hpp"

namespace tanada::shmem {
namespace {

struct block {
  void *target;
  const void *source;
  size_t count, size;  // elements, and bytes of one
};

// Debug mode: requires that the argument is equal in all members.
inline void check_equal(const char *call,
                        shmem_team_t handle,
                        const char *argument,
                        uint64_t value) {
  auto &current = require_running(call);
  if (!current.options.is_debug) [[likely]]
    return;
  if (auto *const team_ptr = team_of_call(current, handle, call); team_ptr != nullptr)
    require_equal(current, team_ptr, call, argument, value);
}

// Calls `operation(collective, bytes)`. `counts` returns the sizes of the whole target and source
// in this PE, in blocks.
struct block_counts {
  size_t target, source;
};
template <class Operation>
inline int move(const char *call,
                shmem_team_t handle,
                const block &elements,
                block_counts (*counts)(size_t members),
                Operation operation) {
  auto &current = require_running(call);
  auto *const team_ptr = team_of_call(current, handle, call);
  if (team_ptr == nullptr) [[unlikely]]
    return 1;
  size_t const members = size_t(team_ptr->count()),
               size = checked_size(call, elements.count, elements.size, members);
  auto const [targets, sources] = counts(members);
  collective_call const named{
      call, elements.target, size * targets, elements.source, size * sources};
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, named);
  return return_code(operation(collective{*team_ptr}, size), named);
}

int broadcast(const char *call, shmem_team_t handle, const block &elements, int root) {
  check_equal(call, handle, "PE_root", uint64_t(root));
  check_equal(call, handle, "nelems", elements.count);
  return move(
      call,
      handle,
      elements,
      [](size_t) { return block_counts{1, 1}; },
      [&](collective coll, size_t size) {
        return coll.broadcast(elements.target, elements.source, size, root);
      });
}

int alltoall(const char *call, shmem_team_t handle, const block &elements) {
  check_equal(call, handle, "nelems", elements.count);
  return move(
      call,
      handle,
      elements,
      [](size_t members) { return block_counts{members, members}; },
      [&](collective coll, size_t size) {
        return coll.alltoall(elements.target, elements.source, size);
      });
}

int alltoalls(const char *call,
              shmem_team_t handle,
              const block &elements,
              ptrdiff_t target_stride,
              ptrdiff_t source_stride) {
  check_equal(call, handle, "nelems", elements.count);
  check_equal(call, handle, "dst", uint64_t(target_stride));
  check_equal(call, handle, "sst", uint64_t(source_stride));
  if (target_stride < 1 || source_stride < 1)
    return 1;
  auto &current = require_running(call);
  auto *const team_ptr = team_of_call(current, handle, call);
  if (team_ptr == nullptr) [[unlikely]]
    return 1;
  fabric_group::strides const shape{elements.size, elements.count, target_stride, source_stride};
  collective_call const named{
      call,
      elements.target,
      checked_extent(call, shape, target_stride, size_t(team_ptr->count())),
      elements.source,
      checked_extent(call, shape, source_stride, size_t(team_ptr->count()))};
  if (current.options.is_debug) [[unlikely]]
    check_addresses(current, named);
  collective team_operations{*team_ptr};
  status const code = team_operations.alltoall_strided(elements.target, elements.source, shape);
  return return_code(code, named);
}

int fcollect(const char *call, shmem_team_t handle, const block &elements) {
  check_equal(call, handle, "nelems", elements.count);
  return move(
      call,
      handle,
      elements,
      [](size_t members) { return block_counts{members, 1}; },
      [&](collective coll, size_t size) {
        return coll.fcollect(elements.target, elements.source, size);
      });
}

int collect(const char *call, shmem_team_t handle, const block &elements) {
  return move(
      call,
      handle,
      elements,
      [](size_t) { return block_counts{1, 1}; },
      [&](collective coll, size_t size) {
        return coll.collect(elements.target, elements.source, size);
      });
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(void, shmem_sync_all, (void), {
  static_cast<void>(return_code(collective{*require_running(call).world}.sync(), {call}));
})

SHMEM_DEFINE(void, shmem_barrier_all, (void), {
  auto &current = require_running(call);
  complete(current, call);
  static_cast<void>(return_code(collective{*current.world}.sync(), {call}));
})

SHMEM_DEFINE(int, shmem_team_sync, (shmem_team_t handle), {
  auto *const team_ptr = team_of_call(require_running(call), handle, call);
  return team_ptr == nullptr ? 1 : return_code(collective{*team_ptr}.sync(), {call});
})

#define SHMEM_DEFINE_MOVES_(BROADCAST, ALLTOALL, ALLTOALLS, COLLECT, FCOLLECT, TYPE, SIZE)       \
  SHMEM_DEFINE(int,                                                                              \
               BROADCAST,                                                                        \
               (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems, int PE_root), \
               { return broadcast(call, team, {dest, source, nelems, SIZE}, PE_root); })         \
  SHMEM_DEFINE(                                                                                  \
      int, ALLTOALL, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), {      \
        return alltoall(call, team, {dest, source, nelems, SIZE});                               \
      })                                                                                         \
  SHMEM_DEFINE(int,                                                                              \
               ALLTOALLS,                                                                        \
               (shmem_team_t team,                                                               \
                TYPE * dest,                                                                     \
                const TYPE *source,                                                              \
                ptrdiff_t dst,                                                                   \
                ptrdiff_t sst,                                                                   \
                size_t nelems),                                                                  \
               { return alltoalls(call, team, {dest, source, nelems, SIZE}, dst, sst); })        \
  SHMEM_DEFINE(                                                                                  \
      int, COLLECT, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), {       \
        return collect(call, team, {dest, source, nelems, SIZE});                                \
      })                                                                                         \
  SHMEM_DEFINE(                                                                                  \
      int, FCOLLECT, (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems), {      \
        return fcollect(call, team, {dest, source, nelems, SIZE});                               \
      })
#define SHMEM_DEFINE_TYPED_MOVES_(NAME, TYPE, A) \
  SHMEM_DEFINE_MOVES_(shmem_##NAME##_broadcast,  \
                      shmem_##NAME##_alltoall,   \
                      shmem_##NAME##_alltoalls,  \
                      shmem_##NAME##_collect,    \
                      shmem_##NAME##_fcollect,   \
                      TYPE,                      \
                      sizeof(TYPE))

SHMEM_DEFINE_MOVES_(shmem_broadcastmem,
                    shmem_alltoallmem,
                    shmem_alltoallsmem,
                    shmem_collectmem,
                    shmem_fcollectmem,
                    void,
                    1)
SHMEM_TABLE_RMA(SHMEM_DEFINE_TYPED_MOVES_, )
