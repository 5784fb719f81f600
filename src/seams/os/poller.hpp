// seams/os/poller.hpp: waiting for many streams at a time, and being woken by other threads.
#pragma once

#include <cstdint>
#include <span>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::seams {

// Wakes a thread that waits in a poller. Thread-safe; outlives all callers of wake().
class waker {
 public:
  waker();
  waker(const waker &) = delete;
  waker &operator=(const waker &) = delete;
  ~waker();

  // -1: the system had no descriptor left.
  int descriptor() const noexcept {
    return descriptor_;
  }
  void wake() noexcept;
  void clear() noexcept;  // before checking the reason

 private:
  int const descriptor_;
};

struct interest {
  bool to_receive = false, to_send = false;
  bool operator==(const interest &) const = default;
};

// Level-triggered, over epoll. Used by one thread.
class poller {
 public:
  poller();
  poller(const poller &) = delete;
  poller &operator=(const poller &) = delete;
  ~poller();

  // too_many_files: the system had no descriptor left for it.
  status ready() const noexcept;

  // `word` is returned when the descriptor is ready, or has ended. Closing the descriptor removes
  // it.
  status add(int descriptor, uint64_t word, interest events);
  void change(int descriptor, uint64_t word, interest events);

  // Returns how many words were written. Waits for the first one up to `timeout_ms`.
  size_t wait(std::span<uint64_t> words, int timeout_ms);

 private:
  int const descriptor_;
};

}  // namespace tanada::seams
