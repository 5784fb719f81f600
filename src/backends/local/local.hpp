// backends/local/local.hpp: a job whose processes are threads of this one: for tests and
// simulation. Link tanada_bootstrap_local.
#pragma once

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

// One rank, which belongs to one thread at a time.
class local_bootstrap : public bootstrap {
 public:
  // This rank is gone without leaving, as after SIGKILL: what others wait for ends with peer_lost,
  // its own calls with canceled. By any thread.
  virtual void kill() noexcept = 0;

  // What abort() was called with, by any rank of the job first; -1 while there was none. abort()
  // returns, and the rank that called it is lost to the others.
  virtual int32_t abort_code() const noexcept = 0;
};

// The ranks of a job, on nodes in blocks: 5 ranks on 2 nodes are 0 1 2 and 3 4. count >= 1, 1 <=
// node_count <= count.
std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(int32_t count,
                                                              int32_t node_count = 1);

// Rank i is on node node_of[i], whatever numbers those are.
std::vector<std::unique_ptr<local_bootstrap>> bootstrap_local(std::span<const int32_t> node_of);

}  // namespace tanada::port
