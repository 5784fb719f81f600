// Checks of operations that all stores share.
#include "seams/store/store_op_check.hpp"

#include "core/base/log.hpp"
#include "seams/store/store_url.hpp"

namespace tanada::seams {
namespace {

status url_check(const store_op &op, std::string_view scheme) {
  auto parsed = url_scheme(op.url);
  if (!parsed.ok())
    return parsed.error();
  if (parsed.value() != scheme) {
    return fail(status::invalid, "{}: not a URL of the store {}", op.url, scheme);
  }
  if (op.url.find('\0') != std::string::npos)
    return fail(status::invalid, "a URL with a NUL character in it");
  return status::ok;
}

status flags_check(store_open_flags flags) {
  if (!flags.read && !flags.write)
    return fail(status::invalid, "open requests neither read nor write");
  if ((flags.create || flags.truncate) && !flags.write) {
    return fail(status::invalid, "open requests create or truncate without write");
  }
  if (flags.exclusive && !flags.create)
    return fail(status::invalid, "open requests exclusive without create");
  return status::ok;
}

status range_check(const store_op &op) {
  uint64_t size = 0;
  for (const auto &buffer : op.buffers) {
    if (buffer.addr == nullptr && buffer.size != 0)
      return fail(status::invalid, "a NULL buffer");
    if (buffer.size > store_size_max - size)
      return fail(status::invalid, "buffers of more than 2^62 bytes");
    size += buffer.size;
  }
  if (op.offset > store_size_max - size)
    return fail(status::invalid, "a range that ends past 2^62 bytes");
  return status::ok;
}

}  // namespace

status op_check(const store_op &op, std::string_view scheme) {
  switch (op.kind) {
    case store_op_kind::open:
      TND_TRY(url_check(op, scheme));
      TND_TRY(range_check(op));
      return flags_check(op.open_flags);
    case store_op_kind::unlink:
    case store_op_kind::sync_names:
    case store_op_kind::list:
      return url_check(op, scheme);
    case store_op_kind::read:
    case store_op_kind::write:
      return range_check(op);
    case store_op_kind::truncate:
      return op.size <= store_size_max ? status::ok
                                       : fail(status::invalid, "truncate to more than 2^62 bytes");
    case store_op_kind::close:
    case store_op_kind::stat:
    case store_op_kind::sync:
      return status::ok;
  }
  return fail(status::invalid, "operation kind {} is not known", int(op.kind));
}

uint64_t buffers_size(std::span<const store_buffer> buffers) noexcept {
  uint64_t size = 0;
  for (const auto &buffer : buffers)
    size += buffer.size;
  return size;
}

status queue_depth_check(uint32_t depth) {
  if (depth >= 1 && depth <= store_queue_depth_max)
    return status::ok;
  return fail(status::invalid, "queue depth {}: 1 to {} is possible", depth, store_queue_depth_max);
}

std::string_view listed_name(std::string_view name, std::string_view prefix) noexcept {
  if (!name.starts_with(prefix))
    return {};
  size_t const slash = name.find('/', prefix.size());
  return slash == std::string_view::npos ? name : name.substr(0, slash + 1);
}

}  // namespace tanada::seams
