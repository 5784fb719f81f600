// products/shmem/collectives/control.hpp: how the job's control memory is divided: a part for each
// team slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "onesided/job/symmetric_map.hpp"

namespace tanada::shmem {

inline constexpr size_t cache_line = 64;  // bytes

// Rounds of an algorithm that doubles its reach in each: for 65,536 PEs.
inline constexpr size_t round_count_max = 16;

// Memory of one PE for one team, written by members that map it. Every word but `arrivals` and
// `readers`, which are zero in between, grows for ever: numbers of operations, which are the same
// in all members. Words that different PEs write are a cache line apart.
struct near_board {
  static constexpr size_t entry_count = 8;  // operations that a member may be ahead of another's
  static constexpr size_t data_size_max = 2032;

  struct alignas(cache_line) line {
    uint64_t value;
  };
  // What this PE hands to all others: data, then the number of the operation that they belong to.
  struct alignas(cache_line) entry {
    uint64_t number, size;
    std::byte data[data_size_max];
  };

  line rounds[round_count_max];
  line arrivals, release;       // of a sync
  line readers, all_have_read;  // of this PE's source
  entry entries[entry_count];
};
static_assert(sizeof(near_board::entry) == 2048 && offsetof(near_board::entry, data) == 16);

// Memory of one PE for one team that is written through contexts, by members anywhere. Words are
// only added to, and whose they are counts what it took from each: signals of different operations
// may come in any order. [2]: for even and odd operations of a kind, as a member may be one ahead
// of another's.
struct far_board {
  uint64_t sync[2][round_count_max];    // from the member 2^i before
  uint64_t gather[2][round_count_max];  // from the member 2^i behind
  uint64_t bulk[2];                     // from anybody
  uint64_t tree[round_count_max];       // from the member 2^i before; any number ahead
  uint64_t relay[2];                    // from the root
  uint64_t slices;                      // from anybody
};

// What a PE publishes of its own wait, for others to read (stalls.hpp).
struct wait_board {
  uint64_t number;  // odd while it waits; grows with each change
  uint64_t looks;   // at what it waits for, in vain
  char call[48];    // which call waits; ends with a zero
};
static_assert(sizeof(wait_board) == cache_line);

class control_layout {
 public:
  control_layout(pgas::pe_index pe_count, size_t slot_count)
      : gather_size_{std::max<size_t>(size_t{8} << 10, size_t(pe_count) * 16)} {
    gather_size_ = (gather_size_ + cache_line - 1) / cache_line * cache_line;
    departures_size_ =
        (size_t(pe_count) * sizeof(uint64_t) + cache_line - 1) / cache_line * cache_line;
    departure_count_offset_ = slot_count * slot_size();
  }

  size_t gather_size() const noexcept {
    return gather_size_;
  }  // bytes of what a gather brings together
  size_t slot_size() const noexcept {
    return far_size + sizeof(near_board) + 2 * gather_size_ + slices_size + departures_size_;
  }
  size_t size() const noexcept {
    return departure_count_offset_ + 2 * cache_line;
  }

  near_board *near_of(std::span<std::byte> control, size_t slot) const noexcept {
    return reinterpret_cast<near_board *>(control.data() + slot * slot_size());
  }
  far_board *far_of(std::span<std::byte> control, size_t slot) const noexcept {
    return reinterpret_cast<far_board *>(control.data() + slot * slot_size() + sizeof(near_board));
  }
  std::byte *gather_of(std::span<std::byte> control, size_t slot, size_t parity) const noexcept {
    return control.data() + slot * slot_size() + sizeof(near_board) + far_size +
           parity * gather_size_;
  }
  std::byte *slices_of(std::span<std::byte> control, size_t slot) const noexcept {
    return gather_of(control, slot, 2);
  }

  // A word for each PE of the job, which it writes when it leaves; and, after all slots, how many
  // PEs have done so.
  uint64_t *departures_of(std::span<std::byte> control, size_t slot) const noexcept {
    return reinterpret_cast<uint64_t *>(slices_of(control, slot) + slices_size);
  }
  uint64_t *departure_count(std::span<std::byte> control) const noexcept {
    return reinterpret_cast<uint64_t *>(control.data() + departure_count_offset_);
  }
  wait_board *wait_board_of(std::span<std::byte> control) const noexcept {
    return reinterpret_cast<wait_board *>(control.data() + departure_count_offset_ + cache_line);
  }

  // Bytes of all members' elements that one of them works on; pages that nobody uses take no
  // memory.
  static constexpr size_t slices_size = size_t{128} << 10;

 private:
  static constexpr size_t far_size = (sizeof(far_board) + cache_line - 1) / cache_line * cache_line;

  size_t gather_size_;
  size_t departures_size_;
  size_t departure_count_offset_;
};

}  // namespace tanada::shmem
