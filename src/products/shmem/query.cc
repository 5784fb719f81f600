// Queries of PEs, addresses and names.
#include <cstring>

#include "products/shmem/access.hpp"

namespace tanada::shmem {
namespace {

onesided::symmetric_address place_of(const runtime &current, const void *addr, int pe) {
  auto const &map = current.job->map();
  return map.is_pe(pe) ? map.locate(addr, 1, pe) : onesided::symmetric_address{};
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

SHMEM_DEFINE(int, shmem_my_pe, (void), { return require_running(call).job->me(); })
SHMEM_DEFINE(int, shmem_n_pes, (void), { return require_running(call).job->count(); })
SHMEM_DEFINE(int, _my_pe, (void), { return require_running(call).job->me(); })
SHMEM_DEFINE(int, _num_pes, (void), { return require_running(call).job->count(); })

SHMEM_DEFINE(void *, shmem_ptr, (const void *dest, int pe), {
  return mapped_address(place_of(require_running(call), dest, pe), pe);
})
SHMEM_DEFINE(int, shmem_pe_accessible, (int pe), {
  return require_running(call).job->map().is_pe(pe) ? 1 : 0;
})
SHMEM_DEFINE(int, shmem_addr_accessible, (const void *addr, int pe), {
  return place_of(require_running(call), addr, pe).segment_ptr != nullptr ? 1 : 0;
})

SHMEM_DEFINE(void, shmem_info_get_version, (int *major, int *minor), {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
})
SHMEM_DEFINE(void, shmem_info_get_name, (char *name), {
  static_assert(sizeof SHMEM_VENDOR_STRING <= SHMEM_MAX_NAME_LEN);
  std::memcpy(name, SHMEM_VENDOR_STRING, sizeof SHMEM_VENDOR_STRING);
})

// For profiling libraries; this library has nothing to control (10.2).
SHMEM_DEFINE(void, shmem_pcontrol, (int, ...), {})
