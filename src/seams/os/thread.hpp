// seams/os/thread.hpp: what the operating system is asked of a thread beyond what std::thread
// has. All of it is for speed: where it is refused, things go on more slowly.
#pragma once

namespace tanada::port {

// A step of a loop that waits for another processor for less than a microsecond. Never leaves the
// processor.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The calling thread's short sleeps end when they should and not some 50 us later.
void thread_sleeps_precisely() noexcept;

// The calling thread runs for short times and sleeps: it is let run soon when it wakes, by systems
// that know of slices (Linux 6.12), though others compute. It gets no more of the processors than
// they do.
void thread_runs_briefly() noexcept;

// Let the calling thread run on those of its processors that belong to the memory node. node < 0,
// or none do: it stays as it is.
void thread_bind_to_node(int node) noexcept;

// While it lives, memory that the calling thread is first to touch comes from the node if it has
// some. node < 0: nothing.
class memory_near_node {
 public:
  explicit memory_near_node(int node) noexcept;
  ~memory_near_node();
  memory_near_node(const memory_near_node &) = delete;
  memory_near_node &operator=(const memory_near_node &) = delete;

 private:
  bool set_;
};

}  // namespace tanada::port
