// products/poold/session_ring.cc: a session whose connection moves from its UNIX socket to rings in
// shared memory.
#include "core/base/log.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

// The client sends nothing more before the reply, which is the last one over the socket.
status session::on_ring(std::span<const std::byte> body) {
  empty_message request;
  TND_TRY(decode(body, request));
  if (!connection_->is_local() || service_.limits.ring_poll_ns == 0)
    return status::not_supported;
  if (rings_.memory != nullptr)
    return status::exists;
  auto const user = connection_->peer_user();
  auto share = service_.rings.acquire(key_ != nullptr ? "key " + key_id_
                                                      : "user " + std::to_string(user.value_or(0)));
  // Nothing is logged, because the client continues with the socket.
  if (share == nullptr) {
    set_last_message("all rings that the pool's size permits are in use");
    return status::busy;
  }
  auto created = backends::ring_memory::create();
  if (!created.ok())
    return created.error();
  rings_.share = std::move(share);
  rings_.memory = std::move(created.value().memory);
  send_reply(ring_reply{backends::ring_memory::size}, {}, {}, created.value().file.release());
  return status::ok;
}

void session::enter_rings() {
  TND_ASSERT(rings_.memory != nullptr && rings_.stream == nullptr && output_.empty());
  auto stream = std::make_unique<backends::ring_stream>(
      std::move(connection_),
      rings_.memory,
      backends::ring_settings{.side = backends::ring_side::creator});
  rings_.stream = stream.get();
  connection_ = std::move(stream);
}

}  // namespace tanada::poold
