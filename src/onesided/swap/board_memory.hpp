// onesided/swap/board_memory.hpp: what lies in the memory of a board.
#pragma once

#include <pthread.h>

#include "onesided/swap/board.hpp"

namespace tanada::comex::swap {

// Of one rank. Changed with the lock held, but for the gate, what its owner alone says, and alarms;
// read without it where what is read is not decided upon.
struct alignas(64) board::place {
  static constexpr uint32_t closed = 1u << 31;

  std::atomic<uint32_t> gate;  // pins, and whether it is closed

  alignas(64) std::atomic<rank_state> state;
  std::atomic<wait_kind> kind;
  std::atomic<bool> wants, is_prepared;
  std::atomic<bool> is_taken;  // its order has been given to the agent
  std::atomic<bool> has_landed;
  std::atomic<bool> is_asked;
  std::atomic<int32_t> process_id, number;
  std::atomic<uint64_t> here, away, allocated, reserve, since_ns, let_in_ns;

  std::atomic<bool> has_news;  // rung since it slept
  port::shared_alarm alarm;
};

struct board::memory {
  static constexpr uint32_t event_capacity = 4096;
  static constexpr size_t failure_size = 512;

  board_options options;
  pthread_mutex_t lock;
  std::atomic<uint32_t> failing;  // 0, 1 while the text is written, 2
  std::atomic<bool> is_told;      // somebody ends the job
  char failure[failure_size];
  board_counters counters;
  port::shared_alarm agent;
  std::atomic<uint64_t> reserved;            // bytes of the budget
  std::atomic<bool> has_news;                // the agent was rung since it looked
  alignas(64) std::atomic<uint32_t> posted;  // requests that the agent has not looked at
  // Under the lock.
  uint64_t cached, cache_surplus;
  uint32_t next_to_serve;  // origin; the agent's
  uint64_t copies_at;      // set once
  bool has_warned;
  uint64_t events_written, events_taken;
  state_event events[event_capacity];

  static constexpr size_t large_page =
      size_t{2} << 20;  // that copies lie in, where whoever makes the board has it

  static constexpr size_t align(size_t size) noexcept {
    return (size + 63) / 64 * 64;
  }
  static constexpr size_t places_at() noexcept {
    return align(sizeof(memory));
  }
  static constexpr size_t requests_at(uint32_t rank_count) noexcept {
    return places_at() + rank_count * sizeof(place);
  }
  static constexpr size_t views_at(uint32_t rank_count, bool has_servers) noexcept {
    return requests_at(rank_count) +
           size_t{rank_count} * (has_servers ? 2 : 1) * requests_of_rank * sizeof(request);
  }

  template <class T>
  T *at(size_t offset) noexcept {
    return reinterpret_cast<T *>(reinterpret_cast<std::byte *>(this) + offset);
  }
  rank_view *views() noexcept {
    return at<rank_view>(views_at(options.rank_count, options.has_servers));
  }  // for who decides
};

// A process that dies with the lock leaves it to the next one, and nothing that can be relied on.
class board::hold {
 public:
  explicit hold(board &of) noexcept;
  ~hold();
  hold(const hold &) = delete;
  hold &operator=(const hold &) = delete;

 private:
  pthread_mutex_t *lock_;
};

}  // namespace tanada::comex::swap
