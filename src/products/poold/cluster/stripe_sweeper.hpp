// products/poold/cluster/stripe_sweeper.hpp: removes stripes whose objects do not exist any more.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "products/poold/catalog.hpp"
#include "products/poold/cluster/peer_channels.hpp"
#include "products/poold/cluster/replication.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

/**
 * Removes garbage stripes of the partitions that this server is the primary of.
 *
 * It asks the primary of an object whether the object exists in any state, and removes the stripes
 * if not. That is safe at any later time, because an object that does not exist never exists again:
 * its id is given when it is created, before it has stripes. The sweeper asks when another server
 * has dropped an object, and about all objects now and then: a hint may be lost, and a client that
 * writes stripes may vanish.
 *
 * **Thread safety** One thread at a time.
 */
class stripe_sweeper {
 public:
  struct options {
    std::string address;  // of this server
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t period_ns = 5'000'000'000;  // between two searches of all stripes
    size_t page_size = 1000;             // stripes visited at a time
  };
  // The channels are progressed by their owner, and closed before this ends.
  stripe_sweeper(options settings, peer_channels &channels, replication &changes, catalog &objects);

  // Does what is possible, without waiting except for a connection. True: answers are outstanding.
  bool progress();

 private:
  using keys_by_namespace = std::map<std::string, std::vector<wire::pool::striped_id>>;

  void send_hints();
  void search();
  bool has_served_stripes(const striped_key &key);
  void ask(const std::string &namespace_name, std::vector<wire::pool::striped_id> ids);
  void finish_ask(const wire::pool::stripe_ids_request &request, const pool::reply &received);
  void remove_stripes(const striped_key &key);

  options const options_;
  peer_channels &channels_;
  replication &changes_;
  catalog &objects_;
  std::set<striped_key> outstanding_;  // objects that are asked about
  uint64_t search_ns_ = 0;             // when all stripes are searched next
};

}  // namespace tanada::poold
