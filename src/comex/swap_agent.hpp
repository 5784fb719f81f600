// comex/swap_agent.hpp: what moves the memory of a node's processes, as the settings have it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "comex/settings.hpp"
#include "comex/swap/agent.hpp"
#include "comex/swap/trace.hpp"
#include "pgas/job.hpp"
#include "port/machine/page_folder.hpp"
#include "port/store/registry.hpp"

namespace tanada::comex {

// Of one process of a node: the store, the agent's thread, and the files that tell what it did.
//
// Thread safety: one thread at a time.
class swap_agent {
 public:
  // beside: called every few milliseconds by the agent's thread.
  // What the store says, or the file of the trace, with a message. All outlive it; the job keeps its descriptors.
  static result<std::unique_ptr<swap_agent>> start(pgas::job &job, const swap_settings &chosen, swap::board &shared,
                                                   std::span<const swap::page_bits> stored, std::function<void()> beside);
  ~swap_agent();

  // Nobody's memory is to be moved any more. What is told of it is written; io, with a message, if that fails.
  status stop();
  // What is told of it until now: TND_COMEX_REPORT, if there is to be one. io, as above.
  status report() const { return chosen_.report.empty() ? status::ok : write_report(); }

 private:
  status write_report() const;
  void publish();
  swap_agent(const swap_settings &chosen, swap::board &shared) : chosen_{chosen}, shared_{shared} {}

  swap_settings const chosen_;
  swap::board &shared_;
  port::store_registry stores_;
  std::unique_ptr<swap::trace_writer> trace_;  // the agent's thread's, while there is one
  std::unique_ptr<port::page_file> page_;      // the same
  uint64_t published_ns_ = 0;                  // the same
  std::unique_ptr<swap::agent_thread> thread_;
};

}  // namespace tanada::comex
