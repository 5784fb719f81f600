// products/comex/settings.hpp: what the environment says.
#pragma once

#include <string>

#include "onesided/job/job.hpp"

namespace tanada::comex {

// Memory that leaves DRAM while its process waits.
struct swap_settings {
  uint64_t budget = 0;  // TND_COMEX_MEMORY: bytes of DRAM that the processes of a node may have
                        // together; 0: it is off
  std::string store;    // TND_COMEX_SWAP: where the rest goes, a folder's or a pool's URL
  uint32_t slots = 0;   // TND_COMEX_SLOTS: processes of a node that run at a time; 0: as many as it
                        // has processors for them
  uint64_t threshold = 128 << 10;  // TND_COMEX_SWAP_THRESHOLD: bytes of a malloc that may leave
  // TND_COMEX_RESERVE: bytes of the budget for what cannot leave, and for buffers; `measured`: as
  // the system says while the job runs.
  static constexpr uint64_t measured = ~uint64_t{0};
  uint64_t reserve = measured;
  bool comes_whole = false;  // TND_COMEX_WHOLE=1: a process never goes on while its memory is away
  std::string trace,
      report;  // TND_COMEX_TRACE, TND_COMEX_REPORT: files that are written; empty: none
  // Bytes that the node's processes have at the start and that cannot leave: each its own, and what
  // it shares beside the library.
  uint64_t private_size = 0, shared_size = 0;
  uint32_t node = 0;  // which of the job's nodes this is, by their lowest processes

  bool is_on() const noexcept {
    return budget != 0;
  }
  // Each node writes files of its own: of the first node by the name that was chosen, of node n
  // with ".n" behind it.
  std::string path_of(const std::string &file) const {
    return node == 0 ? file : file + "." + std::to_string(node);
  }
  // The path of `store`; empty: it is no folder.
  std::string folder() const;
  status read_environment();
};

struct settings {
  size_t heap_size = 0;  // bytes that a process may give at most; 0: what the machine has
  // Bytes of its device's memory that a process may give, equal in all; 0: no device is opened. Not
  // together with `swap`.
  size_t device_heap_size = 0;
  port::gpu_choice device = port::gpu_choice::automatic;
  pgas::job_options job;  // TND_PGAS_*
  // Each heap lies at one address in all processes: neighbours may load and store what they were
  // told of. Processes that are threads of one cannot have it.
  bool has_common_addresses = true;
  swap_settings swap;

  // TND_COMEX_* and the job's variables. invalid, with a message that names the variable.
  status read_environment();
};

// Bytes of heap for each of `node_count` processes of a machine with so much memory: all of it for
// each, since only what is used takes memory, as long as the addresses of all of them fit into a
// process.
size_t default_heap_size(size_t memory_size, size_t node_count) noexcept;

}  // namespace tanada::comex
