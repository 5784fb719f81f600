// Visibility of network cards' writes to device memory.
#include "backends/cuda/remote_writes.hpp"

#include <array>
#include <atomic>
#include <cerrno>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::backends::cuda {
namespace {

enum class order : uint8_t { unknown, natural, flushed, unordered };

constexpr uint32_t remembered_count = 64;
std::array<std::atomic<order>, remembered_count> orders;  // by device

// See "GPUDirect RDMA writes ordering" in CUDA's driver API. Neighbouring devices map the memory,
// so the scope is all devices.
order query_order(const driver &call, uint32_t device_index) {
  int ordering = 0, options = 0;
  bool const is_known =
      call.device_attribute(&ordering,
                            CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
                            int(device_index)) == CUDA_SUCCESS &&
      call.device_attribute(&options,
                            CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
                            int(device_index)) == CUDA_SUCCESS;
  if (!is_known)
    return order::unordered;
  if (ordering >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES)
    return order::natural;
  bool const can_flush = (options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) != 0;
  return can_flush && call.flush_remote_writes != nullptr ? order::flushed : order::unordered;
}

order order_of(const driver &call, uint32_t device_index) {
  if (device_index >= remembered_count)
    return query_order(call, device_index);
  auto &known = orders[device_index];
  order device_order = known.load(std::memory_order_relaxed);
  if (device_order != order::unknown) [[likely]]
    return device_order;
  device_order = query_order(call, device_index);
  known.store(device_order, std::memory_order_relaxed);
  return device_order;
}

}  // namespace

tnd_status fabric_prepare(uint32_t device_index) {
  auto const *const call = driver_functions();
  if (call == nullptr)
    return -TND_EDEVICE;
  if (order_of(*call, device_index) != order::unordered)
    return TND_OK;
  return set_error(-EOPNOTSUPP,
                   "GPU {} neither orders network cards' writes to its memory nor can flush them",
                   device_index);
}

tnd_status fabric_settle(uint32_t device_index) {
  auto const *const call = driver_functions();
  if (call == nullptr)
    return -TND_EDEVICE;
  if (order_of(*call, device_index) != order::flushed)
    return TND_OK;
  current_device const device{device_index};
  if (tnd_status const code = checked(device.error(), "cannot use GPU", device_index);
      code != TND_OK)
    return code;
  CUresult const result =
      call->flush_remote_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
  if (result == CUDA_SUCCESS)
    return TND_OK;
  return set_error(-TND_EDEVICE,
                   "cannot flush network cards' writes to GPU {}: CUDA driver error {}",
                   device_index,
                   int(result));
}

}  // namespace tanada::backends::cuda
