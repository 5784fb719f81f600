// products/comex/swap_shutdown.hpp: swapping between the last call of the library and the end of
// each process.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "core/base/mutex.hpp"
#include "onesided/swap/node_table.hpp"
#include "seams/bootstrap/node_watch.hpp"

namespace tanada::comex {

// State of one process, readable by all; zero at first.
enum class shutdown_phase : uint32_t {
  in_job,
  finalized,  // it makes no more library calls, and may still wait in MPI
  exiting,    // it runs to its end with all its memory resident, and waits for nobody
  lingering,  // the process with the swap agent waits for the others before it ends
};

// Processes end one by one. When one has ended, its memory is discarded, and the next one is
// swapped in. The lowest process, which has the agent, ends last. A process that takes longer than
// `grace_ns` to end is no longer charged; the budget is exceeded then, with a warning.
//
// Thread safety: any thread, except for watch() and wait_for_others(), which only the process's own
// thread calls.
class swap_shutdown {
 public:
  static constexpr uint64_t grace_ns = 10'000'000'000;

  // `phases` are those of all processes, by rank. `drop` discards the DRAM of a process that has
  // ended.
  swap_shutdown(onesided::swap::node_table &table,
                uint32_t me,
                std::vector<std::atomic<shutdown_phase> *> phases,
                std::function<void(uint32_t)> drop)
      : table_{table}, me_{me}, phases_{std::move(phases)}, drop_{std::move(drop)} {
    TND_ASSERT(me_ < phases_.size());
  }

  // Starts watching; called once. The lowest process watches the ends of all others. The others
  // watch the lowest: if it ends while their memory is swapped out, the node table fails.
  void watch();

  // Called every few milliseconds by the lowest process. Bounds the wait for a process that ends to
  // about `grace_ns`.
  void poll();

  // Sets this process's phase, while its state is running.
  void set_phase(shutdown_phase next) {
    TND_ASSERT(next == shutdown_phase::finalized || next == shutdown_phase::exiting);
    phases_[me_]->store(next);
  }
  bool begin_linger();  // true: it may begin one more wait

  // Called by the lowest process: waits until each other process has ended, or has all its memory
  // and will end by itself. Calls `progress` each millisecond meanwhile. It also returns after a
  // failure, and where nothing has happened for a minute.
  void wait_for_others(const std::function<void()> &progress);

 private:
  bool is_finished(uint32_t rank) const;
  void on_process_end(uint32_t rank);

  onesided::swap::node_table &table_;
  uint32_t const me_;
  std::vector<std::atomic<shutdown_phase> *> const phases_;
  std::function<void(uint32_t)> const drop_;
  std::atomic<bool> is_watching_{false};
  mutex mutex_;  // serializes reports that a process has ended
  bool has_warned_ TND_GUARDED_BY(mutex_) = false;
  seams::node_watch watch_;
};

}  // namespace tanada::comex
