// backends/local/local.hpp: a job whose processes are threads of this process, for tests and
// simulation. Link tanada_bootstrap_local.
#pragma once

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::backends {

// One rank, used by one thread at a time.
class local_bootstrap : public seams::bootstrap {
 public:
  // Ends this rank without a finalize, as SIGKILL would: waits of other ranks end with peer_lost,
  // and its own calls with canceled. Any thread may call it.
  virtual void kill() noexcept = 0;

  // The code of the job's first abort(), or -1 if there was none. abort() returns, and the other
  // ranks then treat the calling rank as failed.
  virtual int32_t abort_code() const noexcept = 0;
};

// The ranks of a job, distributed over nodes in blocks: 5 ranks on 2 nodes are 0 1 2 and 3 4. count
// >= 1, 1 <= node_count <= count.
std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(int32_t count,
                                                              int32_t node_count = 1);

// Rank i is on node node_of[i]; node numbers are arbitrary.
std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(std::span<const int32_t> node_of);

}  // namespace tanada::backends
