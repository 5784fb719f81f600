// observe/trace/event.hpp: the events that threads record for the trace's writer thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/assert.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::observe::trace {

enum class event_kind : uint8_t { round, operation, request, counter };

struct event {
  event_kind kind;
  status code;
  const char *name;
  uint64_t begin_ns, end_ns;
  uint64_t
      words[2];    // operation: offset and bytes; request: its first two words; counter: the value
  uint64_t moved;  // operation: bytes
  uint32_t label;  // operation: see intern(); request: its file
  uint32_t depth;  // operation
};
static_assert(sizeof(event) == 64 && offsetof(event, begin_ns) == 16);
static_assert(std::is_trivially_copyable_v<event>);

// The events of one thread: a ring with one producer, the thread, and one consumer, the writer
// thread. Neither waits.
class ring {
 public:
  static constexpr uint32_t capacity = 1u << 14;  // 1 MiB for each thread
  static_assert(capacity * sizeof(event) == 1u << 20 && (capacity & (capacity - 1)) == 0);
  explicit ring(uint32_t thread_id) : events_(capacity), thread_id_{thread_id} {}

  void push(const event &record) {
    uint64_t const head = head_.load(std::memory_order_relaxed);
    if (head - tail_.load(std::memory_order_acquire) == capacity) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    events_[head % capacity] = record;
    head_.store(head + 1, std::memory_order_release);
  }

  template <class Function>
  void drain(Function function) {
    uint64_t const head = head_.load(std::memory_order_acquire);
    TND_ASSERT(head - tail_.load(std::memory_order_relaxed) <= capacity);
    for (uint64_t position = tail_.load(std::memory_order_relaxed); position != head; position++) {
      function(events_[position % capacity]);
      tail_.store(position + 1, std::memory_order_release);
    }
  }

  uint64_t dropped() const {
    return dropped_.load(std::memory_order_relaxed);
  }
  uint32_t thread_id() const {
    return thread_id_;
  }

  std::atomic<bool> has_thread_ended = false;  // its thread has ended

 private:
  std::vector<event> events_;
  uint32_t const thread_id_;
  alignas(64) std::atomic<uint64_t> head_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  std::atomic<uint64_t> dropped_{0};
};

// The rings of all threads that have recorded an event. Rings of ended threads stay until they are
// drained.
std::vector<std::shared_ptr<ring>> all_rings();
void forget_ring(const std::shared_ptr<ring> &target);
std::string text_of(uint32_t label);
uint64_t dropped_by_ended_threads();

}  // namespace tanada::observe::trace
