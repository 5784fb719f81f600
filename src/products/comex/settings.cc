#include "products/comex/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/base/config.hpp"
#include "products/comex/refusal.hpp"
#include "core/base/settings.hpp"

namespace tanada::comex {
namespace {

void environment_text(const char *name, std::string &value) {
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
  environment_text("TND_COMEX_SWAP", store);
  if ((budget == 0) != store.empty()) {
    return refuse(status::invalid,
                  "TND_COMEX_MEMORY and TND_COMEX_SWAP go together: so much of a node's memory is "
                  "used, and the rest goes there; %s",
                  budget == 0 ? "TND_COMEX_MEMORY is not set, or 0" : "TND_COMEX_SWAP is not set");
  }
  constexpr uint64_t smallest = 1 << 20;
  if (is_on() && budget < smallest)
    return refuse(status::invalid, "TND_COMEX_MEMORY: %llu bytes are less than a megabyte",
                  static_cast<unsigned long long>(budget));
  TND_TRY(environment_size("TND_COMEX_RESERVE", reserve));
  TND_TRY(environment_count("TND_COMEX_SLOTS", 1, 4096, slots));
  TND_TRY(environment_size("TND_COMEX_SWAP_THRESHOLD", threshold));
  threshold = std::max<uint64_t>(threshold, 4096);
  uint32_t whole = comes_whole;
  TND_TRY(environment_count("TND_COMEX_WHOLE", 0, 1, whole));
  comes_whole = whole != 0;
  environment_text("TND_COMEX_TRACE", trace);
  environment_text("TND_COMEX_REPORT", report);
  return status::ok;
}

status settings::read_environment() {
  TND_TRY(settings_check());
  uint64_t wanted = heap_size;
  TND_TRY(environment_size("TND_COMEX_HEAP", wanted));
  constexpr uint64_t heap_size_cap = uint64_t{1} << 45, swapped_cap = uint64_t{1} << 40,
                     step = 2 << 20;
  if (wanted > heap_size_cap) {
    return refuse(status::invalid,
                  "TND_COMEX_HEAP: %llu bytes are more than the %llu that a process may have",
                  static_cast<unsigned long long>(wanted),
                  static_cast<unsigned long long>(heap_size_cap));
  }
  heap_size = (wanted + step - 1) / step * step;
  uint64_t on_device = device_heap_size;
  TND_TRY(environment_size("TND_COMEX_DEVICE_HEAP", on_device));
  if (on_device > heap_size_cap)
    return refuse(status::invalid, "TND_COMEX_DEVICE_HEAP: no device has %llu bytes",
                  static_cast<unsigned long long>(on_device));
  device_heap_size = (on_device + step - 1) / step * step;
  TND_TRY(swap.read_environment());
  if (swap.is_on() && device_heap_size != 0)
    return refuse(status::invalid,
                  "TND_COMEX_DEVICE_HEAP does not go together with TND_COMEX_MEMORY");
  if (swap.is_on() && heap_size > swapped_cap) {
    return refuse(status::invalid,
                  "TND_COMEX_HEAP: %llu bytes are more than the %llu that a process may have with "
                  "TND_COMEX_MEMORY",
                  static_cast<unsigned long long>(heap_size),
                  static_cast<unsigned long long>(swapped_cap));
  }
  // Who is asked may have to fetch its memory from slow flash first.
  constexpr uint64_t patience_ns = 600'000'000'000;
  if (swap.is_on())
    job.timeout_ns = std::max(job.timeout_ns, patience_ns);
  return job.read_environment();
}

size_t default_heap_size(size_t memory_size, size_t node_count) noexcept {
  constexpr size_t addresses = size_t{1} << 44, smallest = size_t{64} << 20,
                   step = size_t{2} << 20;  // bytes
  size_t const size = std::clamp(memory_size, smallest,
                                 std::max(smallest, addresses / std::max<size_t>(node_count, 1)));
  return size / step * step;
}

}  // namespace tanada::comex
