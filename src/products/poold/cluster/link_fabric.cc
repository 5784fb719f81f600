#include "products/poold/cluster/link_fabric.hpp"

#include <tanada/status.h>

#include "core/base/log.hpp"

namespace tanada::poold {

using namespace wire::pool;

namespace {

// Send a request, and wait for its reply.
template <class Message, class Reply>
status call(pool::channel &connection,
            kind request,
            const Message &message,
            Reply &answer,
            uint64_t deadline_ns) {
  bool is_answered = false;
  status code = status::ok;
  uint64_t const tag = connection.post(request, message, {}, {}, [&](const pool::reply &received) {
    is_answered = true;
    code = received.code == status::ok ? wire::decode(received.body, answer) : received.code;
  });
  while (!is_answered) {
    status const progressed = connection.progress(deadline_ns);
    if (progressed == status::ok || is_answered)
      continue;
    (void)connection.abandon(tag);
    return progressed;
  }
  return code;
}

}  // namespace

result<std::unique_ptr<link_fabric>> link_fabric::join(pool::channel &connection,
                                                       const seams::fabric_request &request,
                                                       uint64_t deadline_ns) {
  auto opened = pool::fabric_link::open(request);
  if (!opened.ok())
    return opened.error();
  std::unique_ptr<link_fabric> joined{new link_fabric{std::move(opened).value()}};
  wire::pool::fabric_request claim;
  claim.provider = request.provider;
  claim.address = joined->self_->address();
  fabric_reply challenge;
  TND_TRY(call(connection, kind::fabric, claim, challenge, deadline_ns));
  auto const secret = joined->self_->await_secret(challenge.tag, deadline_ns);
  if (!secret.ok())
    return secret.error();
  empty_message proven;
  TND_TRY(call(connection, kind::fabric_proof, fabric_proof{secret.value()}, proven, deadline_ns));
  return joined;
}

std::shared_ptr<link_fabric::exposure> link_fabric::expose(std::span<const iovec> parts) {
  if (is_refused_ || parts.empty() || parts.size() > exposed_part_count_max)
    return nullptr;
  auto exposed = std::make_shared<exposure>(*this);
  for (const iovec &part : parts) {
    auto const region =
        self_->acquire_region(static_cast<std::byte *>(part.iov_base), part.iov_len, false, true);
    if (!region.ok()) {
      is_refused_ = true;
      log(log_level::warning,
          "pool: memory cannot be registered with the fabric ({}): copies go to the other server "
          "by TCP",
          last_message());
      return nullptr;
    }
    auto const &[remote, offset, id] = region.value();
    exposed->regions_.push_back(region.value());
    exposed->parts_.push_back({remote.base, remote.key, remote.size, offset, part.iov_len});
  }
  return exposed;
}

void link_fabric::exposure::end() {
  for (const pool::fabric_link::region_use &region : regions_)
    owner_->release_region(region);
  regions_.clear();
  owner_.reset();
}

}  // namespace tanada::poold
