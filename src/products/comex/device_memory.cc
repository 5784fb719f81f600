#include "products/comex/device_memory.hpp"

namespace tanada::comex {

void *device_memory::allocate(size_t size) {
  auto const at = size <= heap_.size() ? books_.allocate(size, granule) : std::nullopt;
  return at ? heap_.data() + *at : nullptr;
}

bool device_memory::release(void *piece) {
  size_t const offset =
      reinterpret_cast<uintptr_t>(piece) - reinterpret_cast<uintptr_t>(heap_.data());
  return offset < heap_.size() && books_.release(offset);
}

}  // namespace tanada::comex
