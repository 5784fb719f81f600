// products/comex/device_memory.hpp: memory of its device that each process gives by pieces, named
// by the addresses that their owner has.
#pragma once

#include <span>
#include <vector>

#include "onesided/job/symmetric_map.hpp"
#include "seams/os/ledger.hpp"

namespace tanada::comex {

// Not thread-safe.
class device_memory {
 public:
  static constexpr size_t granule =
      256;  // bytes: pieces begin and end at multiples of it, as what devices give

  // `heap`: ours, of which nothing is read or written here. `begins`: where that of each process
  // begins for itself.
  device_memory(std::span<std::byte> heap, std::vector<uintptr_t> begins)
      : heap_{heap}, begins_{std::move(begins)}, books_{heap.size(), granule} {}

  void *allocate(size_t size);  // null: there is no such piece, or no bytes were asked for
  bool release(void *piece);    // false: it is none
  size_t size() const noexcept {
    return heap_.size();
  }
  size_t free_size() const noexcept {
    return books_.free_size();
  }

  bool has(const void *addr, pgas::pe_index pe) const noexcept {
    return uint32_t(pe) < begins_.size() && offset_of(addr, pe) < heap_.size();
  }
  // Our address that corresponds to the process's. Null: not all bytes are in what it gives.
  std::byte *ours(const void *addr, size_t size, pgas::pe_index pe) const noexcept {
    if (!has(addr, pe) || size > heap_.size() - offset_of(addr, pe))
      return nullptr;
    return heap_.data() + offset_of(addr, pe);
  }

 private:
  size_t offset_of(const void *addr, pgas::pe_index pe) const noexcept {
    return reinterpret_cast<uintptr_t>(addr) - begins_[size_t(pe)];
  }

  std::span<std::byte> heap_;
  std::vector<uintptr_t> begins_;
  port::ledger books_;
};

}  // namespace tanada::comex
