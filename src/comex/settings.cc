#include "comex/settings.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/log.hpp"

namespace tanada::comex {

status settings::read_environment() {
  uint64_t wanted = heap_size;
  TND_TRY(environment_size("TND_COMEX_HEAP", wanted));
  constexpr uint64_t heap_size_cap = uint64_t{1} << 45;
  if (wanted > heap_size_cap) {
    return fail(status::invalid, "TND_COMEX_HEAP: %llu bytes are more than the %llu that a process may have",
                static_cast<unsigned long long>(wanted), static_cast<unsigned long long>(heap_size_cap));
  }
  constexpr uint64_t step = 2 << 20;
  heap_size = (wanted + step - 1) / step * step;
  return job.read_environment();
}

size_t default_heap_size(size_t memory_size, size_t node_count) noexcept {
  constexpr size_t addresses = size_t{1} << 44, smallest = size_t{64} << 20, step = size_t{2} << 20;  // bytes
  size_t const size = std::clamp(memory_size, smallest, std::max(smallest, addresses / std::max<size_t>(node_count, 1)));
  return size / step * step;
}

}  // namespace tanada::comex
