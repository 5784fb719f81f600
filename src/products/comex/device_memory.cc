// device_memory.cc: allocation in the device heap.
#include "products/comex/device_memory.hpp"

namespace tanada::comex {

void *device_memory::allocate(size_t size) {
  auto const offset = size <= heap_.size() ? ledger_.allocate(size, granule) : std::nullopt;
  return offset ? heap_.data() + *offset : nullptr;
}

bool device_memory::release(void *piece) {
  size_t const offset =
      reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(heap_.data());
  return offset < heap_.size() && ledger_.release(offset);
}

}  // namespace tanada::comex
