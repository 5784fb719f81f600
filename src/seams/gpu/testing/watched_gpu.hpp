// seams/gpu/testing/watched_gpu.hpp: the host executor's device, which counts registrations and
// refuses copies that a GPU could only make slowly.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/log.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::seams {

// Copies between its device memory and host memory succeed only where the host memory is pinned or
// registered, all of it in one range. Host code cannot access its device memory (allocate_shared).
class watched_gpu final : public gpu {
 public:
  watched_gpu() {
    setenv("TND_HOST_DEVICE", "guarded", 1);
    inner_ = host_gpu_open();
    unsetenv("TND_HOST_DEVICE");
  }

  // Registrations wait while it is closed, and fail while it refuses.
  void close_registration() {
    update_state([this] { is_closed_ = true; });
  }
  void open_registration() {
    update_state([this] { is_closed_ = false; });
  }
  void refuse_registration() {
    update_state([this] { is_refusing_ = true; });
  }
  // The copy after `count` others fails.
  void fail_copy_after(unsigned count) {
    update_state([this, count] { copies_left_ = count; });
  }

  unsigned registration_count() const {
    std::lock_guard const lock{mutex_};
    return registration_count_;
  }
  size_t registered_range_count() const {
    std::lock_guard const lock{mutex_};
    return registered_.size();
  }
  size_t largest_registration() const {
    std::lock_guard const lock{mutex_};
    return largest_registration_;
  }

  const gpu_info &info() const noexcept override {
    return inner_->info();
  }
  result<void *> allocate_device(size_t size) override {
    return inner_->allocate_device(size);
  }
  void free_device(void *addr) noexcept override {
    inner_->free_device(addr);
  }
  result<shared_block> allocate_shared(size_t size) override {
    return inner_->allocate_shared(size);
  }
  void free_shared(void *addr, size_t size) noexcept override {
    inner_->free_shared(addr, size);
  }
  result<void *> map_shared(int descriptor, size_t size) override {
    return inner_->map_shared(descriptor, size);
  }
  void unmap_shared(void *addr, size_t size) noexcept override {
    inner_->unmap_shared(addr, size);
  }
  bool is_device_memory(const void *addr) const noexcept override {
    return inner_->is_device_memory(addr);
  }
  result<std::unique_ptr<device_queue>> queue_open(uint64_t timeout_ns) override {
    return inner_->queue_open(timeout_ns);
  }

  result<void *> allocate_host(size_t size) override {
    auto memory = inner_->allocate_host(size);
    if (memory.ok())
      update_state([&] { pinned_[static_cast<std::byte *>(memory.value())] = size; });
    return memory;
  }
  void free_host(void *addr) noexcept override {
    update_state([&] { pinned_.erase(static_cast<std::byte *>(addr)); });
    inner_->free_host(addr);
  }

  status register_host(const void *addr, size_t size, host_access) override {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return !is_closed_ || is_refusing_; });
    if (is_refusing_)
      return fail(status::not_supported, "this device registers nothing");
    registered_[static_cast<std::byte *>(const_cast<void *>(addr))] = size;
    registration_count_++;
    largest_registration_ = std::max(largest_registration_, size);
    return status::ok;
  }
  void unregister_host(const void *addr) noexcept override {
    update_state([&] { registered_.erase(static_cast<std::byte *>(const_cast<void *>(addr))); });
  }

  result<fabric_memory> fabric_view(const void *addr, size_t size) const override {
    return inner_->fabric_view(addr, size);
  }
  status flush_fabric_writes() override {
    return inner_->flush_fabric_writes();
  }
  status store_word(void *target, uint64_t value) override {
    return inner_->store_word(target, value);
  }
  seams::direct_files &direct_files() noexcept override {
    return inner_->direct_files();
  }

  status copy_to_device(void *target, const void *source, size_t size) override {
    TND_TRY(check(source, size));
    return inner_->copy_to_device(target, source, size);
  }
  status copy_to_host(void *target, const void *source, size_t size) override {
    TND_TRY(check(target, size));
    return inner_->copy_to_host(target, source, size);
  }
  status fill_device(void *target, uint8_t value, size_t size) override {
    return inner_->fill_device(target, value, size);
  }
  status synchronize(uint64_t deadline_ns) override {
    return inner_->synchronize(deadline_ns);
  }

 private:
  using ranges = std::map<std::byte *, size_t>;

  template <class Call>
  void update_state(const Call &call) {
    std::lock_guard const lock{mutex_};
    call();
    changed_.notify_all();
  }

  static bool contains(const ranges &known_ranges, const void *addr, size_t size) {
    auto *const begin = static_cast<std::byte *>(const_cast<void *>(addr));
    auto const after = known_ranges.upper_bound(begin);
    if (after == known_ranges.begin())
      return false;
    auto const [start, length] = *std::prev(after);
    return begin + size <= start + length;
  }

  status check(const void *host, size_t size) {
    std::lock_guard const lock{mutex_};
    if (copies_left_-- == 0)
      return fail(status::device_lost, "this copy fails");
    if (contains(pinned_, host, size) || contains(registered_, host, size))
      return status::ok;
    return fail(status::invalid, "a copy of {} bytes of memory that is not registered", size);
  }

  std::unique_ptr<gpu> inner_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  ranges pinned_, registered_;
  bool is_closed_ = false, is_refusing_ = false;
  unsigned registration_count_ = 0, copies_left_ = ~0u;
  size_t largest_registration_ = 0;
};

}  // namespace tanada::seams
