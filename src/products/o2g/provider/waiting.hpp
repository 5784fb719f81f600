// products/o2g/provider/waiting.hpp: the engines behind a queue or a counter: whoever reads it
// drives them, whoever waits for it sleeps in one of them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/sockets/joint_descriptor.hpp"
#include "products/o2g/engine.hpp"

namespace tanada::o2g::provider {

// Thread-safe. Lock order: `mutex_` before an engine's; what is called under an engine's lock
// (tell) takes none.
class waiting_room {
 public:
  // For programs that wait by descriptor. too_many_files.
  status open_descriptor();
  int descriptor() const noexcept {
    return joint_ == nullptr ? -1 : joint_->descriptor();
  }

  // An engine stays until leave() has returned. Neither waits for those who wait in here: they are
  // woken.
  void enter(engine *which);
  void leave(engine *which) noexcept;

  void drive(bool may_sleep = true) {
    if (changing_.load(std::memory_order_relaxed) != 0)
      return;
    shared_lock const lock{mutex_};
    bool const is_only = may_sleep && engines_.size() == 1;
    for (engine *const each : engines_)
      each->poll(is_only);
  }

  // Drives until `is_ready`; false: the deadline (absolute, monotonic clock) came first.
  bool wait(uint64_t deadline_ns, bool (*is_ready)(void *), void *argument);

  // What is waited for has changed. The first one, in the sink of `by`; the second one, by a call
  // of the program.
  void tell(engine &by) noexcept {
    if (waiter_count_.load() != 0) {
      by.wake();
      wake_first(by);
    }
    raise();
  }
  void tell() noexcept;

  // The descriptor is readable from raise() until lower(), and while one of the engines has
  // something to do.
  void raise() noexcept {
    if (joint_ != nullptr && !is_raised_.exchange(true))
      joint_->raise();
  }
  void lower() noexcept;

  // Before the program sleeps by the descriptor: what has come is handled, and nothing but news
  // makes it readable.
  void settle();

 private:
  template <class Change>
  void change(Change &&how);

  // Of several engines it is the first in which a waiter sleeps. It cannot leave while
  // telling_count_ is not 0.
  void wake_first(const engine &but) noexcept {
    telling_count_.fetch_add(1);
    engine *const first = first_.load();
    if (first != nullptr && first != &but)
      first->wake();
    telling_count_.fetch_sub(1);
  }

  shared_mutex mutex_;
  std::vector<engine *> engines_;
  std::atomic<uint32_t> changing_ = 0, waiter_count_ = 0, telling_count_ = 0;
  std::atomic<engine *> first_ = nullptr;
  std::unique_ptr<port::joint_descriptor> joint_;
  std::atomic<bool> is_raised_ = false;
};

}  // namespace tanada::o2g::provider
