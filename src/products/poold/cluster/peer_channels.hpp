// products/poold/cluster/peer_channels.hpp: connections to the cluster's other servers, for
// requests that belong to no partition's link.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "products/pool/client/channel.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

// **Thread safety** One thread at a time.
class peer_channels {
 public:
  struct options {
    std::optional<pool::key> key;
    // Connects to a server. Blocks at most until the deadline (absolute, monotonic_clock).
    std::function<result<std::unique_ptr<seams::stream>>(const std::string &address,
                                                         uint64_t deadline_ns)>
        dial;
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t connect_timeout_ns = 1'000'000'000;
    // Of the protocol that the cluster uses.
    std::function<uint32_t()> version = [] {
      return wire::pool::protocol_version;
    };
  };
  explicit peer_channels(options settings);

  // Sends and receives what is possible without waiting. Handlers of broken connections are called.
  void progress();

  // Null: the server cannot be reached now. It may wait for a connection.
  pool::channel *channel_to(const std::string &address);

  // Ends all connections. Handlers of outstanding requests are called.
  void close();

 private:
  struct peer {
    std::unique_ptr<pool::channel> channel;
    uint64_t retry_ns = 0;
  };

  options const options_;
  std::map<std::string, peer> peers_;  // by address
};

}  // namespace tanada::poold
