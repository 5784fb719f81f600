// products/shmem/symmetric_size.hpp: the value of SHMEM_SYMMETRIC_SIZE.
#pragma once

#include <cstddef>

#include "core/base/result.hpp"

namespace tanada::shmem {

// Section 8: "20m", "3.1M", ".5g", "4096": bytes, rounded up.
// What follows the first letter of the unit is ignored.
// Otherwise as parse_size(). invalid; range past 2^48.
result<size_t> parse_symmetric_size(const char *text);

}  // namespace tanada::shmem
