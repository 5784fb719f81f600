// products/poold/session_segments.cc: what a session does for clients that map the pool's memory.
#include <algorithm>

#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr uint64_t reserve_size_max = uint64_t{16} << 30;  // bytes for one client

}  // namespace

status session::on_segment(std::span<const std::byte> body) {
  segment_request in;
  TND_TRY(decode(body, in));
  if (!shares_memory_)
    return status::not_supported;
  auto lent = with_.memory.lend(space_id_, in.segment, can_write_);
  if (!lent.ok())
    return lent.error();
  auto const &memory = lent.value();
  segment_reply const out{memory.size, memory.file_offset, can_write_, memory.is_huge};
  answer(out, {}, {}, memory.descriptor);
  return status::ok;
}

status session::on_reserve(std::span<const std::byte> body) {
  reserve_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  if (!shares_memory_)
    return status::not_supported;
  answer(
      reserve_reply{with_.memory.reserve_segments(space_id_, std::min(in.size, reserve_size_max))});
  return status::ok;
}

}  // namespace tanada::poold
