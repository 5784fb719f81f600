// onesided/swap/memory_meter.hpp: measures how much DRAM the processes of a node use.
#pragma once

#include <cstdint>
#include <vector>

#include "onesided/swap/node_table.hpp"

namespace tanada::onesided::swap {

// Bytes of a process that cannot leave DRAM: anonymous memory and page tables. 0: the kernel does
// not report it.
uint64_t private_size_of(int32_t process_id);

// Bytes of this process's share of memory that it shares with others through files without a disk,
// as MPI does for messages. Files of this library are not counted.
uint64_t other_shared_size();

// Bytes of memory that a file without a disk occupies.
uint64_t used_size_of(int descriptor) noexcept;

// Memory that cannot be swapped out grows while a job runs, through connections, unexpected
// messages and small allocations. The meter measures it repeatedly and reserves it in the node
// table, so that less is left for swappable memory. It also records the largest sum of all memory.
//
// Thread safety: one thread at a time.
class memory_meter {
 public:
  // Memory that the kernel uses for a process besides page tables: stacks and descriptors.
  static constexpr uint64_t kernel_size = 512 << 10;  // bytes

  struct options {
    bool reserves = true;  // false: TND_COMEX_RESERVE fixes the reserved size
    // Bytes that are not measured: shared memory of MPI and of this library, and the kernel's.
    uint64_t constant_size = 0;
  };

  // `descriptors`: the ranks' heap files, by rank. They and the node table outlive the meter.
  memory_meter(node_table &table, std::vector<int> descriptors, const options &chosen);

  void update();  // cheap if the last call was a moment ago

 private:
  node_table &table_;
  std::vector<int> const descriptors_;
  options const options_;
  std::vector<uint64_t> initial_sizes_;  // bytes of each heap file that are part of the constant
  std::vector<uint64_t> private_sizes_;  // by rank
  // By rank: the kernel has reported a size before, so a process without one has ended.
  std::vector<bool> is_known_;
  uint64_t updated_ns_ = 0, measured_ns_ = 0;
};

}  // namespace tanada::onesided::swap
