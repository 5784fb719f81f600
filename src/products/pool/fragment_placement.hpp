// products/pool/fragment_placement.hpp: which servers of a cluster get the fragments of a group.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/wire/pool.hpp"

namespace tanada::pool {

/**
 * Chooses different servers for the fragments of one group, by weighted rendezvous hashing.
 *
 * The failure domains get as equally many of them as possible: with at least K + M domains, each
 * fragment is in another one. Clients place new fragments with it, and primaries those that they
 * have rebuilt.
 */
class fragment_placement {
 public:
  // The servers must outlive this.
  fragment_placement(const std::vector<wire::pool::stripe_server> &servers,
                     const wire::pool::striped_id &id,
                     uint64_t group);

  // The server has a fragment of the group, or cannot get one.
  void take(size_t server);
  void exclude(size_t server);

  // The best of the other servers, which is then taken. Draining servers are left out. Empty: no
  // server can have the fragment.
  std::optional<size_t> next();

 private:
  size_t count_in_domain(size_t server) const;

  const std::vector<wire::pool::stripe_server> &servers_;
  std::vector<size_t> ranked_;  // the best one first
  std::vector<uint8_t> is_excluded_;
  std::vector<size_t> members_;
};

// The position of a server in the order of a group's servers: of several servers that have the same
// fragment, the one with the least rank keeps it.
uint64_t fragment_rank(const std::string &address,
                       const wire::pool::striped_id &id,
                       uint64_t group);

}  // namespace tanada::pool
