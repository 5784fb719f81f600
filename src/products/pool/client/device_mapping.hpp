// products/pool/client/device_mapping.hpp: a pool's segment as this process maps it for copies by
// its GPUs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/base/result.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::pool {

// Where a segment lies in the file whose descriptor the daemon lent.
struct segment_region {
  uint64_t size = 0, file_offset = 0;
  bool is_writable = false, has_huge_pages = false;
};

// Registering pages with a GPU takes longer than copying them, so a process maps each segment once
// for this, and all of its connections share the mapping and what is registered of it. The memory
// is unregistered and unmapped with the last reference.
//
// Thread-safe.
class device_mapping {
 public:
  // Parts are registered one by one: the driver's locks are held for one part, and a copy stays
  // within one.
  static constexpr uint64_t part_size = uint64_t{32} << 20;

  // no_memory: the process has no room for the addresses.
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

  // Copies by processors. Bytes whose pages are not in this process's page table go through the
  // file where that is faster: its pages then need not be mapped, which costs as much as the copy
  // and does not get faster with more threads.
  void store(uint64_t offset, const std::byte *source, uint64_t size) noexcept;
  void load(uint64_t offset, std::byte *target, uint64_t size) noexcept;

  bool has_huge_pages() const noexcept {
    return region_.has_huge_pages;
  }

  uint64_t part_count() const noexcept {
    return (region_.size + part_size - 1) / part_size;
  }

  // How many of `size` bytes at `offset` one copy of a GPU may take: up to the end of the part.
  static uint64_t size_in_part(uint64_t offset, uint64_t size) noexcept;
  bool is_registered(uint64_t offset) const noexcept;

  // Whether it is worth a try: the GPU has not refused the part.
  bool may_register(uint64_t offset) const noexcept;

  // Blocks for some milliseconds, also while another thread registers the part. The driver's
  // refusal is final for it.
  status register_part(uint64_t part, const std::shared_ptr<port::gpu> &gpu);

  // True for the first caller, which registers all parts or has them registered, or gives that up.
  bool claim_registration() noexcept {
    return !is_claimed_.exchange(true);
  }
  void give_up_registration() noexcept {
    is_claimed_.store(false);
  }

  // Connections that use it. The mapping may outlive them for a while: see registrar.
  void attach() noexcept {
    user_count_.fetch_add(1);
  }
  void detach() noexcept {
    user_count_.fetch_sub(1);
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
  std::atomic<bool> has_writer_{false};  // by store_by_file()
  std::byte *addr_ = nullptr;
  std::atomic<bool> is_claimed_{false};
  std::atomic<unsigned> user_count_{0};
  std::unique_ptr<std::atomic<bool>[]> populated_;    // by populate_size
  std::unique_ptr<std::atomic<part_state>[]> parts_;  // by part_size
  std::once_flag gpu_once_;         // writes gpu_, before the first part is registered
  std::shared_ptr<port::gpu> gpu_;  // of the registered parts
};

}  // namespace tanada::pool
