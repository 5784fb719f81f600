// products/poold/cluster/fragment_repairer.hpp: has fragments rebuilt that the objects of this
// server lack.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "products/poold/catalog.hpp"
#include "products/poold/cluster/fragment_directory.hpp"
#include "products/poold/cluster/peer_channels.hpp"
#include "products/poold/cluster/replication.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

/**
 * Each period, and when servers come or go, it looks for fragments of the served objects that no
 * server has, or only servers that are draining. It asks another server to build each of them.
 *
 * A new primary first waits until the other servers have reported what they have.
 *
 * **Thread safety** One thread at a time. missing_count() by any.
 */
class fragment_repairer {
 public:
  struct options {
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t period_ns = 5'000'000'000;
    size_t page_size = 1000;      // objects visited at a time
    size_t build_count_max = 16;  // fragments that are being built
  };
  // The channels are progressed by their owner, and closed before this ends.
  fragment_repairer(options settings,
                    peer_channels &channels,
                    replication &changes,
                    catalog &objects);

  // Does what is possible, without waiting except for a connection. True: answers are outstanding.
  bool progress();

  // Fragments that no server has.
  uint32_t missing_count() const noexcept {
    return missing_count_.load(std::memory_order_relaxed);
  }

 private:
  struct gap {
    striped_key key;
    std::weak_ptr<object> head;  // a reference would keep the object in the ledger
    uint32_t index = 0;
  };
  // Of a fragment that is being built.
  using build_key = std::pair<striped_key, uint32_t>;
  struct build_entry {
    std::string server;  // which builds it
    uint64_t group = 0;
  };

  bool is_search_due();
  void search();
  void search_object(const striped_key &key, const object_ref &head);
  bool knows_reports(const std::string &namespace_name);
  // False: it has to wait for a server that builds others.
  bool build(const gap &wanted);
  // Servers by the fragments of a group that they have.
  using holders = std::multimap<uint32_t, std::string>;
  std::optional<wire::pool::fragment_build_request> make_request(
      const gap &wanted, const wire::pool::stripe_manifest &manifest, server_presence &target);
  std::vector<wire::pool::fragment_source> choose_sources(const gap &wanted,
                                                          const holders &present,
                                                          size_t count) const;
  std::optional<server_presence> choose_target(const gap &wanted,
                                               uint64_t group,
                                               const holders &present) const;
  bool has_fragment(const gap &wanted,
                    uint64_t group,
                    const holders &present,
                    const std::string &name) const;
  void finish_build(const build_key &built, const replica &target, status code);

  options const options_;
  peer_channels &channels_;
  replication &changes_;
  catalog &objects_;
  uint64_t search_ns_ = 0;                // when the next search is due
  std::vector<server_presence> servers_;  // at the last search
  // When this server began to serve a partition, and in which term.
  std::array<std::pair<uint64_t, uint64_t>, partition_count> served_{};
  std::deque<gap> gaps_;
  std::map<build_key, build_entry> builds_;
  std::atomic<uint32_t> missing_count_{0};
};

}  // namespace tanada::poold
