// onesided/job/symmetric_map.hpp: where the symmetric memory of each PE lies, and whether it is
// mapped here in this process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/alarm/shared_alarm.hpp"
#include "seams/fabric/fabric.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::onesided {

// A processing element: a process of the job, 0 to count() - 1.
using pe_index = int32_t;

// What the memory is, which decides how it is copied. Device memory is never `mapped`: no processor
// loads from it.
enum class memory_kind : uint8_t { host, device };

// Memory of one size in every PE. Byte `offset` in one PE corresponds to byte `offset` in all
// others.
struct segment {
  const char *name = "";      // "symmetric heap", "program's data", for messages
  std::byte *base = nullptr;  // in this PE
  size_t size = 0;            // bytes
  memory_kind kind = memory_kind::host;
  bool is_internal = false;  // the library's: programs do not know its addresses
  // By PE: where its part is mapped in this process. Null: only the fabric reaches it.
  std::vector<std::byte *> mapped = {};
  // By PE, for device memory: where queues and kernels of this device reach it. Null: they do not.
  std::vector<std::byte *> device_addrs = {};
  // By PE: what the fabric needs to access it. Empty if all PEs are mapped.
  std::vector<seams::fabric_remote> remote = {};
};

// A symmetric address at some PE. `segment_ptr` is null if the address is not symmetric, or the
// range leaves its segment.
struct symmetric_address {
  std::byte *mapped = nullptr;  // null: unmapped, or device memory
  const segment *segment_ptr = nullptr;
  size_t offset = 0;

  // The address is symmetric.
  bool is_device() const noexcept {
    return segment_ptr->kind == memory_kind::device;
  }
  std::byte *device_addr(pe_index pe) const noexcept {
    std::byte *const start = segment_ptr->device_addrs[size_t(pe)];
    return start == nullptr ? nullptr : start + offset;
  }
};

// Filled when a job starts, or when all PEs add a segment. Otherwise only read, and so by any
// thread.
class symmetric_map {
 public:
  static constexpr size_t segment_count_max = 4;
  static_assert(segment_count_max <= 256);  // watched_range() has 8 bits for the segment

  symmetric_map(pe_index me, pe_index count) : me_{me}, count_{count} {}

  pe_index me() const noexcept {
    return me_;
  }
  pe_index count() const noexcept {
    return count_;
  }
  bool is_pe(pe_index pe) const noexcept {
    return uint32_t(pe) < uint32_t(count_);
  }

  // Segments are searched in the order in which they were added: the heap first.
  void add(segment added) {
    TND_ASSERT(segment_count_ < segment_count_max && added.mapped.size() == size_t(count_));
    segments_[segment_count_++] = std::move(added);
  }
  size_t segment_count() const noexcept {
    return segment_count_;
  }
  const segment &segment_at(size_t index) const noexcept {
    TND_ASSERT(index < segment_count_);
    return segments_[index];
  }
  // Wakes a PE that may wait for this change of mapped memory.
  void wake(pe_index pe, const symmetric_address &location, size_t size) const noexcept {
    auto *const alarm = alarms_[size_t(pe)];
    if (alarm->has_sleepers()) [[unlikely]]
      alarm->wake(watched_range(location, size));
  }
  bool has_sleepers(pe_index pe) const noexcept {
    return alarms_[size_t(pe)]->has_sleepers();
  }
  // The range by which alarms identify symmetric memory.
  seams::alarm_range watched_range(const symmetric_address &location, size_t size) const noexcept {
    TND_ASSERT(location.segment_ptr != nullptr);
    uint64_t const begin =
        (uint64_t(location.segment_ptr - segments_.data()) << 56) + location.offset;
    return {begin, begin + size};
  }
  // The device whose memory is also symmetric; null: no device.
  const seams::gpu *device() const noexcept {
    return device_;
  }
  void device_set(const seams::gpu *device, uint64_t timeout_ns) noexcept {
    device_ = device;
    timeout_ns_ = timeout_ns;
  }
  // Of the device's operations.
  uint64_t timeout_ns() const noexcept {
    return timeout_ns_;
  }
  // Whether processors cannot access this memory of the process.
  [[gnu::always_inline]] bool is_device_memory(const void *addr) const noexcept {
    return device_ != nullptr && device_->is_device_memory(addr);
  }

  // By PE; null where not mapped.
  void alarms_set(std::vector<seams::shared_alarm *> alarms) {
    TND_ASSERT(alarms.size() == size_t(count_));
    alarms_ = std::move(alarms);
  }

  std::vector<seams::fabric_remote> &remotes(size_t index) noexcept {
    TND_ASSERT(index < segment_count_);
    return segments_[index].remote;
  }

  // `addr` is the address in this process. Zero bytes anywhere in a segment, its end included, have
  // a location. Requires is_pe(pe).
  [[gnu::always_inline]] symmetric_address locate(const void *addr,
                                                  size_t size,
                                                  pe_index pe) const noexcept {
    for (size_t i = 0; i < segment_count_; i++) {
      auto const &segment = segments_[i];
      size_t const offset =
          reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(segment.base);
      if (offset > segment.size || size > segment.size - offset)
        continue;
      std::byte *const start = segment.mapped[size_t(pe)];
      return {start == nullptr ? nullptr : start + offset, &segment, offset};
    }
    return {};
  }

 private:
  pe_index me_, count_;
  size_t segment_count_ = 0;
  uint64_t timeout_ns_ = ~uint64_t{0};
  const seams::gpu *device_ = nullptr;
  std::vector<seams::shared_alarm *> alarms_;
  std::array<segment, segment_count_max> segments_;
};

}  // namespace tanada::onesided
