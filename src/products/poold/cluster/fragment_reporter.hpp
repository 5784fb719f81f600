// products/poold/cluster/fragment_reporter.hpp: reports the fragments that this server has to the
// primaries of their objects, and removes those that are not needed.
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "products/poold/catalog.hpp"
#include "products/poold/cluster/peer_channels.hpp"
#include "products/poold/cluster/replication.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

/**
 * Each period, it reports all fragments, and compares the checksums of some of them.
 *
 * A fragment that its primary does not want is removed: its object will never exist again, or
 * another server has the fragment, too. So is one whose bytes have changed. Then the primary lets
 * another server rebuild it.
 *
 * **Thread safety** One thread at a time. held_count() by any.
 */
class fragment_reporter {
 public:
  struct options {
    seams::clock *clock = &seams::monotonic_clock();
    uint64_t period_ns = 5'000'000'000;
    size_t page_size = 1000;         // fragments visited at a time
    uint64_t check_size = 64 << 20;  // bytes that are compared with their checksums in a period
  };
  // The channels are progressed by their owner, and closed before this ends.
  fragment_reporter(options settings,
                    peer_channels &channels,
                    replication &changes,
                    catalog &objects);

  // Does what is possible, without waiting except for a connection. True: answers are outstanding.
  bool progress();

  uint32_t held_count() const noexcept {
    return held_count_.load(std::memory_order_relaxed);
  }

 private:
  void search();
  void send(const std::string &namespace_name, std::vector<wire::pool::fragment_entry> entries);
  void finish_report(const wire::pool::fragment_report_request &request,
                     const pool::reply &received);
  void remove(const catalog::object_place &place);
  void check_some();

  options const options_;
  peer_channels &channels_;
  replication &changes_;
  catalog &objects_;
  uint64_t search_ns_ = 0;         // when the next report is due
  size_t outstanding_count_ = 0;   // requests
  catalog::object_place checked_;  // the last fragment whose checksum was compared
  std::atomic<uint32_t> held_count_{0};
};

}  // namespace tanada::poold
