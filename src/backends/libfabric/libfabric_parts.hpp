// backends/libfabric/libfabric_parts.hpp: the pieces in which vectors of atomics go to libfabric,
// and whose they are.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "seams/fabric/op_table.hpp"

namespace tanada::port {

// A piece of a vector on its way: a provider takes some KiB of atomics at once. libfabric hands its
// address back.
struct libfabric_part {
  enum class owner : uint8_t { nobody, operation, libfabric };

  fi_context2 provider;
  owner whose = owner::nobody;
  uint32_t index =
      fabric_op_table::no_slot;  // of the operation; no_slot: it has ended, or the part is free
};

// A part whose operation ends before it, as a connection is lost, is libfabric's until that has
// spoken of it, be it never: what is said late must find nobody, not the operation that would have
// the part by then. Others are made in its place.
//
// Thread safety: none.
class libfabric_parts {
 public:
  static constexpr size_t chunk_count =
      64;  // parts that are made at a time; so many can be out at least

  libfabric_parts() {
    add_chunk();
  }

  // The part that the next take() gives; null: all are out.
  libfabric_part *next() noexcept {
    return free_.empty() ? nullptr : free_.front();
  }
  // It is handed over, for the operation in that slot.
  void take(uint32_t index) noexcept {
    free_.front()->index = index;
    free_.front()->whose = libfabric_part::owner::operation;
    free_.pop_front();
  }

  // Null: it is no part's address.
  libfabric_part *find(const void *context) noexcept {
    auto const *const which = static_cast<const libfabric_part *>(context);
    for (auto const &each : chunks_) {
      bool const is_inside =
          !std::less<>{}(which, each.get()) && std::less<>{}(which, each.get() + chunk_count);
      if (is_inside)
        return each.get() + (which - each.get());
    }
    return nullptr;
  }

  // libfabric has spoken of it: it is free. The operation's slot; no_slot: that has ended before.
  uint32_t settle(libfabric_part &part) {
    auto const whose = std::exchange(part.whose, libfabric_part::owner::nobody);
    if (whose == libfabric_part::owner::nobody)
      return fabric_op_table::no_slot;
    if (whose == libfabric_part::owner::libfabric)
      forgotten_count_--;
    free_.push_back(&part);
    return std::exchange(part.index, fabric_op_table::no_slot);
  }

  // The operation ends; of its parts nothing has been said.
  void forget(uint32_t index) {
    for (auto const &chunk : chunks_) {
      for (size_t i = 0; i < chunk_count; i++) {
        if (chunk[i].index != index)
          continue;
        chunk[i].index = fabric_op_table::no_slot;
        chunk[i].whose = libfabric_part::owner::libfabric;
        forgotten_count_++;
      }
    }
    while (chunks_.size() * chunk_count - forgotten_count_ < chunk_count)
      add_chunk();
  }

  size_t count() const noexcept {
    return chunks_.size() * chunk_count;
  }

 private:
  void add_chunk() {
    auto &made = chunks_.emplace_back(new libfabric_part[chunk_count]);
    for (size_t i = 0; i < chunk_count; i++)
      free_.push_back(&made[i]);
  }

  std::vector<std::unique_ptr<libfabric_part[]>> chunks_;
  std::deque<libfabric_part *> free_;
  size_t forgotten_count_ = 0;
};

}  // namespace tanada::port
