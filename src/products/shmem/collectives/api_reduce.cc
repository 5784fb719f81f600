// The reduction and scan calls on teams (section 9.10).
#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/define.hpp"

namespace tanada::shmem {
namespace {

struct arrays {
  void *target;
  const void *source;
  size_t count;
};

template <class Operation>
inline int combine_arrays(const char *call,
                          shmem_team_t handle,
                          const reduction &op,
                          const arrays &data,
                          Operation operation) {
  auto &current = require_running(call);
  auto *const members = team_of_call(current, handle, call);
  if (members == nullptr) [[unlikely]]
    return 1;
  size_t const size = checked_size(call, data.count, op.size);
  collective_call const named{call, data.target, size, data.source, size};
  if (current.options.is_debug) [[unlikely]] {
    check_addresses(current, named);
    require_equal(current, members, call, "the number of elements", data.count);
  }
  return return_code(operation(collective{*members}), named);
}

int reduce(const char *call, shmem_team_t handle, const reduction &op, const arrays &data) {
  return combine_arrays(call, handle, op, data, [&](collective coll) {
    return coll.reduce(op, data.target, data.source, data.count);
  });
}

int scan(const char *call,
         shmem_team_t handle,
         scan_kind kind,
         const reduction &op,
         const arrays &data) {
  return combine_arrays(call, handle, op, data, [&](collective coll) {
    return coll.scan(op, kind, data.target, data.source, data.count);
  });
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

#define SHMEM_DEFINE_REDUCE_(NAME, TYPE, OP, OPERATION)                     \
  SHMEM_DEFINE(                                                             \
      int,                                                                  \
      shmem_##NAME##_##OP##_reduce,                                         \
      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nreduce), \
      { return reduce(call, team, reduction_of<TYPE, OPERATION>, {dest, source, nreduce}); })
#define SHMEM_DEFINE_SCAN_(NAME, TYPE, OP, KIND)                                                   \
  SHMEM_DEFINE(                                                                                    \
      int,                                                                                         \
      shmem_##NAME##_sum_##OP,                                                                     \
      (shmem_team_t team, TYPE * dest, const TYPE *source, size_t nelems),                         \
      {                                                                                            \
        return scan(call, team, scan_kind::KIND, reduction_of<TYPE, sum>, {dest, source, nelems}); \
      })
#define SHMEM_DEFINE_ORDERED_(NAME, TYPE, A)     \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, max, maximum) \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, min, minimum)
#define SHMEM_DEFINE_BITS_(NAME, TYPE, A)        \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, and, bit_and) \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, or, bit_or)   \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, xor, bit_xor)
#define SHMEM_DEFINE_ARITHMETIC_(NAME, TYPE, A)     \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, sum, sum)        \
  SHMEM_DEFINE_REDUCE_(NAME, TYPE, prod, product)   \
  SHMEM_DEFINE_SCAN_(NAME, TYPE, inscan, inclusive) \
  SHMEM_DEFINE_SCAN_(NAME, TYPE, exscan, exclusive)

SHMEM_TABLE_RMA(SHMEM_DEFINE_ORDERED_, )
SHMEM_TABLE_REDUCE_BITS(SHMEM_DEFINE_BITS_, )
SHMEM_TABLE_REDUCE_ARITHMETIC(SHMEM_DEFINE_ARITHMETIC_, )
