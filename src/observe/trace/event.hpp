// observe/trace/event.hpp: what a thread leaves for the trace's own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::port::trace {

enum class event_kind : uint8_t { round, operation, request, counter };

struct event {
  event_kind what;
  status code;
  const char *name;
  uint64_t begin_ns, end_ns;
  uint64_t
      words[2];    // operation: offset and bytes; request: its first two words; counter: the value
  uint64_t moved;  // operation: bytes
  uint32_t label;  // operation: see intern(); request: its file
  uint32_t depth;  // operation
};
static_assert(sizeof(event) == 64);

// One thread's events. One writer, its thread, and one reader, the trace's; neither waits.
class ring {
 public:
  static constexpr uint32_t capacity = 1u << 14;  // 1 MiB a thread
  explicit ring(uint32_t thread_id) : events_(capacity), thread_id_{thread_id} {}

  void push(const event &what) {
    uint64_t const head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == capacity) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    events_[head % capacity] = what;
    head_.store(head + 1, std::memory_order_release);
  }

  template <class Function>
  void drain(Function function) {
    uint64_t const head = head_.load(std::memory_order_acquire);
    for (uint64_t at = tail_.load(std::memory_order_relaxed); at != head; at++) {
      function(events_[at % capacity]);
      tail_.store(at + 1, std::memory_order_release);
    }
  }

  uint64_t dropped() const {
    return dropped_.load(std::memory_order_relaxed);
  }
  uint32_t thread_id() const {
    return thread_id_;
  }

  std::atomic<bool> is_left = false;  // its thread has ended

 private:
  std::vector<event> events_;
  uint32_t const thread_id_;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> dropped_{0};
};

// Of every thread that has left an event, and ended ones until they are empty.
std::vector<std::shared_ptr<ring>> all_rings();
void forget_ring(const std::shared_ptr<ring> &which);
std::string text_of(uint32_t label);
uint64_t dropped_by_ended_threads();

}  // namespace tanada::port::trace
