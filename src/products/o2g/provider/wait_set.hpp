// products/o2g/provider/wait_set.hpp: the engines behind a queue or counter. A thread that reads
// the object makes their progress; a thread that waits for it sleeps in one of them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/sockets/joint_descriptor.hpp"
#include "products/o2g/engine.hpp"

namespace tanada::o2g::provider {

// Thread-safe. Lock order: `mutex_` before the mutex of an engine. `notify(engine &)` is called
// under an engine's lock and takes no lock.
class wait_set {
 public:
  // Create the descriptor that programs can wait on (FI_WAIT_FD). too_many_files.
  status open_descriptor();
  int descriptor() const noexcept {
    return joint_ == nullptr ? -1 : joint_->descriptor();
  }

  // An engine must live until detach() has returned. attach() and detach() do not block behind
  // waiting threads: they wake them.
  void attach(engine *member);
  void detach(engine *member) noexcept;

  void progress(bool may_sleep = true) {
    if (change_count_.load(std::memory_order_relaxed) != 0)
      return;
    shared_lock const lock{mutex_};
    bool const may_sleep_now = may_sleep && engines_.size() == 1;
    for (engine *const member : engines_)
      member->poll(may_sleep_now);
  }

  // Make progress until `is_ready` returns true. False: `deadline_ns` (absolute, monotonic clock)
  // passed first.
  bool wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument);

  // The state that threads wait for has changed. The first form is called from the completion sink
  // of `reporter`, the second one from a call of the program.
  void notify(engine &reporter) noexcept {
    if (waiter_count_.load() != 0) {
      reporter.wake();
      wake_first(reporter);
    }
    raise();
  }
  void notify() noexcept;

  // The descriptor is readable from raise() until lower(), and while one of the engines has work.
  void raise() noexcept {
    if (joint_ != nullptr && !is_raised_.exchange(true))
      joint_->raise();
  }
  void lower() noexcept;

  // Called before the program sleeps on the descriptor (fi_trywait). Handle everything that has
  // arrived, so that only new events make the descriptor readable.
  void prepare_sleep();

 private:
  // Around a change of `engines_`: waiting threads leave the engines, so that they do not hold the
  // lock, and notifiers have left the first one.
  class change_scope;
  void update_first() noexcept TND_REQUIRES(mutex_);

  // With several engines, waiters sleep in the first one. That engine cannot be detached while
  // `notifier_count_` is not 0.
  void wake_first(const engine &excluded) noexcept {
    notifier_count_.fetch_add(1);
    engine *const first = first_.load();
    if (first != nullptr && first != &excluded)
      first->wake();
    notifier_count_.fetch_sub(1);
  }

  shared_mutex mutex_;
  std::vector<engine *> engines_ TND_GUARDED_BY(mutex_);
  std::atomic<uint32_t> change_count_ = 0, waiter_count_ = 0, notifier_count_ = 0;
  std::atomic<engine *> first_ = nullptr;
  std::unique_ptr<backends::joint_descriptor> joint_;
  std::atomic<bool> is_raised_ = false;
};

}  // namespace tanada::o2g::provider
