// seams/gpu/testing/watched_gpu.hpp: the host executor's device, which counts what is registered
// and refuses copies that a GPU could only make slowly.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "core/base/log.hpp"
#include "seams/gpu/gpu.hpp"

namespace tanada::port {

// Copies between its device memory and host memory succeed only where the host memory is pinned or
// registered, all of it at once. Its device memory (allocate_shared) is out of the reach of host
// code.
class watched_gpu final : public gpu {
 public:
  watched_gpu() {
    setenv("TND_HOST_DEVICE", "guarded", 1);
    below_ = host_gpu_open();
    unsetenv("TND_HOST_DEVICE");
  }

  // Registrations wait while it is closed, and fail while it refuses.
  void close_registration() {
    set([this] { is_closed_ = true; });
  }
  void open_registration() {
    set([this] { is_closed_ = false; });
  }
  void refuse_registration() {
    set([this] { is_refusing_ = true; });
  }
  // The copy after so many fails.
  void fail_copy_after(unsigned count) {
    set([this, count] { copies_left_ = count; });
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
    return below_->info();
  }
  result<void *> allocate_device(size_t size) override {
    return below_->allocate_device(size);
  }
  void free_device(void *addr) noexcept override {
    below_->free_device(addr);
  }
  result<shared_block> allocate_shared(size_t size) override {
    return below_->allocate_shared(size);
  }
  void free_shared(void *addr, size_t size) noexcept override {
    below_->free_shared(addr, size);
  }
  result<void *> map_shared(int descriptor, size_t size) override {
    return below_->map_shared(descriptor, size);
  }
  void unmap_shared(void *addr, size_t size) noexcept override {
    below_->unmap_shared(addr, size);
  }
  bool is_device_memory(const void *addr) const noexcept override {
    return below_->is_device_memory(addr);
  }
  result<std::unique_ptr<device_queue>> queue_open(uint64_t timeout_ns) override {
    return below_->queue_open(timeout_ns);
  }

  result<void *> allocate_host(size_t size) override {
    auto memory = below_->allocate_host(size);
    if (memory.ok())
      set([&] { pinned_[static_cast<std::byte *>(memory.value())] = size; });
    return memory;
  }
  void free_host(void *addr) noexcept override {
    set([&] { pinned_.erase(static_cast<std::byte *>(addr)); });
    below_->free_host(addr);
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
    set([&] { registered_.erase(static_cast<std::byte *>(const_cast<void *>(addr))); });
  }

  result<fabric_memory> fabric_view(const void *addr, size_t size) const override {
    return below_->fabric_view(addr, size);
  }
  status fabric_settle() override {
    return below_->fabric_settle();
  }
  status store_word(void *target, uint64_t value) override {
    return below_->store_word(target, value);
  }
  port::direct_files &direct_files() noexcept override {
    return below_->direct_files();
  }

  status copy_to_device(void *target, const void *source, size_t size) override {
    TND_TRY(check(source, size));
    return below_->copy_to_device(target, source, size);
  }
  status copy_to_host(void *target, const void *source, size_t size) override {
    TND_TRY(check(target, size));
    return below_->copy_to_host(target, source, size);
  }
  status fill_device(void *target, uint8_t value, size_t size) override {
    return below_->fill_device(target, value, size);
  }
  status synchronize(uint64_t deadline_ns) override {
    return below_->synchronize(deadline_ns);
  }

 private:
  using ranges = std::map<std::byte *, size_t>;

  template <class Call>
  void set(const Call &call) {
    std::lock_guard const lock{mutex_};
    call();
    changed_.notify_all();
  }

  static bool holds(const ranges &all, const void *addr, size_t size) {
    auto *const begin = static_cast<std::byte *>(const_cast<void *>(addr));
    auto const after = all.upper_bound(begin);
    if (after == all.begin())
      return false;
    auto const [start, length] = *std::prev(after);
    return begin + size <= start + length;
  }

  status check(const void *host, size_t size) {
    std::lock_guard const lock{mutex_};
    if (copies_left_-- == 0)
      return fail(status::device_lost, "this copy fails");
    if (holds(pinned_, host, size) || holds(registered_, host, size))
      return status::ok;
    return fail(status::invalid, "a copy of %zu bytes of memory that is not registered", size);
  }

  std::unique_ptr<gpu> below_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ranges pinned_, registered_;
  bool is_closed_ = false, is_refusing_ = false;
  unsigned registration_count_ = 0, copies_left_ = ~0u;
  size_t largest_registration_ = 0;
};

}  // namespace tanada::port
