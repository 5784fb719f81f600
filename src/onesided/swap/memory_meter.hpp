// onesided/swap/memory_meter.hpp: how much DRAM the processes of a node have, by what the system
// says.
#pragma once

#include <cstdint>
#include <vector>

#include "onesided/swap/board.hpp"

namespace tanada::comex::swap {

// Bytes of a process that cannot leave DRAM: anonymous memory and page tables. 0: the system does
// not say.
uint64_t private_size_of(int32_t process_id);

// Bytes of this process's share of memory that it shares with others by files without a disk, as
// MPI does for messages. The library's own files are not counted.
uint64_t shared_size_of_others();

// Bytes that the system keeps for a file without a disk.
uint64_t used_size_of(int descriptor) noexcept;

// What cannot leave grows while a job runs: by connections, unexpected messages and small
// allocations. The meter measures it again and again and reserves it on the board, so that less is
// left for memory that can leave. It also keeps the largest sum of all.
//
// Thread safety: one thread at a time.
class memory_meter {
 public:
  // What the kernel has for a process besides page tables: stacks, descriptors.
  static constexpr uint64_t kernel_size = 512 << 10;  // bytes

  struct options {
    bool reserves = true;  // false: TND_COMEX_RESERVE fixes what is reserved
    uint64_t constant_size =
        0;  // bytes besides what is measured: shared memory of MPI, the library's, the kernel's
  };

  // descriptors: of the ranks' heap files, by rank; they and the board outlive it.
  memory_meter(board &shared, std::vector<int> descriptors, const options &chosen);

  void look();  // cheap where the last time was a moment ago

 private:
  board &shared_;
  std::vector<int> const descriptors_;
  options const options_;
  std::vector<uint64_t> before_;         // bytes of each heap file that the constant contains
  std::vector<uint64_t> private_sizes_;  // by rank
  std::vector<bool>
      is_known_;  // by rank: the system has said it once, so that a process without has ended
  uint64_t looked_ns_ = 0, measured_ns_ = 0;
};

}  // namespace tanada::comex::swap
