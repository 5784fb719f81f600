// seams/store/errno_status.hpp: errno as a status.
#pragma once

#include <cerrno>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::seams {

// The status of a failed call's errno; io when it has none. A quota reached is no_space.
inline status errno_status(int number) noexcept {
  if (number == EDQUOT)
    return status::no_space;
  return number > 0 && number < 256 ? status(-number) : status::io;
}

}  // namespace tanada::seams
