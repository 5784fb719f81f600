// backends/libfabric/libfabric_status.cc: maps error numbers of libfabric to statuses.
#include "backends/libfabric/libfabric_status.hpp"

#include <rdma/fi_errno.h>

namespace tanada::backends {

status libfabric_status(int error) noexcept {
  switch (error) {
    case 0:
      return status::ok;
    case FI_EAGAIN:
      return status::again;
    case FI_ENOMEM:
      return status::no_memory;
    case FI_EINVAL:
    case FI_EBADFLAGS:
      return status::invalid;
    case FI_EACCES:
    case FI_EPERM:
    case FI_ENOKEY:
    case FI_EKEYREJECTED:
      return status::access;
    case FI_ETRUNC:
    case FI_EMSGSIZE:
    case FI_ETOOSMALL:
    case FI_EOVERRUN:
      return status::overflow;
    case FI_ECANCELED:
      return status::canceled;
    case FI_EOPNOTSUPP:
    case FI_ENOSYS:
    case FI_ENODATA:
      return status::not_supported;
    case FI_EBUSY:
      return status::busy;
    case FI_ENOSPC:
      return status::no_space;
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ENETDOWN:
    case FI_ENETUNREACH:
    case FI_EREMOTEIO:
    case FI_ETIMEDOUT:
      return status::peer_lost;
    default:
      return status::io;
  }
}

status libfabric_completion_status(int error, int provider_error, bool verbs) noexcept {
  // Values of ibv_wc_status, which libfabric maps to EIO.
  constexpr int wc_flushed = 5, wc_remote_access = 10, wc_remote_operation = 11,
                wc_retries_exceeded = 12;
  if (verbs) {
    switch (provider_error) {
      case wc_remote_access:
        return status::access;
      case wc_flushed:
      case wc_remote_operation:
      case wc_retries_exceeded:
        return status::peer_lost;
      default:
        break;
    }
  }
  // In a completion: the target does not know the key, or part of the range is outside the region.
  if (error == FI_ENOENT || error == FI_EFAULT)
    return status::access;
  return libfabric_status(error);
}

}  // namespace tanada::backends
