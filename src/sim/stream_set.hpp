// sim/stream_set.hpp: seams::stream_set for many endpoints in one world, with all faults of a
// network between nodes. Single-threaded.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "seams/stream/stream_set.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

struct stream_set_faults {
  uint64_t delay_ns_min = 100,
           delay_ns_max = 1'000;          // delay of each segment; in order within a connection
  uint64_t connect_delay_ns_max = 1'000;  // additional delay of a connect
  uint64_t segment_size_max =
      64 << 10;  // bytes that arrive together; segments not yet handed over coalesce
  uint64_t chunk_size_max = 64 << 10;  // bytes handed over by one call
  uint64_t window_size = 256 << 10;    // bytes in flight or not yet handed over
  // sends, except the first of a connection, that are only partly accepted although there is free
  // space
  uint32_t partial_percent = 0;
  uint32_t again_percent = 0;   // likewise: nothing is accepted
  uint32_t refuse_percent = 0;  // connects that are refused
  uint32_t cut_permyriad = 0;   // segments in the middle of which the connection breaks
  // Faults that no network has, to verify that a test suite detects them.
  uint32_t corrupt_permyriad = 0;  // segments with a corrupted byte
  uint32_t lose_permyriad = 0;     // lost segments, after which later ones arrive
  bool loses_writable = false, reports_end_twice = false, loses_wakes = false,
       loses_unaccepted = false;
};

struct stream_connection;
class simulated_stream_set;

// Outlives its sets.
class stream_network {
 public:
  stream_network(world &owning_world, const stream_set_faults &initial_faults)
      : owner{owning_world}, faults{initial_faults} {}

  std::unique_ptr<seams::stream_set> open(const seams::stream_set_options &options = {});

  // Kill the set that listens at this address, as a power failure would. It gets no more events and
  // sends nothing more. Data in flight from it is lost from some moment on, and its peers get a
  // connection end.
  void kill(const seams::socket_address &listener);

  world &owner;
  stream_set_faults faults;
  // Called when bytes of a connection between the two addresses are lost. Either the connection is
  // cut, or one end has closed it before the other knew.
  std::function<void(const seams::socket_address &, const seams::socket_address &, bool is_cut)>
      on_loss;
  std::map<seams::socket_address, simulated_stream_set *> listeners;
  uint16_t last_port = 20'000;

  void report_loss(const stream_connection &connection, bool is_cut) const;
  uint64_t delay_ns() {
    return owner.random.between(faults.delay_ns_min, faults.delay_ns_max);
  }
};

}  // namespace tanada::sim
