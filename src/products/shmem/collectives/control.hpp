// products/shmem/collectives/control.hpp: the layout of the job's control memory, which has a part
// for each team slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/assert.hpp"
#include "onesided/job/symmetric_map.hpp"

namespace tanada::shmem {

inline constexpr size_t cache_line = 64;  // bytes

// Rounds of an algorithm that doubles its reach in each round: enough for 1,048,576 PEs.
inline constexpr size_t round_count_max = 20;

// The exchange area of one PE for one team, written by members that map it. `arrivals` and
// `readers` are zero between operations. All other words hold operation numbers, which are equal in
// all members and only grow. Words that different PEs write are in different cache lines.
struct mapped_exchange_area {
  static constexpr size_t entry_count = 8;  // operations that a member may be ahead of another
  static constexpr size_t data_size_max = 2032;

  struct alignas(cache_line) line {
    uint64_t value;
  };
  // The data that this PE passes to all others, and the number of the operation that they belong
  // to.
  struct alignas(cache_line) entry {
    uint64_t number, size;
    std::byte data[data_size_max];
  };

  line rounds[round_count_max];
  line arrivals, release;       // for a sync by count
  line readers, all_have_read;  // for reading this PE's source
  entry entries[entry_count];
};
static_assert(sizeof(mapped_exchange_area::entry) == 2048 &&
              offsetof(mapped_exchange_area::entry, data) == 16);
static_assert(sizeof(mapped_exchange_area) % cache_line == 0);

// The exchange area of one PE for one team, written through contexts by members on any node. Words
// are only added to, and their owner counts what it has consumed of each, so signals of different
// operations may arrive in any order. [2]: one each for even and odd operations of a kind, because
// a member may be one operation ahead of another.
struct fabric_exchange_area {
  uint64_t sync[2][round_count_max];    // from the member 2^i before this one
  uint64_t gather[2][round_count_max];  // from the member 2^i after this one
  uint64_t bulk[2];                     // from any member
  uint64_t tree[round_count_max];       // from the member 2^i before; may be any number ahead
  uint64_t relay[2];                    // from the root
  uint64_t slices;                      // from any member
  uint64_t scratch;                     // this member's size in a collect, which others read
};
static_assert(sizeof(fabric_exchange_area) == (5 * round_count_max + 6) * sizeof(uint64_t),
              "an array of words without gaps");
static_assert(offsetof(fabric_exchange_area, sync) == 0, "counters are found from its first word");

// A PE's published wait, which the other PEs read (stalls.hpp).
struct published_wait {
  uint64_t number;      // odd while it waits; grows with each change
  uint64_t poll_count;  // fruitless polls of its condition
  char call[48];        // name of the waiting call; zero-terminated
};
static_assert(sizeof(published_wait) == cache_line);

// How far a PE that departs has come in the operations of a team, which the other members read
// (departures.hpp).
struct departed_team {
  uint64_t identity;  // of the team; 0: the PE was in no team of this slot
  uint64_t entered;   // operations that the PE has entered
};

// The members that a fabric exchange area is for: all of the team, or the leaders of its nodes.
enum class area_level : uint8_t { members, leaders };
inline constexpr size_t area_level_count = 2;

class control_layout {
 private:
  static constexpr size_t fabric_area_size =
      (sizeof(fabric_exchange_area) + cache_line - 1) / cache_line * cache_line;

 public:
  control_layout(onesided::pe_index pe_count, size_t slot_count)
      : departure_count_offset_{slot_count * slot_size()},
        departures_offset_{departure_count_offset_ + 2 * cache_line +
                           rounded(slot_count * sizeof(departed_team))},
        size_{departures_offset_ + rounded(size_t(pe_count) * sizeof(uint64_t))} {}

  // Bytes for a team, whatever the number of PEs.
  static constexpr size_t slot_size() noexcept {
    return sizeof(mapped_exchange_area) + area_level_count * level_size + slices_size + shared_size;
  }
  size_t size() const noexcept {
    return size_;
  }

  mapped_exchange_area *mapped_area_of(std::span<std::byte> control, size_t slot) const noexcept {
    return reinterpret_cast<mapped_exchange_area *>(control.data() + slot_offset(slot));
  }
  fabric_exchange_area *fabric_area_of(std::span<std::byte> control,
                                       size_t slot,
                                       area_level level) const noexcept {
    return reinterpret_cast<fabric_exchange_area *>(level_of(control, slot, level));
  }
  std::byte *gather_of(std::span<std::byte> control,
                       size_t slot,
                       area_level level,
                       size_t parity) const noexcept {
    return level_of(control, slot, level) + fabric_area_size + parity * gather_size;
  }
  std::byte *slices_of(std::span<std::byte> control, size_t slot) const noexcept {
    return level_of(control, slot, area_level::members) + area_level_count * level_size;
  }
  // Memory of a leader that the other members of its node read.
  std::byte *shared_of(std::span<std::byte> control, size_t slot) const noexcept {
    return slices_of(control, slot) + slices_size;
  }

  // Returns a word for each PE of the job, which that PE writes when it departs. departure_count
  // counts the departed PEs.
  uint64_t *departures(std::span<std::byte> control) const noexcept {
    return reinterpret_cast<uint64_t *>(control.data() + departures_offset_);
  }
  // Returns the record that this PE writes for a slot when it departs.
  departed_team *departed_team_of(std::span<std::byte> control, size_t slot) const noexcept {
    TND_ASSERT(slot * slot_size() < departure_count_offset_);
    return reinterpret_cast<departed_team *>(control.data() + departure_count_offset_ +
                                             2 * cache_line) +
           slot;
  }
  uint64_t *departure_count(std::span<std::byte> control) const noexcept {
    return reinterpret_cast<uint64_t *>(control.data() + departure_count_offset_);
  }
  published_wait *published_wait_of(std::span<std::byte> control) const noexcept {
    return reinterpret_cast<published_wait *>(control.data() + departure_count_offset_ +
                                              cache_line);
  }

  // Size of the area for all members' elements of the slice that this member reduces. Unused pages
  // take no memory.
  static constexpr size_t slices_size = size_t{128} << 10;
  static constexpr size_t shared_size = size_t{32} << 10;
  // Bytes that a gather can collect, whatever the number of PEs.
  static constexpr size_t gather_size = size_t{16} << 10;
  // Bytes of a fabric exchange area and its two areas for gathers.
  static constexpr size_t level_size = fabric_area_size + 2 * gather_size;
  static_assert(slices_size % cache_line == 0 && shared_size % cache_line == 0 &&
                gather_size % cache_line == 0);

 private:
  std::byte *level_of(std::span<std::byte> control, size_t slot, area_level level) const noexcept {
    return control.data() + slot_offset(slot) + sizeof(mapped_exchange_area) +
           size_t(level) * level_size;
  }
  size_t slot_offset(size_t slot) const noexcept {
    TND_ASSERT(slot * slot_size() < departure_count_offset_);
    return slot * slot_size();
  }

  static constexpr size_t rounded(size_t size) noexcept {
    return (size + cache_line - 1) / cache_line * cache_line;
  }

  size_t departure_count_offset_;
  size_t departures_offset_;
  size_t size_;
};

}  // namespace tanada::shmem
