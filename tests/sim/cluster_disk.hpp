// tests/sim/cluster_disk.hpp: the disk of a simulated cluster's server, with its faults.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "products/poold/durable.hpp"
#include "sim/store.hpp"
#include "sim/world.hpp"

namespace tanada::test {

inline constexpr uint64_t ms = 1'000'000;  // in nanoseconds

/**
 * Keeps a server's log and its identity from one run to the next. Bytes that are not synced may be
 * lost when the power fails.
 */
class cluster_disk {
 public:
  // With `is_tiered`, objects may leave memory for the log.
  cluster_disk(sim::world &owner, bool is_tiered);

  // Open the log of a new run. An error: the disk fails.
  result<std::unique_ptr<poold::durable_journal>> open(seams::clock &clock,
                                                       poold::pool_memory &memory);

  // The server has ended, and has destroyed its log.
  void end_run(bool has_power);

  // The disk works as before, fails now and then or always, is full, or is slow.
  void draw_faults();
  void heal();
  bool is_faulty() const noexcept {
    return is_faulty_;
  }

  // Damage a block that was synced long ago, while no run has the disk. False: the log is too
  // small.
  bool damage();

  std::string identity;  // of the cluster; synced when it is set

 private:
  sim::store_faults base_faults() const;

  sim::world &world_;
  sim::store store_;
  poold::durable_options keeping_;
  pool::log_options settings_;
  bool is_faulty_ = false;
};

}  // namespace tanada::test
