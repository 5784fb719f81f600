// products/poold/cluster/stripe_sweeper.hpp: removes stripes whose objects do not exist any more.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "products/pool/client/channel.hpp"
#include "products/poold/catalog.hpp"
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
    std::optional<pool::key> key;
    // Connects to a server. Blocks at most until the deadline (absolute, monotonic_clock).
    std::function<result<std::unique_ptr<seams::stream>>(const std::string &address,
                                                         uint64_t deadline_ns)>
        dial;
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t period_ns = 5'000'000'000;  // between two searches of all stripes
    size_t page_size = 1000;             // stripes visited at a time
    uint64_t connect_timeout_ns = 1'000'000'000;
  };
  stripe_sweeper(options settings, replication &changes, catalog &objects);
  ~stripe_sweeper();

  // Does what is possible, without waiting except for a connection. True: answers are outstanding.
  bool progress();

 private:
  struct peer {
    std::unique_ptr<pool::channel> channel;
    uint64_t retry_ns = 0;
  };
  using keys_by_namespace = std::map<std::string, std::vector<wire::pool::striped_id>>;

  void progress_peers();
  pool::channel *channel_to(const std::string &address);
  void send_hints();
  void search();
  bool has_served_stripes(const striped_key &key);
  void ask(const std::string &namespace_name, std::vector<wire::pool::striped_id> ids);
  void finish_ask(const wire::pool::stripe_ids_request &request, const pool::reply &received);
  void remove_stripes(const striped_key &key);

  options const options_;
  replication &changes_;
  catalog &objects_;
  std::map<std::string, peer> peers_;  // by address
  std::set<striped_key> outstanding_;  // objects that are asked about
  uint64_t search_ns_ = 0;             // when all stripes are searched next
  bool is_ending_ = false;
};

}  // namespace tanada::poold
