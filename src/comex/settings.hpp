// comex/settings.hpp: what the environment says.
#pragma once

#include "pgas/job.hpp"

namespace tanada::comex {

struct settings {
  size_t heap_size = 0;   // bytes that a process may give at most; 0: what the machine has
  pgas::job_options job;  // TND_PGAS_*
  // Each heap lies at one address in all processes: neighbours may load and store what they were told of. Processes that are threads of one
  // cannot have it.
  bool has_common_addresses = true;

  // TND_COMEX_HEAP and the job's variables. invalid, with a message that names the variable.
  status read_environment();
};

// Bytes of heap for each of `node_count` processes of a machine with so much memory: all of it for each, since only what is used takes
// memory, as long as the addresses of all of them fit into a process.
size_t default_heap_size(size_t memory_size, size_t node_count) noexcept;

}  // namespace tanada::comex
