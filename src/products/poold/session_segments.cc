// products/poold/session_segments.cc: a session's requests from clients that map the pool's memory.
#include <algorithm>

#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr uint64_t reserve_size_max = uint64_t{16} << 30;  // bytes for one client

}  // namespace

status session::on_segment(std::span<const std::byte> body) {
  segment_request request;
  TND_TRY(decode(body, request));
  if (!shares_memory_)
    return status::not_supported;
  auto exported = service_.memory.export_segment(namespace_id_, request.segment, can_write_);
  if (!exported.ok())
    return exported.error();
  auto const &memory = exported.value();
  segment_reply const reply{memory.size, memory.file_offset, can_write_, memory.is_huge};
  send_reply(reply, {}, {}, memory.descriptor);
  return status::ok;
}

status session::on_reserve(std::span<const std::byte> body) {
  reserve_request request;
  TND_TRY(decode(body, request));
  TND_TRY(require_writer());
  if (!shares_memory_)
    return status::not_supported;
  send_reply(reserve_reply{
      service_.memory.reserve_segments(namespace_id_, std::min(request.size, reserve_size_max))});
  return status::ok;
}

}  // namespace tanada::poold
