// products/shmem/collectives/active_set.hpp: deprecated collective operations: of PEs that are no
// team, by words of the program's own.
#pragma once

#include "products/shmem/collectives/far.hpp"

namespace tanada::shmem {

// PE numbers from `start` on, 2^log_stride apart.
struct active_set {
  int start, log_stride, size;

  // Nobody, for one that names PEs which the job does not have or to which this PE does not belong.
  group members(const pgas::job &job) const;
  bool is_everybody(const pgas::job &job) const noexcept {
    return start == 0 && size == job.count() && (log_stride == 0 || size == 1);
  }
};

// Longs of the program's array that are used: zeros before and after each operation.
inline constexpr size_t sync_words = round_count_max + 3;

// Signals go to `sync`, an array of at least sync_words, symmetric and zero in all members. The
// same array serves sets that overlap, in turn: whoever uses it anew knows, as the specification
// asks, that the others have left.
far_words words_of(long *sync);

}  // namespace tanada::shmem
