// products/shmem/collectives/active_set.hpp: deprecated collective operations on active sets of
// PEs, which signal through words of the program.
#pragma once

#include "products/shmem/collectives/fabric_group.hpp"

namespace tanada::shmem {

// The PEs `start`, `start` + 2^log_stride, and so on.
struct active_set {
  int start, log_stride, size;

  // Returns an empty group if the set names PEs that the job does not have, or if this PE is not in
  // it.
  group members(const onesided::job &job) const;
  bool is_whole_job(const onesided::job &job) const noexcept {
    return start == 0 && size == job.count() && (log_stride == 0 || size == 1);
  }
};

// Elements of the program's array that are used; they are zero before and after each operation.
inline constexpr size_t sync_words = round_count_max + 3;

// Returns the signal words in `sync`: an array of at least sync_words, symmetric and zero in all
// members. Overlapping sets may use the same array in turn. As the specification requires, a caller
// reuses it only after the other members have finished.
fabric_signals signals_in_array(long *sync);

}  // namespace tanada::shmem
