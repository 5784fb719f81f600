// products/comex/swap_agent.hpp: what moves the memory of a node's processes, as the settings have
// it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/registry/store_registry.hpp"
#include "onesided/job/job.hpp"
#include "onesided/swap/agent.hpp"
#include "onesided/swap/memory_meter.hpp"
#include "onesided/swap/trace.hpp"
#include "products/comex/settings.hpp"
#include "seams/os/page_folder.hpp"

namespace tanada::comex {

// Of one process of a node: the store, the agent's thread, and the files that tell what it did.
//
// Thread safety: one thread at a time.
class swap_agent {
 public:
  // beside: called every few milliseconds by the agent's thread.
  // What the store says, or the file of the trace, with a message. All outlive it; the job keeps
  // its descriptors.
  static result<std::unique_ptr<swap_agent>> start(pgas::job &job, const swap_settings &chosen,
                                                   swap::board &shared,
                                                   std::span<const swap::page_bits> stored,
                                                   std::function<void()> beside);
  ~swap_agent();

  // Nobody's memory is to be moved any more. What is told of it is written; io, with a message, if
  // that fails.
  status stop();
  // TND_COMEX_REPORT until now, if there is to be one. io, as above. The agent's thread writes it
  // each second besides: a job may be killed.
  status report() {
    return chosen_.report.empty() ? status::ok : write_report();
  }
  // How memory moves, for the report. Called before anything moves.
  void by_pages_set(bool is_by_pages) noexcept {
    is_by_pages_ = is_by_pages;
  }

 private:
  std::string report_text() const;
  status write_report();
  void summarise() const;
  bool has_held() const noexcept;
  void publish();
  void report_now_and_then();
  swap_agent(const swap_settings &chosen, swap::board &shared) : chosen_{chosen}, shared_{shared} {}

  swap_settings const chosen_;
  swap::board &shared_;
  port::store_registry stores_;
  std::unique_ptr<swap::trace_writer> trace_;  // the agent's thread's, while there is one
  std::unique_ptr<swap::memory_meter> meter_;  // the same
  std::unique_ptr<port::page_file> page_;      // the same
  uint64_t published_ns_ = 0;                  // the same
  uint64_t reported_ns_ = 0;                   // the same
  std::mutex reporting_;                       // held while the report is written
  std::atomic<bool> is_by_pages_{false};
  bool is_over_ = false;  // nothing moves any more; written where the agent's thread is not
  std::unique_ptr<swap::agent_thread> thread_;
};

}  // namespace tanada::comex
