// products/o2g/calls/receive_service.cc: checks of entries that every implementation makes.
#include "products/o2g/calls/receive_service.hpp"

#include "core/base/log.hpp"

namespace tanada::o2g::calls {

namespace {

bool has_valid_pattern(const queue_entry &entry) {
  return entry.struct_size >= sizeof(queue_entry) && entry.source >= O2G_ANY_SOURCE &&
         entry.tag >= O2G_ANY_TAG;
}

}  // namespace

status check_expected(const queue_entry &entry, uint32_t flags) {
  bool const is_in_flight =
      (flags & O2G_QUEUED) != 0 || ((flags & O2G_MATCHED) != 0 && !is_done(flags));
  if (!has_valid_pattern(entry) || is_in_flight || (flags & O2G_UNEXPECTED) != 0 ||
      (entry.data == nullptr && entry.size != 0))
    return fail(status::invalid,
                "invalid entry: flags {:#x}, source {}, tag {}",
                flags,
                entry.source,
                entry.tag);
  return status::ok;
}

status check_pattern(const queue_entry &entry) {
  if (!has_valid_pattern(entry))
    return fail(status::invalid, "invalid pattern: source {}, tag {}", entry.source, entry.tag);
  return status::ok;
}

}  // namespace tanada::o2g::calls
