// Active sets of the deprecated collective calls.
#include "products/shmem/collectives/active_set.hpp"

namespace tanada::shmem {

group active_set::members(const onesided::job &job) const {
  group set_group;
  set_group.me = -1;
  if (size < 1 || start < 0 || log_stride < 0 || log_stride > 30)
    return {};
  int64_t const stride = int64_t{1} << log_stride;
  if (start + (size - 1) * stride >= job.count())
    return {};
  for (int i = 0; i < size; i++) {
    auto const pe = onesided::pe_index(start + i * stride);
    if (pe == job.me())
      set_group.me = i;
    set_group.pes.push_back(pe);
  }
  return set_group.me < 0 ? group{} : set_group;
}

// Both sets of words are the same one: the specification forbids that a member is an operation
// ahead of another on the same array.
fabric_signals signals_in_array(long *sync) {
  static_assert(sizeof(long) == sizeof(uint64_t));
  auto *const words = reinterpret_cast<uint64_t *>(sync);
  fabric_signals signals;
  for (size_t round = 0; round < round_count_max; round++) {
    signals.sync[round_count_max + round] = {words + round, nullptr};
    signals.sync[round] = signals.sync[round_count_max + round];
    signals.tree[round] = {words + round_count_max, nullptr};
  }
  signals.bulk[1] = {words + round_count_max + 1, nullptr};
  signals.bulk[0] = signals.bulk[1];
  signals.scratch = words + round_count_max + 2;
  return signals;
}

}  // namespace tanada::shmem
