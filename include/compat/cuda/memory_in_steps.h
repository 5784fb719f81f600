// memory_in_steps.h: CUDA's virtual memory management, by files in memory: create, reserve, map,
// grant access. Not for direct inclusion.
#pragma once

typedef enum CUmemAllocationType_enum {
  CU_MEM_ALLOCATION_TYPE_INVALID = 0,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1
} CUmemAllocationType;
typedef enum CUmemAllocationHandleType_enum {
  CU_MEM_HANDLE_TYPE_NONE = 0,
  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1,
  CU_MEM_HANDLE_TYPE_FABRIC = 8
} CUmemAllocationHandleType;
typedef enum CUmemLocationType_enum {
  CU_MEM_LOCATION_TYPE_INVALID = 0,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_LOCATION_TYPE_HOST = 2,
  CU_MEM_LOCATION_TYPE_HOST_NUMA = 3
} CUmemLocationType;
typedef enum CUmemAccess_flags_enum {
  CU_MEM_ACCESS_FLAGS_PROT_NONE = 0,
  CU_MEM_ACCESS_FLAGS_PROT_READ = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3
} CUmemAccess_flags;
typedef enum CUmemAllocationGranularity_flags_enum {
  CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0,
  CU_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1
} CUmemAllocationGranularity_flags;

typedef struct CUmemLocation_st {
  CUmemLocationType type;
  int id;
} CUmemLocation;
typedef struct CUmemAllocationProp_st {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
  } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st {
  CUmemLocation location;
  CUmemAccess_flags flags;
} CUmemAccessDesc;
typedef unsigned long long CUmemGenericAllocationHandle;

namespace tanada::cuda {

// A handle is the descriptor of a file in memory, plus one.
inline int descriptor_of(CUmemGenericAllocationHandle handle) {
  return int(handle) - 1;
}

struct mapping_table {
  std::mutex mutex;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> handles;  // by first address

  static mapping_table &instance() {
    static mapping_table &table = *new mapping_table;
    return table;
  }
};

inline CUresult mapped_or_not(void *address) {
  return address == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace tanada::cuda

inline CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                              const CUmemAllocationProp *,
                                              CUmemAllocationGranularity_flags) {
  *granularity = size_t{2} << 20;
  return CUDA_SUCCESS;
}
inline CUresult cuMemCreate(CUmemGenericAllocationHandle *handle,
                            size_t size,
                            const CUmemAllocationProp *,
                            unsigned long long) {
  int const descriptor = memfd_create("cuMemCreate", MFD_CLOEXEC);
  if (descriptor < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (ftruncate(descriptor, off_t(size)) != 0) {
    close(descriptor);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = CUmemGenericAllocationHandle(descriptor) + 1;
  return CUDA_SUCCESS;
}
inline CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return close(::tanada::cuda::descriptor_of(handle)) == 0 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_HANDLE;
}
inline CUresult cuMemAddressReserve(
    CUdeviceptr *ptr, size_t size, size_t, CUdeviceptr, unsigned long long) {
  void *const address =
      mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address != MAP_FAILED)
    *ptr = reinterpret_cast<CUdeviceptr>(address);
  return ::tanada::cuda::mapped_or_not(address);
}
inline CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return munmap(reinterpret_cast<void *>(ptr), size) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
inline CUresult cuMemMap(CUdeviceptr ptr,
                         size_t size,
                         size_t offset,
                         CUmemGenericAllocationHandle handle,
                         unsigned long long) {
  void *const address = mmap(reinterpret_cast<void *>(ptr),
                             size,
                             PROT_NONE,
                             MAP_SHARED | MAP_FIXED,
                             ::tanada::cuda::descriptor_of(handle),
                             off_t(offset));
  ::tanada::cuda::mapping_table &table = ::tanada::cuda::mapping_table::instance();
  std::lock_guard const lock{table.mutex};
  if (address != MAP_FAILED)
    table.handles[ptr] = handle;
  return ::tanada::cuda::mapped_or_not(address);
}
inline CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  void *const address = mmap(reinterpret_cast<void *>(ptr),
                             size,
                             PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                             -1,
                             0);
  ::tanada::cuda::mapping_table &table = ::tanada::cuda::mapping_table::instance();
  std::lock_guard const lock{table.mutex};
  table.handles.erase(ptr);
  return ::tanada::cuda::mapped_or_not(address);
}
inline CUresult cuMemSetAccess(CUdeviceptr ptr,
                               size_t size,
                               const CUmemAccessDesc *access,
                               size_t) {
  int const protection = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                             ? PROT_READ | PROT_WRITE
                         : access->flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ
                                                                          : PROT_NONE;
  return mprotect(reinterpret_cast<void *>(ptr), size, protection) == 0 ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_INVALID_VALUE;
}
// Of the first address of a mapping. Released as any handle.
inline CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  ::tanada::cuda::mapping_table &table = ::tanada::cuda::mapping_table::instance();
  std::lock_guard const lock{table.mutex};
  auto const position = table.handles.find(reinterpret_cast<CUdeviceptr>(address));
  if (position == table.handles.end())
    return CUDA_ERROR_INVALID_VALUE;
  int const descriptor = dup(::tanada::cuda::descriptor_of(position->second));
  if (descriptor < 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = CUmemGenericAllocationHandle(descriptor) + 1;
  return CUDA_SUCCESS;
}
