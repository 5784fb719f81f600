// seams/os/thread.hpp: requests to the operating system about threads, beyond std::thread. All of
// them are for speed: where the system refuses one, the program is only slower.
#pragma once

namespace tanada::seams {

// A step of a loop that waits for another processor for less than a microsecond. Never yields the
// processor.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The calling thread's short sleeps end on time, and not some 50 us later.
void thread_set_precise_sleep() noexcept;

// For a thread that runs for short times and sleeps. Systems with configurable slices (Linux 6.12)
// run it soon after it wakes, though others compute. It gets no larger share of the processors.
void thread_set_short_slice() noexcept;

// For a thread that serves the program's other threads. If a launcher has bound the process to a
// single core, as Open MPI does with one or two processes, the calling thread may use all
// processors that the system permits. It would otherwise wait for milliseconds while other threads
// poll. A process without a launcher keeps its processors.
void thread_leave_single_core() noexcept;

// Restricts the calling thread to those of its processors that belong to the memory node. A no-op
// if node < 0 or there are no such processors.
void thread_bind_to_node(int node) noexcept;

// While it lives, memory that the calling thread is first to touch comes from the node if that has
// some. A no-op if node < 0.
class memory_node_preference {
 public:
  explicit memory_node_preference(int node) noexcept;
  ~memory_node_preference();
  memory_node_preference(const memory_node_preference &) = delete;
  memory_node_preference &operator=(const memory_node_preference &) = delete;

 private:
  bool is_set_;
};

}  // namespace tanada::seams
