#include "backends/cuda/device_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "core/base/mutex.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::port::cuda {
namespace {

constexpr size_t alignment = size_t{2} << 20;  // bytes: what gpu::allocate_shared promises

// Raised whenever memory comes or goes here, so that no thread remembers what is not so any more.
std::atomic<uint32_t> memory_version{0};

tnd_status refused(const driver &call, CUresult result, tnd_status code, const char *what,
                   size_t size) {
  const char *words = "?", *name = "?";
  (void)call.error_string(result, &words);
  (void)call.error_name(result, &name);
  return refuse(code, "%s %zu: %s (%s)", what, size, words, name);
}

tnd_status status_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return -ENOMEM;
    case CUDA_ERROR_NOT_SUPPORTED: return -EOPNOTSUPP;
    case CUDA_ERROR_INVALID_VALUE: return -EINVAL;
    default: return -TND_EDEVICE;
  }
}

CUmemAllocationProp properties_of(const driver &call, uint32_t device_index) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = int(device_index)};
  // Network cards reach it, too, where they can.
  int reached = 0;
  if (call.device_attribute(&reached, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                            int(device_index)) == CUDA_SUCCESS)
    wanted.allocFlags.gpuDirectRDMACapable = reached != 0;
  return wanted;
}

// At an address of its own, for this device alone.
CUresult map_handle(const driver &call, CUmemGenericAllocationHandle handle, uint32_t device_index,
                    size_t size, CUdeviceptr &addr) {
  CUresult result = call.reserve(&addr, size, alignment, 0, 0);
  if (result != CUDA_SUCCESS)
    return result;
  result = call.map(addr, size, 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access{};
    access.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = int(device_index)};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = call.set_access(addr, size, &access, 1);
    if (result != CUDA_SUCCESS)
      (void)call.unmap(addr, size);
  }
  if (result != CUDA_SUCCESS)
    (void)call.unreserve(addr, size);
  return result;
}

// The memory that was shared from or to here: looked through without a lock.
class range_table {
 public:
  void add(const void *addr, size_t size) {
    lock_guard const lock{mutex_};
    size_t const used = used_.load(std::memory_order_relaxed);
    size_t at = 0;
    while (at < used && ranges_[at].begin.load(std::memory_order_relaxed) != 0)
      at++;
    if (at == range_count_max)
      return;  // the driver knows it, too
    auto const begin = reinterpret_cast<uintptr_t>(addr);
    ranges_[at].size.store(size, std::memory_order_relaxed);
    ranges_[at].begin.store(begin, std::memory_order_release);
    if (at == used)
      used_.store(used + 1, std::memory_order_release);
  }
  void remove(const void *addr) {
    lock_guard const lock{mutex_};
    for (range &each : ranges_) {
      if (each.begin.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(addr))
        each.begin.store(0, std::memory_order_release);
    }
  }
  bool holds(const void *addr) const noexcept {
    size_t const used = used_.load(std::memory_order_acquire);
    for (size_t i = 0; i < used; i++) {
      uintptr_t const begin = ranges_[i].begin.load(std::memory_order_acquire);
      if (begin != 0 && reinterpret_cast<uintptr_t>(addr) - begin <
                            ranges_[i].size.load(std::memory_order_relaxed))
        return true;
    }
    return false;
  }

 private:
  static constexpr size_t range_count_max = 256;
  struct range {
    std::atomic<uintptr_t> begin{0};
    std::atomic<size_t> size{0};
  };
  mutex mutex_;  // who changes it
  std::atomic<size_t> used_{0};
  range ranges_[range_count_max];
};
range_table shared_ranges;

// Pages that the driver knows nothing of, by thread, for some calls. Of memory that it knows
// nothing is kept: what is freed may come again at the same address as memory of another kind.
struct strange_page {
  uintptr_t page = 0;
  uint32_t version = 0;
  uint32_t uses_left = 0;
};
constexpr size_t strange_page_count = 8;
constexpr uint32_t uses_max = 256;
constexpr int page_bits = 12;
thread_local strange_page strange_pages[strange_page_count];

struct driver_answer {
  bool is_known, is_device;
};

driver_answer ask_driver(const void *addr) {
  auto const *const call = driver_functions();
  if (call == nullptr)
    return {false, false};
  CUmemorytype type{};
  auto const at = reinterpret_cast<CUdeviceptr>(addr);
  if (call->pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at) != CUDA_SUCCESS)
    return {false, false};
  if (type != CU_MEMORYTYPE_DEVICE)
    return {true, false};
  unsigned is_managed = 0;  // processors reach that
  bool const is_asked =
      call->pointer_attribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, at) == CUDA_SUCCESS;
  return {true, !is_asked || is_managed == 0};
}

}  // namespace

