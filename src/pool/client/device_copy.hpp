// pool/client/device_copy.hpp: bytes between device memory and host memory.
#pragma once

#include <memory>
#include <unordered_set>

#include "port/gpu/gpu.hpp"

namespace tanada::pool {

// Copies of one CUDA device, with pinned memory to stage what has none of its own. Used by one thread at a time.
class device_copy {
 public:
  static constexpr size_t stage_size = size_t{8} << 20;

  // no_device, no_plugin: the message says why.
  static result<std::unique_ptr<device_copy>> create(uint32_t device_index);
  ~device_copy();

  // Copies run at the full speed of the bus where host memory is known to the device. Where that is refused they are slower.
  void know(void *addr, size_t size);
  void forget(void *addr);
  // False: some memory was refused.
  bool knows_all() const noexcept { return !has_refused_; }

  status to_host(void *target, const void *source, size_t size) { return gpu_->copy_to_host(target, source, size); }
  status to_device(void *target, const void *source, size_t size) { return gpu_->copy_to_device(target, source, size); }

  // stage_size bytes, pinned.
  std::byte *stage() const noexcept { return stage_; }

 private:
  std::unique_ptr<port::gpu> gpu_;
  std::byte *stage_ = nullptr;
  std::unordered_set<void *> known_;
  bool has_refused_ = false;
};

}  // namespace tanada::pool
