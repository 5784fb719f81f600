// products/comex/swap_agent.hpp: runs the swap agent of a node as the settings require.
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

// Owned by one process of a node: the store, the agent's thread, and the files that report its
// work.
// Bits of the pages of all ranks of a node.
struct node_page_maps {
  std::span<const onesided::swap::page_bits> stored, cold, left_out;
};

class swap_agent {
 public:
  // `on_poll` is called every few milliseconds by the agent's thread. Fails, with a message, if the
  // store or the trace file does. All arguments outlive the agent; the job keeps its descriptors.
  static result<std::unique_ptr<swap_agent>> start(onesided::job &job,
                                                   const swap_settings &config,
                                                   onesided::swap::node_table &table,
                                                   const node_page_maps &maps,
                                                   std::function<void()> on_poll);
  ~swap_agent();

  // Call it when no memory is to be moved any more. Writes the report. io, with a message: that
  // failed.
  status stop();
  // Writes TND_COMEX_REPORT, if it is set, with the numbers so far. io: as above. The agent's
  // thread also writes it each second, because a job may be killed.
  status report() {
    return config_.report.empty() ? status::ok : write_report();
  }
  // Whether memory moves by demand paging, for the report. Called before anything moves.
  void set_demand_paging(bool uses_demand_paging) noexcept {
    uses_demand_paging_ = uses_demand_paging;
  }

 private:
  void open_meter(std::vector<int> descriptors);
  status open_trace();
  void open_status_page();
  void observe(onesided::swap::node_table &observed);
  std::string counters_text() const;
  std::string report_text() const;
  status write_report();
  void log_summary() const;
  bool is_budget_kept() const noexcept;
  void publish();
  void report_periodically();
  swap_agent(const swap_settings &config, onesided::swap::node_table &table)
      : config_{config}, table_{table} {}

  swap_settings const config_;
  onesided::swap::node_table &table_;
  backends::store_registry stores_;
  std::unique_ptr<onesided::swap::trace_writer>
      trace_;  // used only by the agent's thread while it runs
  std::unique_ptr<onesided::swap::memory_meter> meter_;  // likewise
  std::unique_ptr<seams::page_file> status_page_;        // likewise
  uint64_t published_ns_ = 0;                            // likewise
  uint64_t reported_ns_ = 0;                             // likewise
  std::mutex report_mutex_;                              // held while the report is written
  std::atomic<bool> uses_demand_paging_{false};
  bool is_stopped_ =
      false;  // nothing moves any more; written while the agent's thread does not run
  std::unique_ptr<onesided::swap::agent_thread> thread_;
};

}  // namespace tanada::comex
