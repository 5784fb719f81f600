#include "products/shmem/collectives/active_set.hpp"

namespace tanada::shmem {

group active_set::members(const pgas::job &job) const {
  group made;
  made.me = -1;
  if (size < 1 || start < 0 || log_stride < 0 || log_stride > 30)
    return {};
  int64_t const stride = int64_t{1} << log_stride;
  if (start + (size - 1) * stride >= job.count())
    return {};
  for (int i = 0; i < size; i++) {
    auto const pe = pgas::pe_index(start + i * stride);
    if (pe == job.me())
      made.me = i;
    made.pes.push_back(pe);
  }
  return made.me < 0 ? group{} : made;
}

// Both sets of words are one: a member is an operation ahead of another's only where the
// specification forbids it.
far_words words_of(long *sync) {
  static_assert(sizeof(long) == sizeof(uint64_t));
  auto *const words = reinterpret_cast<uint64_t *>(sync);
  far_words made;
  for (size_t round = 0; round < round_count_max; round++) {
    made.sync[round_count_max + round] = {words + round, nullptr};
    made.sync[round] = made.sync[round_count_max + round];
    made.tree[round] = {words + round_count_max, nullptr};
  }
  made.bulk[1] = {words + round_count_max + 1, nullptr};
  made.bulk[0] = made.bulk[1];
  made.scratch = words + round_count_max + 2;
  return made;
}

}  // namespace tanada::shmem
