// products/shmem/symmetric_size.hpp: parsing the value of SHMEM_SYMMETRIC_SIZE.
#pragma once

#include <cstddef>

#include "core/base/result.hpp"

namespace tanada::shmem {

// Parses a size as in section 8, such as "20m", "3.1M", ".5g" or "4096". Returns bytes, rounded up.
// Anything after the first letter of the unit is ignored; otherwise as parse_size(). invalid:
// malformed. range: 2^48 or more.
result<size_t> parse_symmetric_size(const char *text);

}  // namespace tanada::shmem
