// core/wire/status_code.hpp: statuses that come from outside.
#pragma once

#include <cstdint>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::wire {

// A status from the wire: one that we do not know is protocol.
status status_of(int32_t code);

}  // namespace tanada::wire
