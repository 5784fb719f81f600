// settings.cc: reads and checks the environment.
#include "products/comex/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/config.hpp"
#include "products/comex/deferred_error.hpp"
#include "core/base/settings.hpp"

namespace tanada::comex {
namespace {

void read_text(const char *name, std::string &value) {
  if (char const *const text = std::getenv(name); text != nullptr)
    value = text;
}

}  // namespace

std::string swap_settings::folder() const {
  constexpr std::string_view scheme = "file://", host = "localhost/";
  std::string_view rest = store;
  if (rest.starts_with(scheme))
    rest.remove_prefix(scheme.size());
  if (rest.starts_with(host))
    rest.remove_prefix(host.size() - 1);
  return rest.starts_with('/') ? std::string{rest} : std::string{};
}

status swap_settings::read_environment() {
  TND_TRY(environment_size("TND_COMEX_MEMORY", budget));
  read_text("TND_COMEX_SWAP", store);
  if ((budget == 0) != store.empty()) {
    return set_error(
        status::invalid,
        "set TND_COMEX_MEMORY and TND_COMEX_SWAP together: the memory budget of a node, and the "
        "store for memory beyond it; {}",
        budget == 0 ? "TND_COMEX_MEMORY is not set, or 0" : "TND_COMEX_SWAP is not set");
  }
  constexpr uint64_t smallest = 1 << 20;
  if (is_on() && budget < smallest)
    return set_error(
        status::invalid, "TND_COMEX_MEMORY: {} bytes are too small, the minimum is 1 MiB", budget);
  TND_TRY(environment_size("TND_COMEX_RESERVE", reserve));
  TND_TRY(environment_count("TND_COMEX_SLOTS", 1, 4096, slots));
  TND_TRY(environment_size("TND_COMEX_SWAP_THRESHOLD", threshold));
  threshold = std::max<uint64_t>(threshold, 4096);
  uint32_t is_resident = always_resident;
  TND_TRY(environment_count("TND_COMEX_WHOLE", 0, 1, is_resident));
  always_resident = is_resident != 0;
  read_text("TND_COMEX_TRACE", trace);
  read_text("TND_COMEX_REPORT", report);
  return status::ok;
}

status settings::read_environment() {
  TND_TRY(settings_check());
  uint64_t requested = heap_size;
  TND_TRY(environment_size("TND_COMEX_HEAP", requested));
  constexpr uint64_t heap_size_cap = uint64_t{1} << 45, swapped_cap = uint64_t{1} << 40,
                     step = 2 << 20;
  static_assert(swapped_cap <= heap_size_cap && heap_size_cap % step == 0);
  if (requested > heap_size_cap) {
    return set_error(status::invalid,
                     "TND_COMEX_HEAP: {} bytes are more than the maximum, {} bytes a process",
                     requested,
                     heap_size_cap);
  }
  heap_size = (requested + step - 1) / step * step;
  uint64_t on_device = device_heap_size;
  TND_TRY(environment_size("TND_COMEX_DEVICE_HEAP", on_device));
  if (on_device > heap_size_cap)
    return set_error(
        status::invalid, "TND_COMEX_DEVICE_HEAP: {} bytes are more than any device has", on_device);
  device_heap_size = (on_device + step - 1) / step * step;
  TND_TRY(swap.read_environment());
  if (swap.is_on() && device_heap_size != 0)
    return set_error(status::invalid,
                     "TND_COMEX_DEVICE_HEAP cannot be combined with TND_COMEX_MEMORY");
  if (swap.is_on() && heap_size > swapped_cap) {
    return set_error(status::invalid,
                     "TND_COMEX_HEAP: {} bytes are more than the maximum with TND_COMEX_MEMORY, {} "
                     "bytes a process",
                     heap_size,
                     swapped_cap);
  }
  // The target of a request may have to read its memory from slow flash first.
  constexpr uint64_t swap_timeout_ns = 600'000'000'000;
  if (swap.is_on())
    job.timeout_ns = std::max(job.timeout_ns, swap_timeout_ns);
  return job.read_environment();
}

size_t default_heap_size(size_t memory_size, size_t node_count) noexcept {
  constexpr size_t addresses = size_t{1} << 44, smallest = size_t{64} << 20,
                   step = size_t{2} << 20;  // bytes
  static_assert(smallest % step == 0 && addresses % step == 0);
  size_t const size = std::clamp(
      memory_size, smallest, std::max(smallest, addresses / std::max<size_t>(node_count, 1)));
  return size / step * step;
}

}  // namespace tanada::comex
