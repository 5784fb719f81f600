// Connections to the cluster's other servers.
#include "products/poold/cluster/peer_channels.hpp"

#include <utility>

#include "core/base/assert.hpp"

namespace tanada::poold {

namespace {

constexpr uint64_t reconnect_ns = 500'000'000;

}  // namespace

peer_channels::peer_channels(options settings) : options_{std::move(settings)} {
  TND_ASSERT(options_.dial && options_.version);
}

void peer_channels::progress() {
  for (auto &[address, entry] : peers_) {
    if (entry.channel == nullptr)
      continue;
    (void)entry.channel->progress(0);
    if (entry.channel->is_broken())
      entry.channel.reset();
  }
}

pool::channel *peer_channels::channel_to(const std::string &address) {
  peer &entry = peers_[address];
  uint64_t const now_ns = options_.clock->now_ns();
  if (entry.channel != nullptr || now_ns < entry.retry_ns)
    return entry.channel.get();
  entry.retry_ns = now_ns + reconnect_ns;
  uint64_t const deadline_ns =
      seams::deadline_after(seams::monotonic_clock().now_ns(), options_.connect_timeout_ns);
  auto connection = options_.dial(address, deadline_ns);
  if (!connection.ok())
    return nullptr;
  auto opened = pool::channel::open(std::move(connection).value(),
                                    {},
                                    options_.key ? &*options_.key : nullptr,
                                    deadline_ns,
                                    false,
                                    options_.version());
  if (opened.ok())
    entry.channel = std::move(opened).value();
  return entry.channel.get();
}

void peer_channels::close() {
  peers_.clear();
}

}  // namespace tanada::poold
