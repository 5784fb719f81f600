// Checks of envelopes of the o2g protocol.
#include "core/wire/o2g.hpp"

namespace tanada::wire::o2g {

namespace {

// The limit that any receiver can check. products/o2g/atomic.hpp limits operands and compared
// values further.
constexpr uint64_t atomic_size_max = 1 << 16;

uint64_t size_max(kind message_kind) {
  switch (message_kind) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse:
      return hello_size_max;
    case kind::message:
    case kind::announce:
    case kind::pull:
    case kind::body:
    case kind::put:
    case kind::get:
    case kind::get_reply:
      return message_size_max;
    case kind::atomic:
    case kind::fetch_reply:
      return atomic_size_max;
    case kind::ack:
    case kind::credit:
    case kind::goodbye:
    case kind::failure:
      return 0;
  }
  return 0;
}

}  // namespace

status envelope_check(const envelope &head) {
  bool const known = head.mark == envelope_mark && head.kind >= 1 && head.kind <= kind_last &&
                     (head.flags & ~flags_all) == 0 && head.reserved == 0;
  return known && head.size <= size_max(kind(head.kind)) ? status::ok : status::protocol;
}

uint64_t following_size(const envelope &head) {
  auto const message_kind = kind(head.kind);
  return message_kind == kind::announce || message_kind == kind::pull || message_kind == kind::get
             ? 0
             : head.size;
}

}  // namespace tanada::wire::o2g
