// products/comex/settings.hpp: settings from the environment.
#pragma once

#include <string>

#include "onesided/job/job.hpp"

namespace tanada::comex {

// Swapping: memory is moved out of DRAM while its process waits.
struct swap_settings {
  // TND_COMEX_MEMORY: bytes of DRAM for all processes of a node; 0: swapping is off
  uint64_t budget = 0;
  // TND_COMEX_SWAP: where swapped-out memory goes: the URL of a folder or of a pool
  std::string store;
  // TND_COMEX_SLOTS: processes of a node that run at a time; 0: as many as there are processors for
  // them
  uint32_t slots = 0;
  // TND_COMEX_SWAP_THRESHOLD: smallest malloc, in bytes, whose memory is swappable
  uint64_t threshold = 128 << 10;
  // TND_COMEX_RESERVE: bytes of the budget for unswappable memory and buffers; `measured`: measured
  // while the job runs.
  static constexpr uint64_t measured = ~uint64_t{0};
  uint64_t reserve = measured;
  // TND_COMEX_WHOLE=1: a process never runs while its memory is swapped out
  bool always_resident = false;
  std::string trace,
      report;  // TND_COMEX_TRACE, TND_COMEX_REPORT: output files; empty: not written
  // Unswappable bytes of the node's processes at the start: private memory, and shared memory
  // outside of the library.
  uint64_t private_size = 0, shared_size = 0;
  uint32_t node = 0;  // index of this node; nodes are ordered by their lowest processes

  bool is_on() const noexcept {
    return budget != 0;
  }
  // Each node writes its own files: the first node under the configured name, node n with ".n"
  // appended.
  std::string node_path(const std::string &file) const {
    return node == 0 ? file : file + "." + std::to_string(node);
  }
  // The path in `store`; empty: `store` is not a folder.
  std::string folder() const;
  status read_environment();
};

struct settings {
  size_t heap_size = 0;  // bytes that a process may allocate at most; 0: the machine's memory
  // Bytes of device memory that a process may allocate, equal in all processes; 0: no device is
  // opened. Excludes `swap`.
  size_t device_heap_size = 0;
  seams::gpu_choice device = seams::gpu_choice::automatic;
  onesided::job_options job;  // TND_PGAS_*
  // Each heap has the same address in all processes, so that local processes can load and store
  // through pointers they exchange. Not possible where processes are threads of one process.
  bool has_common_addresses = true;
  swap_settings swap;

  // Reads TND_COMEX_* and the job's variables. invalid, with a message that names the variable.
  status read_environment();
};

// Heap size for each of `node_count` processes of a machine with so much memory. Each heap may be
// as large as the memory, since only used pages take DRAM. The heaps of all processes must fit into
// one address space.
size_t default_heap_size(size_t memory_size, size_t node_count) noexcept;

}  // namespace tanada::comex
