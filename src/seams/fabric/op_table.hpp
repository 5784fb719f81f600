// seams/fabric/op_table.hpp: the operations of one endpoint, with their deadlines and completions.
#pragma once

#include <deque>
#include <queue>
#include <vector>

#include "seams/fabric/fabric_op_check.hpp"

namespace tanada::seams {

// queued: not handed to the network yet. posted: the network uses the memory. abandoned: posted,
// and its deadline has passed. The completion that reports this has been queued; the one that
// settles follows.
enum class fabric_slot_state : uint8_t { free, queued, posted, abandoned };

struct fabric_slot {
  fabric_op op{};
  fabric_slot_state state = fabric_slot_state::free;
  uint32_t generation = 0;  // number of uses: references with an older one are stale
};

// Slots have a fixed number and never move, so a network may hold their index. Not thread-safe.
class fabric_op_table {
 public:
  fabric_op_table(uint32_t depth, fabric_path path) : slots_(depth), path_{path} {
    for (uint32_t i = depth; i > 0; i--)
      free_.push_back(i - 1);
  }

  // The slot of a new operation, queued. no_slot: `depth` operations are outstanding or wait to be
  // reaped.
  static constexpr uint32_t no_slot = ~uint32_t{0};
  uint32_t insert(const fabric_op &op) {
    if (free_.empty() || pending_count() >= slots_.size()) {
      counters_.again++;
      return no_slot;
    }
    uint32_t const index = free_.back();
    free_.pop_back();
    auto &slot = slots_[index];
    TND_ASSERT(slot.state == fabric_slot_state::free);
    slot.op = op;
    slot.state = fabric_slot_state::queued;
    slot.generation++;
    if (op.deadline_ns != TND_NO_DEADLINE) {
      if (deadlines_.size() >= 4 * slots_.size())
        deadlines_compact();
      deadlines_.push({op.deadline_ns, index, slot.generation});
    }
    return index;
  }

  fabric_slot &operator[](uint32_t index) {
    TND_ASSERT(index < slots_.size());
    return slots_[index];
  }

  // The operation has ended and its memory is free: adds the completion that settles. `peer`: of a
  // received message.
  void settle(uint32_t index,
              status code,
              uint64_t size = 0,
              fabric_peer peer = no_fabric_peer,
              uint64_t value = 0) {
    TND_ASSERT(index < slots_.size());
    auto &slot = slots_[index];
    TND_ASSERT(slot.state != fabric_slot_state::free);
    fabric_completion done{.op_id = slot.op.op_id,
                           .code = code,
                           .size = code == status::ok ? size : 0,
                           .peer = slot.op.kind == fabric_op_kind::receive ? peer : slot.op.peer,
                           .path = path_,
                           .settled = true,
                           .value = value};
    fabric_count(counters_, done);
    ready_.push_back(done);
    slot.state = fabric_slot_state::free;
    free_.push_back(index);
  }

  // The deadline has passed and the network keeps the memory: adds a completion that does not
  // settle.
  void abandon(uint32_t index) {
    auto &slot = slots_[index];
    TND_ASSERT(slot.state == fabric_slot_state::posted);
    slot.state = fabric_slot_state::abandoned;
    unsettled_count_++;
    ready_.push_back({.op_id = slot.op.op_id,
                      .code = status::timed_out,
                      .size = 0,
                      .peer = slot.op.peer,
                      .path = path_,
                      .settled = false,
                      .value = 0});
  }

  // The next operation, queued or posted, whose deadline is not after now_ns, or no_slot. Each is
  // returned once.
  uint32_t take_expired(uint64_t now_ns) {
    while (!deadlines_.empty() && deadlines_.top().time_ns <= now_ns) {
      auto const next = deadlines_.top();
      deadlines_.pop();
      if (is_current(next))
        return next.index;
    }
    return no_slot;
  }

  // When take_expired() will next return an operation; TND_NO_DEADLINE for never.
  uint64_t next_deadline_ns() {
    while (!deadlines_.empty() && !is_current(deadlines_.top()))
      deadlines_.pop();
    return deadlines_.empty() ? TND_NO_DEADLINE : deadlines_.top().time_ns;
  }

  bool has_ready() const {
    return !ready_.empty();
  }

  size_t reap(std::span<fabric_completion> completions) {
    size_t count = 0;
    for (; count < completions.size() && !ready_.empty(); count++) {
      completions[count] = ready_.front();
      ready_.pop_front();
      if (completions[count].settled)
        continue;
      TND_ASSERT(unsettled_count_ != 0);
      unsettled_count_--;
    }
    return count;
  }

  uint32_t depth() const {
    return uint32_t(slots_.size());
  }
  size_t active_count() const {
    return slots_.size() - free_.size();
  }
  // A completion that does not settle belongs to an operation that is counted anyway.
  size_t pending_count() const {
    return active_count() + ready_.size() - unsettled_count_;
  }
  const fabric_counters &counters() const {
    return counters_;
  }
  fabric_counters &counters() {
    return counters_;
  }

 private:
  struct deadline_entry {
    uint64_t time_ns;
    uint32_t index, generation;
    bool operator<(const deadline_entry &right) const noexcept {
      return time_ns > right.time_ns;
    }
  };

  bool is_current(const deadline_entry &entry) const {
    auto const &slot = slots_[entry.index];
    return slot.generation == entry.generation &&
           (slot.state == fabric_slot_state::queued || slot.state == fabric_slot_state::posted);
  }

  // Short operations with distant deadlines would accumulate: at most one entry a slot is current.
  void deadlines_compact() {
    std::priority_queue<deadline_entry> current;
    for (; !deadlines_.empty(); deadlines_.pop()) {
      if (is_current(deadlines_.top()))
        current.push(deadlines_.top());
    }
    deadlines_ = std::move(current);
  }

  std::vector<fabric_slot> slots_;
  std::vector<uint32_t> free_;
  // Includes entries of ended operations, bounded by deadlines_compact().
  std::priority_queue<deadline_entry> deadlines_;
  std::deque<fabric_completion> ready_;
  size_t unsettled_count_ = 0;  // completions in ready_ that do not settle
  fabric_path path_;
  fabric_counters counters_{};
};

}  // namespace tanada::seams
