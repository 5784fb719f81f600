#include "pool/client/device_copy.hpp"

#include "base/log.hpp"

namespace tanada::pool {

result<std::unique_ptr<device_copy>> device_copy::create(uint32_t device_index) {
  auto opened = port::gpu_open(port::gpu_choice::cuda, device_index);
  if (!opened.ok()) return opened.error();
  auto made = std::make_unique<device_copy>();
  made->gpu_ = std::move(opened).value();
  auto stage = made->gpu_->allocate_host(stage_size);
  if (!stage.ok()) return stage.error();
  made->stage_ = static_cast<std::byte *>(stage.value());
  return made;
}

device_copy::~device_copy() {
  if (gpu_ == nullptr) return;
  for (void *const addr : known_) gpu_->unregister_host(addr);
  if (stage_ != nullptr) gpu_->free_host(stage_);
}

void device_copy::know(void *addr, size_t size) {
  status const code = gpu_->register_host(addr, size, port::host_access::write);
  if (code == status::ok) {
    known_.insert(addr);
    return;
  }
  has_refused_ = true;
  log(log_level::info, "pool: the GPU does not take %zu bytes of the pool: copies are staged by its driver", size);
}

void device_copy::forget(void *addr) {
  if (known_.erase(addr) != 0) gpu_->unregister_host(addr);
}

}  // namespace tanada::pool
