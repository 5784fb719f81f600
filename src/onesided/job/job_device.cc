// Device memory: each PE allocates its own. PEs of a node whose devices reach one another map it.
#include <unistd.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/job_impl.hpp"

namespace tanada::onesided {

std::string shared_gpu_warning(std::span<const pe_card> cards, pe_index me) {
  auto const sharer_count = [&](const pe_card &card) {
    if (card.gpu[0] == '\0')
      return std::ptrdiff_t{0};
    return std::ranges::count_if(cards, [&](const pe_card &candidate) {
      return candidate.gpu == card.gpu && candidate.kernel == card.kernel;
    });
  };
  auto const is_shared = [&](const pe_card &card) {
    return sharer_count(card) > 1;
  };
  auto const first = std::ranges::find_if(cards, is_shared);
  if (first == cards.end() || first - cards.begin() != me)
    return {};
  return std::to_string(sharer_count(*first)) + " PEs share the GPU " + first->gpu.data() +
         " of PE " + std::to_string(me) + ": kernels that wait for other PEs may time out " +
         "without NVIDIA's MPS, since kernels of different processes take turns; " +
         "start one PE for each GPU";
}

// The layout behind one descriptor: [control memory][heap].
status job::map_devices() {
  auto &device = *options_.device;
  size_t const control_size = options_.device_control_size;
  size_t const size = control_size + options_.device_heap_size;
  auto allocated = device.allocate_shared(size);
  if (!allocated.ok())
    return allocated.error();
  TND_ASSERT(impl_->own_device_block.addr == nullptr && allocated.value().size >= size);
  impl_->own_device_block = allocated.value();
  auto *const base = static_cast<std::byte *>(impl_->own_device_block.addr);
  TND_TRY(device.fill_device(base, 0, control_size));
  auto &devices = impl_->device_addrs;
  devices.assign(size_t(count()), nullptr);
  devices[size_t(me())] = base;
  if (node_pes_.size() > 1)
    TND_TRY(map_peer_devices());
  // Kernels also coordinate by operations, where they do not reach the control memory of a PE.
  segment heap{.name = "device heap", .base = base, .size = size, .kind = memory_kind::device};
  heap.mapped.assign(size_t(count()), nullptr);
  heap.device_addrs.assign(devices.begin(), devices.end());
  map_.add(std::move(heap));
  map_.device_set(&device, options_.timeout_ns);
  return status::ok;
}

// A device that this one does not reach is left out.
status job::map_peer_devices() {
  auto const &block = impl_->own_device_block;
  int const own_descriptors[] = {block.descriptor};
  auto descriptors = seams::descriptor_exchange(
      launcher_, node_pes_, "pgas device", own_descriptors, options_.timeout_ns);
  if (!descriptors.ok())
    return descriptors.error();
  TND_ASSERT(descriptors.value().size() == node_pes_.size());
  for (size_t i = 0; i < node_pes_.size(); i++) {
    pe_index const pe = node_pes_[i];
    if (pe == me())
      continue;
    auto mapped = options_.device->map_shared(descriptors.value()[i][0], block.size);
    if (mapped.ok()) {
      impl_->device_addrs[size_t(pe)] = static_cast<std::byte *>(mapped.value());
    } else if (mapped.error() == status::not_supported) {
      log(log_level::info,
          "device memory of PE {} is not reachable from the device of this PE: {}",
          pe,
          last_message());
    } else {
      return mapped.error();
    }
  }
  return status::ok;
}

void job::unmap_devices() noexcept {
  auto &block = impl_->own_device_block;
  if (block.addr == nullptr || impl_->is_device_busy)
    return;
  for (pe_index pe = 0; pe < pe_index(impl_->device_addrs.size()); pe++) {
    auto *const address = impl_->device_addrs[size_t(pe)];
    if (address != nullptr && pe != me())
      options_.device->unmap_shared(address, block.size);
  }
  options_.device->free_shared(block.addr, block.size);
  close(block.descriptor);
  block = {};
}

std::span<std::byte> job::device_heap() const noexcept {
  if (options_.device == nullptr)
    return {};
  return {static_cast<std::byte *>(impl_->own_device_block.addr) + options_.device_control_size,
          options_.device_heap_size};
}

std::byte *job::device_control(pe_index pe) const noexcept {
  return impl_->device_addrs.empty() ? nullptr : impl_->device_addrs[size_t(pe)];
}

result<std::unique_ptr<seams::device_queue>> job::device_queue_open() const {
  if (options_.device == nullptr)
    return std::unique_ptr<seams::device_queue>{};
  return options_.device->queue_open(options_.timeout_ns);
}

}  // namespace tanada::onesided
