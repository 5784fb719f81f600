// products/poold/request_histogram.hpp: how long requests took and how many bytes they moved, for
// metrics.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/base/assert.hpp"
#include "core/wire/pool.hpp"

namespace tanada::poold {

// Counts of values by upper bounds. Thread-safe; values that are added at the same time may be in
// the sum and not yet in a count.
template <size_t BoundCount>
class histogram {
 public:
  void add(const std::array<uint64_t, BoundCount> &bounds, uint64_t value) noexcept {
    auto const bound = std::lower_bound(bounds.begin(), bounds.end(), value);
    counts_[size_t(bound - bounds.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }
  // Of the values at most the bound of this index and above the one before; the last index is that
  // of values above all bounds.
  uint64_t count(size_t index) const noexcept {
    TND_ASSERT(index < counts_.size());
    return counts_[index].load(std::memory_order_relaxed);
  }
  uint64_t sum() const noexcept {
    return sum_.load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<uint64_t>, BoundCount + 1> counts_{};
  std::atomic<uint64_t> sum_{0};
};

struct request_histogram {
  static constexpr std::array<uint64_t, 16> duration_bounds_ns{5'000,
                                                               10'000,
                                                               25'000,
                                                               50'000,
                                                               100'000,
                                                               250'000,
                                                               500'000,
                                                               1'000'000,
                                                               2'500'000,
                                                               10'000'000,
                                                               50'000'000,
                                                               100'000'000,
                                                               500'000'000,
                                                               1'000'000'000,
                                                               5'000'000'000,
                                                               30'000'000'000};
  static constexpr std::array<uint64_t, 10> size_bounds{uint64_t{1} << 10,
                                                        uint64_t{1} << 12,
                                                        uint64_t{1} << 14,
                                                        uint64_t{1} << 16,
                                                        uint64_t{1} << 18,
                                                        uint64_t{1} << 20,
                                                        uint64_t{1} << 23,
                                                        uint64_t{1} << 26,
                                                        uint64_t{1} << 29,
                                                        uint64_t{1} << 32};
  // Requests that have their own histograms; all others share the last one.
  struct request_name {
    wire::pool::kind kind;
    const char *name;
  };
  static constexpr std::array<request_name, 7> names{{{wire::pool::kind::put, "put"},
                                                      {wire::pool::kind::get, "get"},
                                                      {wire::pool::kind::write, "write"},
                                                      {wire::pool::kind::read, "read"},
                                                      {wire::pool::kind::create, "create"},
                                                      {wire::pool::kind::commit, "commit"},
                                                      {wire::pool::kind::open, "open"}}};
  static constexpr const char *other_name = "other";
  static constexpr size_t slot_count = names.size() + 1;

  static constexpr size_t slot_of(uint16_t request) noexcept {
    for (size_t i = 0; i < names.size(); i++)
      if (uint16_t(names[i].kind) == request)
        return i;
    return names.size();
  }
  static constexpr const char *name_of(size_t slot) noexcept {
    return slot < names.size() ? names[slot].name : other_name;
  }

  // `size`: bytes of objects in the request or its reply; 0: none, which is not counted.
  void add(uint16_t request, uint64_t duration_ns, uint64_t size) noexcept {
    size_t const slot = slot_of(request);
    durations[slot].add(duration_bounds_ns, duration_ns);
    if (size > 0)
      sizes[slot].add(size_bounds, size);
  }

  std::array<histogram<duration_bounds_ns.size()>, slot_count> durations{};
  std::array<histogram<size_bounds.size()>, slot_count> sizes{};
};

}  // namespace tanada::poold
