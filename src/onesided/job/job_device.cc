// Memory of devices: each PE makes its own; those of a node whose devices reach one another's map
// it.
#include <unistd.h>

#include <algorithm>

#include "core/base/log.hpp"
#include "onesided/job/job_inside.hpp"

namespace tanada::pgas {

std::string shared_gpu_warning(std::span<const pe_card> cards, pe_index me) {
  auto const sharer_count = [&](const pe_card &card) {
    if (card.gpu[0] == '\0')
      return std::ptrdiff_t{0};
    return std::ranges::count_if(cards, [&](const pe_card &other) {
      return other.gpu == card.gpu && other.kernel == card.kernel;
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

// Behind one descriptor: [control memory][heap].
status job::map_devices() {
  auto &device = *options_.device;
  size_t const control = options_.device_control_size, size = control + options_.device_heap_size;
  auto own = device.allocate_shared(size);
  if (!own.ok())
    return own.error();
  inside_->device_own = own.value();
  auto const &block = inside_->device_own;
  auto *const base = static_cast<std::byte *>(block.addr);
  TND_TRY(device.fill_device(base, 0, control));
  auto &devices = inside_->devices;
  devices.assign(size_t(count()), nullptr);
  devices[size_t(me())] = base;
  if (node_pes_.size() > 1) {
    int const mine[] = {block.descriptor};
    auto everybodys =
        port::descriptor_exchange(launcher_, node_pes_, "pgas device", mine, options_.timeout_ns);
    if (!everybodys.ok())
      return everybodys.error();
    for (size_t i = 0; i < node_pes_.size(); i++) {
      if (node_pes_[i] == me())
        continue;
      auto mapped = device.map_shared(everybodys.value()[i][0], block.size);
      if (mapped.ok()) {
        devices[size_t(node_pes_[i])] = static_cast<std::byte *>(mapped.value());
      } else if (mapped.error() == status::not_supported) {
        log(log_level::info, "memory of PE %d's device is not reached by this one's: %s",
            int(node_pes_[i]), last_message().c_str());
      } else {
        return mapped.error();
      }
    }
  }
  // Those who coordinate kernels do so by operations, too, where nothing reaches a PE's control
  // memory.
  segment heap{.name = "device heap", .base = base, .size = size, .kind = memory_kind::device};
  heap.mapped.assign(size_t(count()), nullptr);
  heap.reached.assign(devices.begin(), devices.end());
  map_.add(std::move(heap));
  map_.device_set(&device, options_.timeout_ns);
  return status::ok;
}

void job::unmap_devices() noexcept {
  auto &own = inside_->device_own;
  if (own.addr == nullptr || inside_->is_device_busy)
    return;
  for (pe_index pe = 0; pe < pe_index(inside_->devices.size()); pe++) {
    auto *const each = inside_->devices[size_t(pe)];
    if (each != nullptr && pe != me())
      options_.device->unmap_shared(each, own.size);
  }
  options_.device->free_shared(own.addr, own.size);
  close(own.descriptor);
  own = {};
}

std::span<std::byte> job::device_heap() const noexcept {
  if (options_.device == nullptr)
    return {};
  return {static_cast<std::byte *>(inside_->device_own.addr) + options_.device_control_size,
          options_.device_heap_size};
}

std::byte *job::device_control(pe_index pe) const noexcept {
  return inside_->devices.empty() ? nullptr : inside_->devices[size_t(pe)];
}

result<std::unique_ptr<port::device_queue>> job::device_queue_open() const {
  if (options_.device == nullptr)
    return std::unique_ptr<port::device_queue>{};
  return options_.device->queue_open(options_.timeout_ns);
}

}  // namespace tanada::pgas
