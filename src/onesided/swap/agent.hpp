// onesided/swap/agent.hpp: the swap agent, which moves the memory of a node's processes and serves
// pages of swapped-out processes. A node has one agent.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onesided/swap/node_table.hpp"
#include "onesided/swap/page_mover.hpp"
#include "onesided/swap/swap_object.hpp"

namespace tanada::onesided::swap {

// A rank's memory, as the agent accesses it.
struct rank_memory {
  memory_file memory;
  page_bits stored;  // shared with the rank and all other processes of the node
  std::unique_ptr<memory_window> window = nullptr;
  page_bits cold = {}, left_out = {};  // as in `swappable_memory`
};

struct agent_options {
  std::string url;                       // TND_COMEX_SWAP: a folder
  uint64_t timeout_ns = 60'000'000'000;  // for store operations that create and delete objects
  page_mover_options mover = {};
  std::function<void(node_table &)> on_tick =
      {};  // called by step() every few milliseconds, e.g. to write a trace
};

// Buffers for a node with this budget in bytes. They take a small part of it, and no more than
// flash needs.
page_mover_options mover_options_for(uint64_t budget) noexcept;

// Carries out the moves and requests of the node table. Any error ends in `node_table::fail()`,
// with one line that names TND_COMEX_SWAP.
//
// Thread safety: one thread at a time. It uses no memory that may be swapped out.
class agent {
 public:
  // The store behind the URL outlives the agent, as does the node table. Returns errors with a
  // message.
  static result<std::unique_ptr<agent>> create(node_table &table,
                                               seams::store &store,
                                               std::vector<rank_memory> ranks,
                                               agent_options options);
  ~agent();

  // Does the pending work, and never waits for the store. True: something has changed, and the
  // caller should call again at once.
  bool step();
  // The longest time that the caller may sleep, unless the node table wakes it.
  uint64_t idle_ns() const noexcept;

 private:
  agent(node_table &table, agent_options options) : table_{table}, options_{std::move(options)} {}
  bool begin_moves();
  bool take_requests();
  bool trim_cache();
  bool report_events(page_mover_events &events);
  void update_counters(uint64_t now_ns);

  node_table &table_;
  agent_options const options_;
  std::unique_ptr<swap_objects> objects_;
  std::unique_ptr<page_mover> mover_;
  page_mover_events events_;
  uint64_t counted_ns_ = 0, ticked_ns_ = 0;
  uint64_t served_ = 0, copied_ = 0, written_back_ = 0, zero_ = 0;  // bytes
  uint64_t reported_cache_size_ = 0;                                // bytes
};

// The agent's thread, from the constructor to the destructor. It blocks all signals.
class agent_thread {
 public:
  // The thread calls `begin` first and `end` last; both may be empty.
  explicit agent_thread(node_table &table,
                        std::unique_ptr<agent> worker,
                        std::function<void()> on_begin = {},
                        std::function<void()> on_end = {});
  ~agent_thread();  // waits for operations in flight, for a limited time
  agent_thread(const agent_thread &) = delete;
  agent_thread &operator=(const agent_thread &) = delete;

 private:
  void run();

  node_table &table_;
  std::unique_ptr<agent> agent_;
  std::function<void()> on_begin_, on_end_;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

}  // namespace tanada::onesided::swap
