// Device memory that processes share, and the test whether an address is device memory.
#include "backends/cuda/device_memory.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "core/base/mutex.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/runtime.hpp"

namespace tanada::backends::cuda {
namespace {

constexpr size_t alignment = size_t{2} << 20;  // bytes, as gpu::allocate_shared guarantees

// Incremented when device memory is allocated, mapped or unmapped here, which invalidates all
// threads' cached pages.
std::atomic<uint32_t> memory_version{0};

tnd_status report_driver_error(
    const driver &call, CUresult result, tnd_status code, const char *action, size_t size) {
  TND_ASSERT(result != CUDA_SUCCESS && code != TND_OK);
  const char *words = "?", *name = "?";
  (void)call.error_string(result, &words);
  (void)call.error_name(result, &name);
  return set_error(code, "{} {}: {} ({})", action, size, words, name);
}

tnd_status status_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return -ENOMEM;
    case CUDA_ERROR_NOT_SUPPORTED:
      return -EOPNOTSUPP;
    case CUDA_ERROR_INVALID_VALUE:
      return -EINVAL;
    default:
      return -TND_EDEVICE;
  }
}

CUmemAllocationProp properties_of(const driver &call, uint32_t device_index) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  wanted.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = int(device_index)};
  // Network cards may access the memory if the device supports it.
  int reached = 0;
  if (call.device_attribute(&reached,
                            CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
                            int(device_index)) == CUDA_SUCCESS)
    wanted.allocFlags.gpuDirectRDMACapable = reached != 0;
  return wanted;
}

// Maps the memory at a new address, accessible only to this device.
CUresult map_handle(const driver &call,
                    CUmemGenericAllocationHandle handle,
                    uint32_t device_index,
                    size_t size,
                    CUdeviceptr &addr) {
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

// Rounds a size up to what the driver can share.
tnd_status round_shared_size(const driver &call,
                             const CUmemAllocationProp &properties,
                             size_t requested_size,
                             size_t &rounded) {
  size_t unit = 0;
  CUresult const result =
      call.granularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS)
    return report_driver_error(
        call, result, status_of(result), "cannot share device memory, bytes:", requested_size);
  unit = unit < alignment ? alignment : unit;
  rounded = (requested_size + unit - 1) / unit * unit;
  if (rounded < requested_size)
    return set_error(-ENOMEM, "cannot share device memory, bytes: {}", requested_size);
  return TND_OK;
}

// Creates memory that network cards may access, or memory without such access if the driver refuses
// the former.
CUresult create_handle(const driver &call,
                       CUmemAllocationProp properties,
                       size_t size,
                       CUmemGenericAllocationHandle &handle) {
  CUresult const result = call.create(&handle, size, &properties, 0);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY ||
      properties.allocFlags.gpuDirectRDMACapable == 0)
    return result;
  properties.allocFlags.gpuDirectRDMACapable = 0;
  return call.create(&handle, size, &properties, 0);
}

struct shared_memory {
  int fd = -1;
  CUdeviceptr addr = 0;
};

// Exports and maps the memory of a handle and releases the handle; the mapping keeps the memory
// alive. On failure nothing is left open.
CUresult export_and_map(const driver &call,
                        CUmemGenericAllocationHandle handle,
                        uint32_t device_index,
                        size_t size,
                        shared_memory &shared) {
  CUresult result =
      call.export_handle(&shared.fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result == CUDA_SUCCESS)
    result = map_handle(call, handle, device_index, size, shared.addr);
  (void)call.release(handle);
  if (result != CUDA_SUCCESS && shared.fd >= 0)
    close(shared.fd);
  return result;
}

