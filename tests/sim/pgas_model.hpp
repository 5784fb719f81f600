// tests/sim/pgas_model.hpp: the permitted content of memory to which one remote context writes. The
// rules are those of docs/pgas.md, "Ordering"; each is quoted where it is checked.
//
// A slice is memory of one PE that only one writer writes to, divided into cells. Every write has a
// stamp of its own, so that a reader of a cell knows which write it sees.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace tanada::test {

// The sizes and offsets of a slice's cells. Those of 8 bytes are also written by atomics. The last
// two are signals: one that is set, and one whose bits are added.
inline constexpr std::array<size_t, 9> cell_sizes{8, 8, 24, 72, 200, 2'000, 20'000, 8, 8};
inline constexpr size_t cell_count = cell_sizes.size(), word_cells = 2, data_cells = 7,
                        set_cell = 7, add_cell = 8;
inline constexpr auto cell_offsets = [] {
  std::array<size_t, cell_count + 1> made{};
  for (size_t i = 0; i < cell_count; i++)
    made[i + 1] = made[i] + cell_sizes[i];
  return made;
}();
inline constexpr size_t slice_size = cell_offsets[cell_count];

// A cell's bytes: the stamp, and bytes derived from it.
inline void cell_fill(std::span<std::byte> cell, uint64_t stamp) {
  std::memcpy(cell.data(), &stamp, 8);
  for (size_t i = 8; i < cell.size(); i++)
    cell[i] = std::byte(stamp * 31 + i * 7);
}
inline bool cell_is_whole(std::span<const std::byte> cell, uint64_t stamp) {
  for (size_t i = 8; i < cell.size(); i++)
    if (stamp != 0 && cell[i] != std::byte(stamp * 31 + i * 7))
      return false;
  return true;
}

struct signal_guard {  // the data that a signal announces
  size_t cell = cell_count;
  uint64_t stamp = 0;
};

class slice_model {
 public:
  // "The bytes of one put become visible in any order": those of longer puts in pieces. Their
  // writer separates them by fences.
  void pieces_set(size_t size_max) {
    piece_size_ = size_max;
  }
  bool is_pieced(size_t cell) const {
    return cell_sizes[cell] > piece_size_;
  }

  // A write begins, in the group of operations between two fences. It counts as certain to be
  // performed once it is confirmed.
  void start(size_t cell, uint64_t stamp, uint64_t group, signal_guard of = {}) {
    is_open_[cell] = true;
    cells_[cell].push_back({.stamp = stamp, .group = group, .is_sure = false, .of = of});
  }
  void confirm(size_t cell, uint64_t stamp) {
    find(cell, stamp)->is_sure = true;
  }

  // "quiet: when it returns, everything that the context started before is performed at its
  // targets".
  void complete_all() {
    is_open_ = {};
    for (size_t i = 0; i < cell_count; i++)
      for (auto &each : cells_[i])
        if (each.is_sure) {
          if (i == add_cell)
            bits_due_ |= each.stamp;
          else
            floors_[i] = std::max(floors_[i], each.group + 1);
        }
  }
  // "a fetching atomic that has returned is performed".
  void complete(size_t cell, uint64_t group) {
    floors_[cell] = std::max(floors_[cell], group + 1);
  }

  // It is unknown which writes arrive: the PE has died, or failures are not distinguished.
  void give_up() {
    is_unsure_ = true;
  }

  // What a get that begins now may at least see.
  uint64_t floor(size_t cell) const {
    return floors_[cell];
  }

  // A get, begun when the floor was `floor`, has seen it. Returns "" or the error.
  std::string check_got(size_t cell, std::span<const std::byte> bytes, uint64_t floor) {
    uint64_t stamp = 0;
    std::memcpy(&stamp, bytes.data(), 8);
    if (holds_anything())
      return "";
    if (!cell_is_whole(bytes, stamp))
      return is_pieced(cell) ? "" : text(cell, stamp) + ": torn";
    if (cell == add_cell)
      return "";
    if (stamp == 0)
      return floor == 0 || is_unsure_ ? "" : text(cell, stamp) + ": a get sees less than was there";
    auto const which = find(cell, stamp);
    if (which == nullptr)
      return text(cell, stamp) + ", which nobody put";
    if (which->group + 1 < floor && !is_unsure_)
      return text(cell, stamp) + ": a get sees less than was there";
    return "";
  }

