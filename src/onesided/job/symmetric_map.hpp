// onesided/job/symmetric_map.hpp: where the symmetric memory of each PE lies, and whether a
// processor here reaches it.
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

namespace tanada::pgas {

// A processing element: a process of the job, 0 to count() - 1.
using pe_index = int32_t;

// What the memory is, for who copies it. Memory of a device is never `mapped`: no processor loads
// from it.
enum class memory_kind : uint8_t { host, device };

// Memory of one size in every PE; byte `offset` of one PE's corresponds to byte `offset` of all
// others'.
struct segment {
  const char *name = "";      // "symmetric heap", "program's data", for messages
  std::byte *base = nullptr;  // ours
  size_t size = 0;            // bytes
  memory_kind kind = memory_kind::host;
  bool is_own = false;  // the library's: no program has its addresses
  std::vector<std::byte *> mapped =
      {};  // by PE: where its part lies in this process; null: the fabric reaches it
  std::vector<std::byte *> reached = {};  // by PE, of device memory: where our device's queues and
                                          // kernels reach it; null: they do not
  std::vector<port::fabric_remote> remote =
      {};  // by PE: what the fabric must know; empty when all are mapped
};

// A symmetric address at some PE. `where` null: the address is not symmetric, or the range leaves
// its segment.
struct place {
  std::byte *mapped = nullptr;  // null: by the fabric, or it is device memory
  const segment *where = nullptr;
  size_t offset = 0;

  bool is_device() const noexcept {
    return where->kind == memory_kind::device;
  }  // of a place that is symmetric
  std::byte *reached(pe_index pe) const noexcept {
    std::byte *const start = where->reached[size_t(pe)];
    return start == nullptr ? nullptr : start + offset;
  }
};

// Filled when a job starts, or when a segment is added by all; read only, and so by any thread, in
// between.
class symmetric_map {
 public:
  static constexpr size_t segment_count_max = 4;

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

  // Segments are looked through in the order they were added: the heap first.
  void add(segment made) {
    TND_ASSERT(used_ < segment_count_max && made.mapped.size() == size_t(count_));
    segments_[used_++] = std::move(made);
  }
  size_t segment_count() const noexcept {
    return used_;
  }
  const segment &at(size_t index) const noexcept {
    return segments_[index];
  }
  // Ring after a change of mapped memory that the PE may be waiting for.
  void ring(pe_index pe, const place &at, size_t size) const noexcept {
    auto *const alarm = alarms_[size_t(pe)];
    if (alarm->has_sleepers()) [[unlikely]]
      alarm->ring(watched(at, size));
  }
  bool is_asleep(pe_index pe) const noexcept {
    return alarms_[size_t(pe)]->has_sleepers();
  }
  // Symmetric memory as alarms number it.
  port::alarm_range watched(const place &at, size_t size) const noexcept {
    uint64_t const begin = (uint64_t(at.where - segments_.data()) << 56) + at.offset;
    return {begin, begin + size};
  }
  // The device whose memory is symmetric, too; null: there is none.
  const port::gpu *device() const noexcept {
    return device_;
  }
  void device_set(const port::gpu *device, uint64_t timeout_ns) noexcept {
    device_ = device;
    timeout_ns_ = timeout_ns;
  }
  uint64_t timeout_ns() const noexcept {
    return timeout_ns_;
  }  // of its operations
  // Memory of this process that processors do not reach.
  [[gnu::always_inline]] bool is_device_memory(const void *addr) const noexcept {
    return device_ != nullptr && device_->is_device_memory(addr);
  }

  void alarms_set(std::vector<port::shared_alarm *> alarms) {
    alarms_ = std::move(alarms);
  }  // by PE; null where not mapped

  std::vector<port::fabric_remote> &remotes(size_t index) noexcept {
    return segments_[index].remote;
  }

  // `addr` is our address of the memory. Zero bytes anywhere in a segment, its end included, are a
  // place. is_pe(pe) holds.
  [[gnu::always_inline]] place locate(const void *addr, size_t size, pe_index pe) const noexcept {
    for (size_t i = 0; i < used_; i++) {
      auto const &each = segments_[i];
      size_t const offset =
          reinterpret_cast<uintptr_t>(addr) - reinterpret_cast<uintptr_t>(each.base);
      if (offset > each.size || size > each.size - offset)
        continue;
      std::byte *const start = each.mapped[size_t(pe)];
      return {start == nullptr ? nullptr : start + offset, &each, offset};
    }
    return {};
  }

 private:
  pe_index me_, count_;
  size_t used_ = 0;
  uint64_t timeout_ns_ = ~uint64_t{0};
  const port::gpu *device_ = nullptr;
  std::vector<port::shared_alarm *> alarms_;
  std::array<segment, segment_count_max> segments_;
};

}  // namespace tanada::pgas
