// products/comex/swap_end.hpp: memory that leaves DRAM, between the last call of the library and
// the end of each process.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "onesided/swap/board.hpp"
#include "seams/bootstrap/node_watch.hpp"

namespace tanada::comex {

// Of one process, where all can read it: zero at first.
enum class end_phase : uint32_t {
  in_job,
  over,       // it calls the library no more, and still waits in MPI
  ended,      // it runs to its end, with all its memory here, and waits for nobody
  lingering,  // the one that moves memory waits for the others before it ends
};

// Processes end one by one: what one has is given up when it has ended, and the next one's comes
// back. The lowest of them, which has the agent, ends last. Who takes longer than others wait for
// is not counted any more: the budget is exceeded then, with a warning.
//
// Thread safety: any thread, but for watch and wait_for_others, which the process's own calls.
class swap_end {
 public:
  static constexpr uint64_t grace_ns = 10'000'000'000;

  // words: of all processes, by rank. drop: gives up what is in DRAM of a process that has ended.
  swap_end(swap::board &shared, uint32_t me, std::vector<std::atomic<end_phase> *> words,
           std::function<void(uint32_t)> drop)
      : shared_{shared}, me_{me}, words_{std::move(words)}, drop_{std::move(drop)} {}

  // From now on: of the lowest process, all others' ends; of these, whether it ends before their
  // memory is back, which the board says then. Once.
  void watch();

  // Each few milliseconds, by the lowest process: nobody waits much longer than grace_ns for who
  // has ended.
  void look();

  // This process's own; its state is running.
  void enter(end_phase next) {
    words_[me_]->store(next);
  }
  bool linger();  // true: it may leave() once more, to wait

  // By the lowest: until all others have ended, or have all their memory. Meanwhile attend(), each
  // millisecond. After a failure, and where nothing has happened for a minute, it returns, too.
  void wait_for_others(const std::function<void()> &attend);

 private:
  bool is_through(uint32_t rank) const;
  void has_ended(uint32_t rank);

  swap::board &shared_;
  uint32_t const me_;
  std::vector<std::atomic<end_phase> *> const words_;
  std::function<void(uint32_t)> const drop_;
  std::atomic<bool> is_watching_{false};
  std::mutex mutex_;  // of who says that another is gone
  bool has_warned_ = false;
  port::node_watch watch_;
};

}  // namespace tanada::comex
