// core/wire/status_code.hpp: statuses received from a peer.
#pragma once

#include <cstdint>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::wire {

// Converts a status from the wire; an unknown one becomes protocol.
status status_of(int32_t code);

}  // namespace tanada::wire
