// products/comex/device_memory.hpp: allocates symmetric device memory, which transfers name by the
// owner's addresses.
#pragma once

#include <span>
#include <vector>

#include "core/base/assert.hpp"
#include "onesided/job/symmetric_map.hpp"
#include "seams/os/range_allocator.hpp"

namespace tanada::comex {

// Not thread-safe.
class device_memory {
 public:
  static constexpr size_t granule =
      256;  // bytes: allocations begin and end at multiples of it, as device allocations do

  // `heap` is this process's device heap; its contents are never accessed here. `begins` has the
  // owner's start address of each process's device heap.
  device_memory(std::span<std::byte> heap, std::vector<uintptr_t> begins)
      : heap_{heap}, begins_{std::move(begins)}, ledger_{heap.size(), granule} {
    TND_ASSERT(!begins_.empty());
  }

  void *allocate(size_t size);  // null: no free range is large enough, or `size` is 0
  bool release(void *piece);    // false: it is no allocation of this heap
  size_t size() const noexcept {
    return heap_.size();
  }
  size_t free_size() const noexcept {
    return ledger_.free_size();
  }

  bool has(const void *addr, onesided::pe_index pe) const noexcept {
    return uint32_t(pe) < begins_.size() && offset_of(addr, pe) < heap_.size();
  }
  // The address in our heap that corresponds to the owner's address. Null: some byte is outside of
  // the owner's heap.
  std::byte *symmetric_address(const void *addr,
                               size_t size,
                               onesided::pe_index pe) const noexcept {
    if (!has(addr, pe) || size > heap_.size() - offset_of(addr, pe))
      return nullptr;
    return heap_.data() + offset_of(addr, pe);
  }

 private:
  size_t offset_of(const void *addr, onesided::pe_index pe) const noexcept {
    TND_ASSERT(size_t(pe) < begins_.size());
    return reinterpret_cast<uintptr_t>(addr) - begins_[size_t(pe)];
  }

  std::span<std::byte> heap_;
  std::vector<uintptr_t> begins_;
  seams::range_allocator ledger_;
};

}  // namespace tanada::comex
