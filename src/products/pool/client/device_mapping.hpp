// products/pool/client/device_mapping.hpp: a segment of the pool, mapped by this process for copies
// by its GPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::pool {

// The position of a segment in the file whose descriptor the daemon lent.
struct segment_region {
  uint64_t size = 0, file_offset = 0;
  bool is_writable = false, has_huge_pages = false;
};

// A mapping of a segment for GPUs. Registering pages with a GPU takes longer than copying them. So
// a process maps each segment once for this purpose, and all of its connections share the mapping
// and its registered parts. The last reference unregisters and unmaps the memory.
//
// Thread-safe.
class device_mapping {
 public:
  // Parts are registered one by one. The driver's locks are held for one part at a time, and a copy
  // stays within one part.
  static constexpr uint64_t part_size = uint64_t{32} << 20;

  // `no_memory`: the segment cannot be mapped. Returns other errors of statx(2). All have a
  // message.
  static result<std::shared_ptr<device_mapping>> open(int descriptor, const segment_region &region);
  ~device_mapping();
  device_mapping(const device_mapping &) = delete;
  device_mapping &operator=(const device_mapping &) = delete;

  std::byte *addr() const noexcept {
    return addr_;
  }
  uint64_t size() const noexcept {
    return region_.size;
  }

  // Copies by processors. If pages are not in this process's page table, bytes are copied through
  // the file where that is faster. Mapping the pages would take as long as the copy, and does not
  // get faster with more threads.
  void store(uint64_t offset, const std::byte *source, uint64_t size) noexcept;
  void load(uint64_t offset, std::byte *target, uint64_t size) noexcept;

  bool has_huge_pages() const noexcept {
    return region_.has_huge_pages;
  }

  uint64_t part_count() const noexcept {
    return (region_.size + part_size - 1) / part_size;
  }

  // The number of bytes, of `size` bytes at `offset`, that one copy of a GPU may take: up to the
  // end of the part.
  static uint64_t size_in_part(uint64_t offset, uint64_t size) noexcept;
  bool is_registered(uint64_t offset) const noexcept;

  // Whether registration is worth a try: the GPU has not refused the part.
  bool may_register(uint64_t offset) const noexcept;

  // Blocks for some milliseconds, also while another thread registers the part. If the driver
  // refuses, the part is not tried again.
  status register_part(uint64_t part, const std::shared_ptr<seams::gpu> &gpu);

  // True for the first caller, which must register all parts, have them registered, or give that
  // up.
  bool claim_registration() noexcept {
    return !is_claimed_.exchange(true);
  }
  void give_up_registration() noexcept {
    is_claimed_.store(false);
  }

  // Counts the connections that use the mapping. It may outlive them for a while: see registrar.
  void attach() noexcept {
    user_count_.fetch_add(1);
  }
  void detach() noexcept {
    unsigned const count = user_count_.fetch_sub(1);
    TND_ASSERT(count != 0);
  }
  bool is_used() const noexcept {
    return user_count_.load() != 0;
  }

 private:
  enum class part_state : uint8_t { unregistered, registering, registered, refused };

  explicit device_mapping(const segment_region &region);
  bool is_populated(uint64_t offset, uint64_t size) const noexcept;
  void populate(uint64_t offset, uint64_t size) noexcept;
  bool store_by_file(uint64_t offset, const std::byte *source, uint64_t size) noexcept;
  bool load_by_file(uint64_t offset, std::byte *target, uint64_t size) noexcept;
  void unregister_parts() noexcept;

  segment_region const region_;
  int const owner_;  // process id: a forked process has the mapping, but not the GPU
  int descriptor_ = -1;
  std::atomic<bool> has_writer_{false};  // used by store_by_file()
  std::byte *addr_ = nullptr;
  std::atomic<bool> is_claimed_{false};
  std::atomic<unsigned> user_count_{0};
  std::unique_ptr<std::atomic<bool>[]> populated_;    // by populate_size
  std::unique_ptr<std::atomic<part_state>[]> parts_;  // by part_size
  std::once_flag gpu_once_;          // writes gpu_, before the first part is registered
  std::shared_ptr<seams::gpu> gpu_;  // the GPU of the registered parts
};

}  // namespace tanada::pool
