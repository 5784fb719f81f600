// onesided/swap/agent.hpp: who moves the memory of a node's processes, and serves pages of those
// that are away. One a node.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onesided/swap/board.hpp"
#include "onesided/swap/mover.hpp"
#include "onesided/swap/swap_object.hpp"

namespace tanada::comex::swap {

// Of a rank, for who moves it.
struct moved_memory {
  memory_file memory;
  page_bits stored;  // as its owner and all others have it
  std::unique_ptr<memory_window> window = nullptr;
};

struct agent_options {
  std::string url;                       // TND_COMEX_SWAP: a folder
  uint64_t timeout_ns = 60'000'000'000;  // for the store, when objects are made and at the end
  mover_options moving = {};
  std::function<void(board &)> beside =
      {};  // called every few milliseconds by whoever calls step(), e.g. for a trace
};

// Buffers for a node of this budget, bytes: a small part of it, and no more than flash needs.
mover_options moving_within(uint64_t budget) noexcept;

// What it is told to do it reads from the board. Whatever fails ends in board::fail(), with one
// line that names TND_COMEX_SWAP.
//
// Thread safety: one thread at a time. It uses no memory that may leave.
class agent {
 public:
  // The store behind the URL outlives it, as the board does. With a message.
  static result<std::unique_ptr<agent>> create(board &shared, port::store &from,
                                               std::vector<moved_memory> ranks,
                                               agent_options chosen);
  ~agent();

  // Does what there is to do, and never waits for the store. True: something has happened, look
  // again at once.
  bool step();
  // For how long nothing may be missed, unless the board's ring is heard.
  uint64_t idle_ns() const noexcept;

 private:
  agent(board &shared, agent_options chosen) : shared_{shared}, options_{std::move(chosen)} {}
  bool begin_moves();
  bool take_requests();
  bool trim_cache();
  bool tell(mover_news &news);
  void count(uint64_t now_ns);

  board &shared_;
  agent_options const options_;
  std::unique_ptr<swap_objects> objects_;
  std::unique_ptr<mover> mover_;
  mover_news news_;
  uint64_t counted_ns_ = 0, beside_ns_ = 0, served_ = 0, copied_ = 0, written_back_ = 0;
  uint64_t told_cached_ = 0;  // bytes
};

// An agent's thread, from create() to the destructor. It lets all signals to others.
class agent_thread {
 public:
  // `begin` and `end`: called by the thread, first and last; may be empty.
  explicit agent_thread(board &shared, std::unique_ptr<agent> of, std::function<void()> begin = {},
                        std::function<void()> end = {});
  ~agent_thread();  // what is under way is waited for, for a while
  agent_thread(const agent_thread &) = delete;
  agent_thread &operator=(const agent_thread &) = delete;

 private:
  void run();

  board &shared_;
  std::unique_ptr<agent> agent_;
  std::function<void()> begin_, end_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

}  // namespace tanada::comex::swap
