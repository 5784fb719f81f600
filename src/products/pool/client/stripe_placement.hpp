// products/pool/client/stripe_placement.hpp: which servers of a cluster get the stripes of an
// object.
#pragma once

#include <string>
#include <vector>

#include "core/wire/pool.hpp"

namespace tanada::pool {

/**
 * Gives each server stripes in proportion to its weight. A server's stripes lie in few of its
 * partitions, which depend on the namespace only, so that clients need few connections, and whose
 * other copies lie on different servers.
 */
class stripe_placement {
 public:
  // `start`: the first stripes of objects with different ones go to different servers.
  stripe_placement(const wire::pool::stripe_places_reply &places,
                   const std::string &namespace_name,
                   uint64_t start);

  // No server can take stripes now.
  bool is_empty() const noexcept {
    return servers_.empty();
  }

  // For an object of this size: all servers get the same number of stripes, if they can.
  uint64_t stripe_size(uint64_t object_size) const;

  // The partition of the next stripe.
  uint8_t next();

  // "host:port" of the server that served the partition; empty: not known.
  std::string address_of(uint8_t partition) const;

 private:
  struct server {
    std::string address;
    uint64_t weight = 1;
    std::vector<uint8_t> partitions;
    uint64_t stripe_count = 0;
  };
  std::vector<server> servers_;  // in the order of their first stripes
  uint64_t stripe_size_max_;
};

}  // namespace tanada::pool
