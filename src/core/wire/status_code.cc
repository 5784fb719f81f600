// Validates statuses received from a peer.
#include "core/wire/status_code.hpp"

namespace tanada::wire {

status status_of(int32_t code) {
  switch (status const known = status(code); known) {
    case status::ok:
    case status::not_permitted:
    case status::no_entry:
    case status::interrupted:
    case status::io:
    case status::bad_file:
    case status::again:
    case status::no_memory:
    case status::access:
    case status::fault:
    case status::busy:
    case status::exists:
    case status::no_device:
    case status::is_directory:
    case status::invalid:
    case status::too_many_files:
    case status::too_big:
    case status::no_space:
    case status::read_only:
    case status::range:
    case status::name_too_long:
    case status::not_implemented:
    case status::overflow:
    case status::protocol:
    case status::not_supported:
    case status::timed_out:
    case status::stale:
    case status::canceled:
    case status::corrupt:
    case status::peer_lost:
    case status::device_lost:
    case status::no_plugin:
    case status::bad_state:
      return known;
  }
  return status::protocol;
}

}  // namespace tanada::wire
