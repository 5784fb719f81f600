// parts/absent.h: calls of NVSHMEM that are not available. A program that uses one does not
// compile, and the message has the reason. Not for direct inclusion.
#pragma once

namespace tanada::nvshmem {

template <class...>
inline constexpr bool is_available = false;

}  // namespace tanada::nvshmem

#define NVSHMEMX_ABSENT_(QUALIFIER, NAME, WHY)                                                 \
  template <class... Arguments>                                                                \
  QUALIFIER void *NAME(Arguments...) {                                                         \
    static_assert(tanada::nvshmem::is_available<Arguments...>, #NAME ": not available: " WHY); \
    return nullptr;                                                                            \
  }

NVSHMEMX_ABSENT_(NVSHMEM_BOTH_,
                 nvshmemx_mc_ptr,
                 "NVLink multicast is not used; store to each PE's nvshmem_ptr")
NVSHMEMX_ABSENT_(NVSHMEM_DEVICE_,
                 nvshmemx_qp_create,
                 "queue pairs of InfiniBand; kernels reach remote PEs through the host")

#undef NVSHMEMX_ABSENT_
