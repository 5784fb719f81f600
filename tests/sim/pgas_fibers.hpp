// tests/sim/pgas_fibers.hpp: programs that make blocking calls, many in one thread: each has a
// stack and runs when it is resumed.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "executor/sanitizer.hpp"
#include "executor/fiber.hpp"

namespace tanada::test {

// Not thread-safe. All must have ended when it is destroyed.
class fiber_set {
 public:
  fiber_set() {
    simt::host::fiber_adopt_thread(home_);
  }
  ~fiber_set() {
    for (auto const &each : all_)
      TND_ASSERT(each->is_over);
  }
  fiber_set(const fiber_set &) = delete;
  fiber_set &operator=(const fiber_set &) = delete;

  void add(std::function<void()> program) {
    auto &made = *all_.emplace_back(std::make_unique<one>());
    made.owner = this;
    made.program = std::move(program);
    made.stack = simt::host::fiber_acquire(stack_size);
    simt::host::fiber_prepare(*made.stack, &main_of, &made);
  }
  size_t size() const {
    return all_.size();
  }
  bool is_over(size_t index) const {
    return all_[index]->is_over;
  }
  bool is_inside() const {
    return running_ != nullptr;
  }

  // Runs until it yields or ends. Called from outside the fibers.
  void resume(size_t index) {
    auto &next = *all_[index];
    TND_ASSERT(running_ == nullptr && !next.is_over);
    running_ = &next;
    switch_between(home_, *next.stack);
    running_ = nullptr;
    if (next.is_over)
      simt::host::fiber_release(std::exchange(next.stack, nullptr));
  }

  // Called by one of the fibers.
  void yield() {
    switch_between(*running_->stack, home_);
  }

 private:
  static constexpr uint64_t stack_size = 256 << 10;
  struct one {
    fiber_set *owner = nullptr;
    std::function<void()> program;
    simt::host::fiber *stack = nullptr;
    bool is_over = false;
  };

  // ThreadSanitizer treats each fiber as a thread, and must detect kernels that miss a barrier, so
  // a switch gives no order by itself. These programs are one thread's, so each switch orders what
  // preceded it before what follows.
  void switch_between(simt::host::fiber &from, simt::host::fiber &to, bool from_is_done = false) {
    simt::host::release_edge(&order_);
    simt::host::fiber_switch(from, to, from_is_done);
    simt::host::acquire_edge(&order_);
  }

  static void main_of(void *argument) {
    simt::host::acquire_edge(&order_);
    auto &self = *static_cast<one *>(argument);
    simt::host::fiber_entered(self.owner->home_);
    self.program();
    self.is_over = true;
    self.owner->switch_between(*self.stack, self.owner->home_, true);
  }

  static inline thread_local char
      order_;  // only its address is used; a new fiber has the order of its thread
  simt::host::fiber home_;
  std::vector<std::unique_ptr<one>> all_;
  one *running_ = nullptr;
};

}  // namespace tanada::test