  // The whole slice is checked at one moment. Returns "" or the error.
  std::string check(const std::byte *slice, bool is_thorough) {
    if (holds_anything())
      return "";
    uint64_t last_group = 0;  // plus one, of the visible writes
    std::array<uint64_t, cell_count> seen{};
    std::array<bool, cell_count> is_torn{};
    for (size_t i = 0; i < cell_count; i++) {
      std::span const bytes{slice + cell_offsets[i], cell_sizes[i]};
      uint64_t stamp = 0;
      std::memcpy(&stamp, bytes.data(), 8);
      if (i == add_cell) {
        if (auto const why = check_bits(stamp, last_group); !why.empty())
          return why;
        continue;
      }
      if (is_thorough && !is_whole(bytes, stamp)) {
        if (!is_pieced(i) || !is_open_[i])
          return text(i, stamp) + ": torn";
        is_torn[i] = true;
        continue;
      }
      if (stamp == 0)
        continue;
      auto const which = find(i, stamp);
      if (which == nullptr)
        return text(i, stamp) + ", which nobody put";
      seen[i] = which->group + 1;
      last_group = std::max(last_group, seen[i]);
      see_guarded(*which);
    }
    if (is_unsure_)
      return "";
    return check_order(seen, is_torn, last_group, slice);
  }

 private:
  struct write {
    uint64_t stamp = 0, group = 0;
    bool is_sure = false;
    signal_guard of{};
  };

  // "After a failure the memory that the operation was to write holds anything": staged data may
  // come from a slot that other operations use again.
  bool holds_anything() const {
    return is_unsure_ && piece_size_ != ~size_t{0};
  }

  // In a cell without a stamp, a write in pieces may have been replaced in part by others.
  bool is_whole(std::span<const std::byte> cell, uint64_t stamp) const {
    if (stamp != 0 || cell.size() <= piece_size_)
      return cell_is_whole(cell, stamp);
    return std::all_of(
        cell.begin(), cell.end(), [](std::byte each) { return each == std::byte{0}; });
  }

  static std::string text(size_t cell, uint64_t stamp) {
    return "cell " + std::to_string(cell) + " holds " + std::to_string(stamp);
  }

  write *find(size_t cell, uint64_t stamp) {
    auto const at = std::find_if(
        cells_[cell].begin(), cells_[cell].end(), [&](auto &each) { return each.stamp == stamp; });
    return at == cells_[cell].end() ? nullptr : &*at;
  }

  // "put_signal: a PE that observes the new signal also observes the data written."
  void see_guarded(const write &which) {
    if (which.of.cell == cell_count)
      return;
    auto const guarded = find(which.of.cell, which.of.stamp);
    if (guarded != nullptr)
      floors_[which.of.cell] = std::max(floors_[which.of.cell], guarded->group + 1);
  }

  std::string check_bits(uint64_t bits, uint64_t &last_group) {
    for (auto const &each : cells_[add_cell]) {
      if ((bits & each.stamp) == 0)
        continue;
      bits_due_ |= each.stamp;
      last_group = std::max(last_group, each.group + 1);
      see_guarded(each);
      bits &= ~each.stamp;
    }
    if (bits != 0 && !is_unsure_)
      return "bits that nobody has added";
    return "";
  }

  std::string check_order(const std::array<uint64_t, cell_count> &seen,
                          const std::array<bool, cell_count> &is_torn,
                          uint64_t last_group,
                          const std::byte *slice) {
    uint64_t bits = 0;
    std::memcpy(&bits, slice + cell_offsets[add_cell], 8);
    if ((bits & bits_due_) != bits_due_)
      return "a signal that was seen, or is complete, is not there";
    for (size_t i = 0; i < cell_count; i++) {
      // "fence: what was started before it is performed at each PE before what is started after
      // it".
      uint64_t due = floors_[i], due_bits = 0;
      for (auto const &each : cells_[i]) {
        if (!each.is_sure || each.group + 1 >= last_group)
          continue;
        due = std::max(due, each.group + 1);
        due_bits |= each.stamp;
      }
      if (i == add_cell && (bits & due_bits) != due_bits)
        return "a signal comes after what was fenced";
      if (i == add_cell || is_torn[i])
        continue;
      if (seen[i] < due)
        return "cell " + std::to_string(i) + " is of group " + std::to_string(seen[i]) +
               ", and not of " + std::to_string(due);
      floors_[i] = std::max(floors_[i], seen[i]);
    }
    return "";
  }

  std::array<std::vector<write>, cell_count> cells_;
  std::array<uint64_t, cell_count>
      floors_{};  // groups plus one: visible or complete writes are at least of it
  uint64_t bits_due_ = 0;
  bool is_unsure_ = false;
  size_t piece_size_ = ~size_t{0};
  std::array<bool, cell_count> is_open_{};  // written since all was complete
};

}  // namespace tanada::test
