// products/poold/error_counters.hpp: counters of failed requests, by status.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/assert.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::poold {

// Thread-safe.
class error_counters {
 public:
  // The statuses that have a counter of their own.
  static constexpr std::array statuses{
      status::no_entry, status::exists,        status::no_space,  status::access,
      status::invalid,  status::not_supported, status::io,        status::corrupt,
      status::busy,     status::too_big,       status::range,     status::too_many_files,
      status::bad_file, status::name_too_long, status::no_memory, status::timed_out,
      status::overflow, status::protocol,      status::again,     status::stale};

  void add(status code) noexcept {
    size_t slot = 0;
    while (slot < statuses.size() && statuses[slot] != code)
      slot++;
    counts_[slot].fetch_add(1, std::memory_order_relaxed);
  }

  uint64_t count(size_t slot) const noexcept {
    TND_ASSERT(slot < counts_.size());
    return counts_[slot].load(std::memory_order_relaxed);
  }
  uint64_t other_count() const noexcept {
    return count(statuses.size());
  }
  uint64_t sum() const noexcept {
    uint64_t total = 0;
    for (size_t slot = 0; slot < counts_.size(); slot++)
      total += count(slot);
    return total;
  }

 private:
  std::array<std::atomic<uint64_t>, statuses.size() + 1> counts_{};
};

}  // namespace tanada::poold
