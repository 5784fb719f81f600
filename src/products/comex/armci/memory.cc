// products/comex/armci/memory.cc: collective and local memory allocation.
#include "products/comex/armci/define.hpp"
#include "products/comex/armci/state.hpp"

using namespace tanada::comex::armci;

namespace {

int allocate(const char *call, void **pointers, armci_size_t size, comex_group_t group) {
  if (size < 0)
    fatal(call,
          "the size is negative: {} bytes",
          size);  // no status: the other ranks wait for this one
  return comex_malloc(pointers, size_t(size), group);
}

int allocate_on(
    const char *call, void **pointers, armci_size_t size, comex_group_t group, const char *device) {
  if (size < 0)
    fatal(call, "the size is negative: {} bytes", size);
  return comex_malloc_mem_dev(pointers, size_t(size), group, device);
}

}  // namespace

ARMCI_DEFINE(int, ARMCI_Malloc, (void *ptr_arr[], armci_size_t bytes), {
  return allocate(call, ptr_arr, bytes, running(call).default_group);
})

ARMCI_DEFINE(int, ARMCI_Malloc_memdev, (void *ptr_arr[], armci_size_t bytes, const char *device), {
  return allocate_on(call, ptr_arr, bytes, running(call).default_group, device);
})

ARMCI_DEFINE_PLAIN(int,
                   ARMCI_Malloc_group,
                   (void *ptr_arr[], armci_size_t bytes, ARMCI_Group *group),
                   { return allocate(call, ptr_arr, bytes, group_from(call, group)); })

ARMCI_DEFINE_PLAIN(int,
                   ARMCI_Malloc_group_memdev,
                   (void *ptr_arr[], armci_size_t bytes, ARMCI_Group *group, const char *device),
                   { return allocate_on(call, ptr_arr, bytes, group_from(call, group), device); })

ARMCI_DEFINE(int, ARMCI_Free, (void *ptr), { return comex_free(ptr, running(call).default_group); })

ARMCI_DEFINE(int, ARMCI_Free_memdev, (void *ptr), {
  return comex_free_dev(ptr, running(call).default_group);
})

ARMCI_DEFINE_PLAIN(int, ARMCI_Free_group, (void *ptr, ARMCI_Group *group), {
  return comex_free(ptr, group_from(call, group));
})

ARMCI_DEFINE(void *, ARMCI_Malloc_local, (armci_size_t bytes), {
  if (bytes < 0) {
    report_error(call, "the size is negative: {} bytes", bytes);
    return nullptr;
  }
  return comex_malloc_local(size_t(bytes));
})

ARMCI_DEFINE(int, ARMCI_Free_local, (void *ptr), { return comex_free_local(ptr); })

ARMCI_DEFINE(void, ARMCI_Memget, (size_t bytes, armci_meminfo_t *meminfo, int memflg), {
  auto const &self = running(call);
  if (bytes == 0 || meminfo == nullptr || memflg != 0) {
    fatal(call,
          "{} bytes, information at {}, flag {}: must be positive, not null, and 0",
          bytes,
          static_cast<void *>(meminfo),
          memflg);
  }
  auto *const memory = static_cast<char *>(comex_malloc_local(bytes));
  if (memory == nullptr)
    fatal(call, "insufficient memory for {} bytes", bytes);
  *meminfo = {memory, memory, bytes, self.me, {}};
})

ARMCI_DEFINE(void *, ARMCI_Memat, (armci_meminfo_t * meminfo, long offset), {
  if (meminfo == nullptr)
    fatal(call, "the information is a null pointer");
  if (meminfo->addr == nullptr)
    return nullptr;
  if (offset < 0 || size_t(offset) > meminfo->size)
    fatal(call, "offset {} is outside of {} bytes", offset, meminfo->size);
  return meminfo->addr + offset;
})

ARMCI_DEFINE(void,
             ARMCI_Memdt,
             ([[maybe_unused]] armci_meminfo_t * meminfo, [[maybe_unused]] long offset),
             {})

ARMCI_DEFINE(void, ARMCI_Memctl, (armci_meminfo_t * meminfo), {
  if (meminfo == nullptr)
    fatal(call, "the information is a null pointer");
  // Only the allocating rank can free it.
  bool const is_own = meminfo->cpid == running(call).me && meminfo->addr != nullptr;
  if (is_own)
    require_ok(call, "comex_free_local", comex_free_local(meminfo->addr));
  meminfo->addr = nullptr;
  meminfo->armci_addr = nullptr;
})