// Memory shared from or to this process; searched without a lock.
class range_table {
 public:
  void add(const void *addr, size_t size) {
    lock_guard const lock{mutex_};
    size_t const used = used_.load(std::memory_order_relaxed);
    TND_ASSERT(addr != nullptr && used <= range_count_max);
    size_t index = 0;
    while (index < used && ranges_[index].begin.load(std::memory_order_relaxed) != 0)
      index++;
    if (index == range_count_max)
      return;  // the driver is queried instead
    auto const begin = reinterpret_cast<uintptr_t>(addr);
    ranges_[index].size.store(size, std::memory_order_relaxed);
    ranges_[index].begin.store(begin, std::memory_order_release);
    if (index == used)
      used_.store(used + 1, std::memory_order_release);
  }
  void remove(const void *addr) {
    lock_guard const lock{mutex_};
    for (range &entry : ranges_) {
      if (entry.begin.load(std::memory_order_relaxed) == reinterpret_cast<uintptr_t>(addr))
        entry.begin.store(0, std::memory_order_release);
    }
  }
  bool contains(const void *addr) const noexcept {
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
  mutex mutex_;  // serializes changes
  std::atomic<size_t> used_{0};
  range ranges_[range_count_max];
};
range_table shared_ranges;

// Pages unknown to the driver, cached by each thread for some calls. Known memory is not cached:
// after a free, the same address may become memory of another kind.
struct unknown_page {
  uintptr_t page = 0;
  uint32_t version = 0;
  uint32_t remaining_uses = 0;
};
constexpr size_t unknown_page_count = 8;
constexpr uint32_t uses_max = 256;
constexpr int page_bits = 12;
static_assert(alignment % (size_t{1} << page_bits) == 0);
thread_local unknown_page unknown_pages[unknown_page_count];

struct pointer_info {
  bool is_known, is_device;
};

pointer_info query_driver(const void *addr) {
  auto const *const call = driver_functions();
  if (call == nullptr)
    return {false, false};
  CUmemorytype type{};
  auto const device_addr = reinterpret_cast<CUdeviceptr>(addr);
  if (call->pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device_addr) != CUDA_SUCCESS)
    return {false, false};
  if (type != CU_MEMORYTYPE_DEVICE)
    return {true, false};
  unsigned is_managed = 0;  // processors can access managed memory
  bool const is_asked =
      call->pointer_attribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, device_addr) ==
      CUDA_SUCCESS;
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
  size_t const requested_size = *size == 0 ? 1 : *size;
  auto const properties = properties_of(*call, device_index);
  size_t rounded = 0;
  if (tnd_status const code = round_shared_size(*call, properties, requested_size, rounded);
      code != TND_OK)
    return code;
  CUmemGenericAllocationHandle handle = 0;
  CUresult result = create_handle(*call, properties, rounded, handle);
  if (result != CUDA_SUCCESS) {
    // For impossibly large sizes the driver returns another error.
    tnd_status const code = result == CUDA_ERROR_INVALID_VALUE ? -ENOMEM : status_of(result);
    return report_driver_error(
        *call, result, code, "cannot allocate device memory to share, bytes:", requested_size);
  }
  shared_memory shared;
  result = export_and_map(*call, handle, device_index, rounded, shared);
  if (result != CUDA_SUCCESS)
    return report_driver_error(
        *call, result, status_of(result), "cannot share device memory, bytes:", rounded);
  memory_version.fetch_add(1, std::memory_order_release);
  *size = rounded;
  *addr = reinterpret_cast<void *>(shared.addr);
  shared_ranges.add(*addr, rounded);
  *descriptor = shared.fd;
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
  CUdeviceptr mapped_addr = 0;
  if (result == CUDA_SUCCESS) {
    result = map_handle(*call, handle, device_index, size, mapped_addr);
    (void)call->release(handle);
  }
  // Whatever the error, this device cannot map that memory. The transfers to and from it take
  // another path.
  if (result != CUDA_SUCCESS) {
    tnd_status const code = result == CUDA_ERROR_OUT_OF_MEMORY ? -ENOMEM : -EOPNOTSUPP;
    return report_driver_error(
        *call, result, code, "cannot map shared device memory, bytes:", size);
  }
  memory_version.fetch_add(1, std::memory_order_release);
  *addr = reinterpret_cast<void *>(mapped_addr);
  shared_ranges.add(*addr, size);
  return TND_OK;
}

void unmap_shared(uint32_t device_index, void *addr, size_t size) {
  auto const *const call = driver_functions();
  if (call == nullptr || addr == nullptr)
    return;
  current_device const device{device_index};
  auto const mapped_addr = reinterpret_cast<CUdeviceptr>(addr);
  shared_ranges.remove(addr);
  (void)call->unmap(mapped_addr, size);
  (void)call->unreserve(mapped_addr, size);
  memory_version.fetch_add(1, std::memory_order_release);
}

int is_device_memory(const void *addr) {
  if (shared_ranges.contains(addr))
    return 1;
  auto const page = reinterpret_cast<uintptr_t>(addr) >> page_bits;
  uint32_t const version = memory_version.load(std::memory_order_acquire);
  unknown_page &cached = unknown_pages[(page ^ page >> 5) % unknown_page_count];
  if (cached.page == page && cached.version == version && cached.remaining_uses != 0) {
    cached.remaining_uses--;
    return 0;
  }
  pointer_info const answer = query_driver(addr);
  if (!answer.is_known)
    cached = {page, version, uses_max};
  return answer.is_device;
}

}  // namespace tanada::backends::cuda
