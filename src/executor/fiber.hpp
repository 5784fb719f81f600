// executor/fiber.hpp: a stack and where on it execution stopped. Fibers and their stacks are
// pooled for the life of the process: a fresh mapping for each launch is slow, and a fiber costs
// TSan a millisecond.
#pragma once

#include <tanada/device/detail/simt/config.hpp>

namespace tanada::simt::host {

struct fiber {
  void *stack_pointer = nullptr;  // while it does not run
  char *stack_low = nullptr;
  u64 stack_size = 0;  // bytes, without the guard page below
  void *tsan_handle = nullptr;
  void *asan_fake_stack = nullptr;
  fiber *next = nullptr;  // in the pool
};

// Take a fiber with at least `stack_size` bytes of stack; aborts when memory is out. Any thread.
fiber *fiber_acquire(u64 stack_size);
void fiber_release(fiber *instance) noexcept;

// Make `instance` start at entry(argument) when it is switched to. `entry` never returns.
void fiber_prepare(fiber &instance, void (*entry)(void *), void *argument) noexcept;

// The fiber of the calling thread's own stack, to switch away from and back to.
void fiber_adopt_thread(fiber &home) noexcept;

// Stop `from`, which runs, and continue `to`. `from_is_done`: nobody will switch back to it before
// fiber_prepare.
void fiber_switch(fiber &from, fiber &to, bool from_is_done = false) noexcept;

// First thing in `entry`: completes the switch that `home` made.
void fiber_entered(fiber &home) noexcept;

}  // namespace tanada::simt::host
