// executor/fiber.hpp: a fiber is a stack and the point at which its execution was suspended. Fibers
// and their stacks are pooled for the life of the process, because a new mapping for each launch is
// slow, and creating a fiber takes TSan a millisecond.
#pragma once

#include <tanada/device/detail/simt/config.hpp>

namespace tanada::simt::host {

struct fiber {
  void *stack_pointer = nullptr;  // valid while it is suspended
  char *stack_low = nullptr;
  u64 stack_size = 0;  // bytes, without the guard page below
  void *tsan_handle = nullptr;
  void *asan_fake_stack = nullptr;
  fiber *next = nullptr;  // in the pool
};

// Take a fiber with at least `stack_size` bytes of stack. Aborts if memory is insufficient. Any
// thread may call it.
fiber *fiber_acquire(u64 stack_size);
void fiber_release(fiber *instance) noexcept;

// Make `instance` start at entry(argument) when it is next switched to. `entry` never returns.
void fiber_prepare(fiber &instance, void (*entry)(void *), void *argument) noexcept;

// Initialize `home` as the fiber of the calling thread's own stack, to switch away from and back
// to.
void fiber_adopt_thread(fiber &home) noexcept;

// Suspend the running fiber `source` and continue `target`. `source_is_done`: no switch back to
// `source` happens before fiber_prepare().
void fiber_switch(fiber &source, fiber &target, bool source_is_done = false) noexcept;

// `entry` calls this first, to complete the switch that `home` made.
void fiber_entered(fiber &home) noexcept;

}  // namespace tanada::simt::host