tnd_status allocate_shared(uint32_t device_index, size_t *size, void **addr, int *descriptor) {
  current_device const device{device_index};
  if (tnd_status const code = checked(device.error(), "cannot use GPU", device_index);
      code != TND_OK)
    return code;
  auto const *const call = driver_functions();
  if (call == nullptr)
    return -TND_EDEVICE;
  size_t const asked = *size == 0 ? 1 : *size;
  auto wanted = properties_of(*call, device_index);
  size_t unit = 0;
  CUresult result = call->granularity(&unit, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS)
    return refused(*call, result, status_of(result), "cannot share device memory, bytes:", asked);
  unit = unit < alignment ? alignment : unit;
  size_t const rounded = (asked + unit - 1) / unit * unit;
  if (rounded < asked)
    return refuse(-ENOMEM, "cannot share device memory, bytes: %zu", asked);
  CUmemGenericAllocationHandle handle = 0;
  result = call->create(&handle, rounded, &wanted, 0);
  if (result != CUDA_SUCCESS && wanted.allocFlags.gpuDirectRDMACapable != 0 &&
      result != CUDA_ERROR_OUT_OF_MEMORY) {
    wanted.allocFlags.gpuDirectRDMACapable = 0;
    result = call->create(&handle, rounded, &wanted, 0);
  }
  if (result != CUDA_SUCCESS) {
    // For more than there could ever be the driver has other words.
    tnd_status const code = result == CUDA_ERROR_INVALID_VALUE ? -ENOMEM : status_of(result);
    return refused(*call, result, code, "cannot allocate device memory to share, bytes:", asked);
  }
  int made = -1;
  CUdeviceptr at = 0;
  result = call->export_handle(&made, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS)
    result = map_handle(*call, handle, device_index, rounded, at);
  (void)call->release(handle);  // mapped, it lives on
  if (result != CUDA_SUCCESS) {
    if (made >= 0)
      close(made);
    return refused(*call, result, status_of(result), "cannot share device memory, bytes:", rounded);
  }
  memory_version.fetch_add(1, std::memory_order_release);
  *size = rounded;
  *addr = reinterpret_cast<void *>(at);
  shared_ranges.add(*addr, rounded);
  *descriptor = made;
  return TND_OK;
}

tnd_status map_shared(uint32_t device_index, int descriptor, size_t size, void **addr) {
  current_device const device{device_index};
  if (tnd_status const code = checked(device.error(), "cannot use GPU", device_index);
      code != TND_OK)
    return code;
  auto const *const call = driver_functions();
  if (call == nullptr)
    return -TND_EDEVICE;
  CUmemGenericAllocationHandle handle = 0;
  void *const wanted = reinterpret_cast<void *>(intptr_t(descriptor));
  CUresult result = call->import_handle(&handle, wanted, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUdeviceptr at = 0;
  if (result == CUDA_SUCCESS) {
    result = map_handle(*call, handle, device_index, size, at);
    (void)call->release(handle);
  }
  // Whatever it says, this device does not reach that memory; the others' share of it goes another
  // way.
  if (result != CUDA_SUCCESS) {
    tnd_status const code = result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EOPNOTSUPP;
    return refused(*call, result, code, "cannot map shared device memory, bytes:", size);
  }
  memory_version.fetch_add(1, std::memory_order_release);
  *addr = reinterpret_cast<void *>(at);
  shared_ranges.add(*addr, size);
  return TND_OK;
}

void unmap_shared(uint32_t device_index, void *addr, size_t size) {
  auto const *const call = driver_functions();
  if (call == nullptr || addr == nullptr)
    return;
  current_device const device{device_index};
  auto const at = reinterpret_cast<CUdeviceptr>(addr);
  shared_ranges.remove(addr);
  (void)call->unmap(at, size);
  (void)call->unreserve(at, size);
  memory_version.fetch_add(1, std::memory_order_release);
}

int is_device_memory(const void *addr) {
  if (shared_ranges.holds(addr))
    return 1;
  auto const page = reinterpret_cast<uintptr_t>(addr) >> page_bits;
  uint32_t const version = memory_version.load(std::memory_order_acquire);
  strange_page &strange = strange_pages[(page ^ page >> 5) % strange_page_count];
  if (strange.page == page && strange.version == version && strange.uses_left != 0) {
    strange.uses_left--;
    return 0;
  }
  driver_answer const answer = ask_driver(addr);
  if (!answer.is_known)
    strange = {page, version, uses_max};
  return answer.is_device;
}

}  // namespace tanada::port::cuda
