// backends/libfabric/libfabric_parts.hpp: the parts in which vectors of atomics are posted to
// libfabric, and the owner of each.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/fabric/op_table.hpp"

namespace tanada::backends {

// A part of a vector in flight. A provider accepts only some KiB of atomics at once. libfabric
// returns the part's address with its completion.
struct libfabric_part {
  enum class owner : uint8_t { no_owner, operation, libfabric };

  fi_context2 provider;
  owner held_by = owner::no_owner;
  uint32_t index = seams::fabric_op_table::no_slot;  // slot of the operation; no_slot: it has
                                                     // ended, or the part is free
};

// If an operation ends before its parts, because its connection is lost, libfabric owns the parts
// until their completions arrive, possibly forever. A late completion must not be attributed to an
// operation that reuses the slot. New parts replace the orphaned ones.
//
// Thread safety: none.
class libfabric_parts {
 public:
  static constexpr size_t chunk_count =
      64;  // parts allocated at a time, and the least number available to operations

  libfabric_parts() {
    add_chunk();
  }

  // The part that the next take() returns; null if all are in use.
  libfabric_part *next() noexcept {
    return free_.empty() ? nullptr : free_.front();
  }
  // Marks the next part as posted for the operation in that slot.
  void take(uint32_t index) noexcept {
    TND_ASSERT(!free_.empty());
    TND_ASSERT(free_.front()->held_by == libfabric_part::owner::no_owner);
    free_.front()->index = index;
    free_.front()->held_by = libfabric_part::owner::operation;
    free_.pop_front();
  }

  // The part at an address; null if the address is not that of a part.
  libfabric_part *find(const void *context) noexcept {
    auto const *const address = static_cast<const libfabric_part *>(context);
    for (auto const &chunk : chunks_) {
      bool const is_inside =
          !std::less<>{}(address, chunk.get()) && std::less<>{}(address, chunk.get() + chunk_count);
      if (is_inside)
        return chunk.get() + (address - chunk.get());
    }
    return nullptr;
  }

  // Frees a part after its completion. Returns the slot of its operation, or no_slot if the
  // operation ended earlier.
  uint32_t settle(libfabric_part &part) {
    auto const previous_owner = std::exchange(part.held_by, libfabric_part::owner::no_owner);
    if (previous_owner == libfabric_part::owner::no_owner)
      return seams::fabric_op_table::no_slot;
    if (previous_owner == libfabric_part::owner::libfabric) {
      TND_ASSERT(orphan_count_ != 0);
      orphan_count_--;
    }
    free_.push_back(&part);
    return std::exchange(part.index, seams::fabric_op_table::no_slot);
  }

  // Orphans the parts of an operation that ends before their completions arrive.
  void orphan(uint32_t index) {
    TND_ASSERT(index != seams::fabric_op_table::no_slot);
    for (auto const &chunk : chunks_) {
      for (size_t i = 0; i < chunk_count; i++) {
        if (chunk[i].index != index)
          continue;
        TND_ASSERT(chunk[i].held_by == libfabric_part::owner::operation);
        chunk[i].index = seams::fabric_op_table::no_slot;
        chunk[i].held_by = libfabric_part::owner::libfabric;
        orphan_count_++;
      }
    }
    while (chunks_.size() * chunk_count - orphan_count_ < chunk_count)
      add_chunk();
  }

  size_t count() const noexcept {
    return chunks_.size() * chunk_count;
  }

 private:
  void add_chunk() {
    auto &added = chunks_.emplace_back(new libfabric_part[chunk_count]);
    for (size_t i = 0; i < chunk_count; i++)
      free_.push_back(&added[i]);
  }

  std::vector<std::unique_ptr<libfabric_part[]>> chunks_;
  std::deque<libfabric_part *> free_;
  size_t orphan_count_ = 0;
};

}  // namespace tanada::backends
