#include "core/wire/o2g.hpp"

namespace tanada::wire::o2g {

namespace {

// An atomic's operands and compared values are bounded by products/o2g/atomic.hpp; here only what
// every receiver may refuse.
constexpr uint64_t atomic_size_max = 1 << 16;

uint64_t size_max(kind what) {
  switch (what) {
    case kind::hello:
    case kind::welcome:
    case kind::refuse: return hello_size_max;
    case kind::message:
    case kind::announce:
    case kind::pull:
    case kind::body:
    case kind::put:
    case kind::get:
    case kind::got: return message_size_max;
    case kind::atomic:
    case kind::fetched: return atomic_size_max;
    case kind::ack:
    case kind::room:
    case kind::bye:
    case kind::ending: return 0;
  }
  return 0;
}

}  // namespace

status envelope_check(const envelope &head) {
  bool const known = head.mark == envelope_mark && head.what >= 1 && head.what <= kind_last &&
                     (head.flags & ~flags_all) == 0 && head.reserved == 0;
  return known && head.size <= size_max(kind(head.what)) ? status::ok : status::protocol;
}

uint64_t following_size(const envelope &head) {
  auto const what = kind(head.what);
  return what == kind::announce || what == kind::pull || what == kind::get ? 0 : head.size;
}

}  // namespace tanada::wire::o2g
