// How a client of a cluster notices that its server is not the namespace's primary any more, and
// which requests it then repeats.
#include <algorithm>

#include "products/pool/client/client.hpp"

namespace tanada::pool {

using namespace wire::pool;

namespace {

constexpr uint64_t watch_period_ns = 2'000'000'000;
constexpr uint64_t locate_timeout_ns = 1'000'000'000;  // of one server
constexpr int locate_count_max = 3;                    // servers that are asked at a time

}  // namespace

// Whether it may be repeated although it may have been carried out: it only reads, or what it has
// made has ended with the connection.
bool client::is_repeatable(kind message_kind) {
  switch (message_kind) {
    case kind::create:
    case kind::create_striped:
    case kind::open:
    case kind::get:
    case kind::stat:
    case kind::list:
    case kind::namespaces:
    case kind::statistics:
    case kind::cluster_status:
    case kind::stripe_places:
    case kind::fragment_places:
      return true;
    default:
      return false;
  }
}

bool client::may_repeat(kind message_kind, status code, bool has_handle) {
  if (!is_cluster() || has_handle)
    return false;
  // A set that is not complete is the caller's matter.
  bool const is_elsewhere =
      code == status::stale || (code == status::again && message_kind != kind::set_commit);
  // Only one client puts a stripe, always with the same bytes.
  bool const is_stripe = message_kind == kind::put && is_hidden_namespace(daemon_.space);
  bool const is_lost = code == status::peer_lost && (is_repeatable(message_kind) || is_stripe);
  if (!is_elsewhere && !is_lost)
    return false;
  if (is_elsewhere)
    drop_connection();
  if (code == status::again)
    clock().sleep_ns(cluster_retry_ns);
  return true;
}

// A server ends the connections of a namespace that it gives to another one, and those of a server
// that is killed end too. A change that is sent there has no known outcome, although nobody
// received it.
void client::notice_end() {
  if (is_cluster() && channel_ != nullptr && !channel_->is_broken() && channel_->is_idle())
    (void)channel_->progress(0);
}

void client::begin_watch() {
  if (is_cluster())
    watch_ns_ = clock().now_ns() + watch_period_ns;
}

status client::progress_watched(uint64_t deadline_ns) {
  TND_ASSERT(channel_ != nullptr);
  if (!is_cluster() || deadline_ns == 0)
    return channel_->progress(deadline_ns);
  status const code = channel_->progress(std::min(deadline_ns, watch_ns_));
  uint64_t const now_ns = clock().now_ns();
  bool const is_waiting = code == status::ok || code == status::timed_out;
  if (!is_waiting || now_ns < watch_ns_)
    return code;
  bool const is_over = is_replaced();
  watch_ns_ = clock().now_ns() + watch_period_ns;
  if (is_over) {
    channel_->end(status::peer_lost);
    return fail(status::peer_lost,
                "pool at {}: it did not answer, and another server serves the namespace now",
                channel_->connection().peer());
  }
  return now_ns < deadline_ns ? status::ok : code;
}

// Asks other servers. A server that knows only an older map is cut off itself.
bool client::is_replaced() {
  if (primary_.empty())
    return false;
  auto const primary = place_parse(primary_);
  if (!primary.ok())
    return false;
  int count = 0;
  for (const server_place &server : places_) {
    if (server == primary.value() || count++ == locate_count_max)
      continue;
    uint64_t const deadline_ns = clock().now_ns() + locate_timeout_ns;
    auto connection = dial_remote(server, deadline_ns);
    if (!connection.ok())
      continue;
    auto const location =
        channel::locate(std::move(connection).value(), daemon_.space, deadline_ns);
    bool const is_newer = location.ok() && location.value().epoch > map_epoch_;
    if (is_newer && !location.value().servers.empty())
      return is_to_backup_ || location.value().servers.front().text != primary_;
  }
  return false;
}

}  // namespace tanada::pool
