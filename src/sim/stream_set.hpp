// sim/stream_set.hpp: a network of many endpoints in one world: port::stream_set with everything
// going wrong that may go wrong between machines. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "seams/stream/stream_set.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

struct stream_set_faults {
  uint64_t delay_ns_min = 100,
           delay_ns_max = 1'000;          // of each segment, in order within a connection
  uint64_t connect_delay_ns_max = 1'000;  // of a connect, over and above
  uint64_t segment_size_max =
      64 << 10;  // bytes that arrive together; what is not driven for coalesces
  uint64_t chunk_size_max = 64 << 10;  // bytes handed over by one call
  uint64_t window_size = 256 << 10;    // bytes on the way and not yet handed over
  uint32_t partial_percent =
      0;  // of sends but a connection's first: taken in part although there is room
  uint32_t again_percent = 0;   // of the same: nothing is taken although there is room
  uint32_t refuse_percent = 0;  // of connects
  uint32_t cut_permyriad = 0;   // of segments: the connection breaks in the middle of one
  // Not of any network: to see that a suite notices.
  uint32_t corrupt_permyriad = 0;  // of segments: a byte comes wrong
  uint32_t lose_permyriad = 0;     // of segments: it does not come, and what follows does
  bool tells_no_room = false, ends_twice = false, loses_wakes = false, forgets_rest = false;
};

struct stream_connection;
class simulated_stream_set;

// Outlives its sets.
class stream_network {
 public:
  stream_network(world &in, const stream_set_faults &with) : owner{in}, faults{with} {}

  std::unique_ptr<port::stream_set> open(const port::stream_set_options &options = {});

  // Whoever listens at this address dies as if by a cut of the power: nothing more is told to it or
  // comes from it, what is on its way is lost from some moment on, and its peers learn that it is
  // gone.
  void kill(const port::socket_address &listener);

  world &owner;
  stream_set_faults faults;
  // Of a connection between these two bytes are lost: it is cut; or one has closed it, and the
  // other did not know yet.
  std::function<void(const port::socket_address &, const port::socket_address &, bool is_cut)>
      on_loss;
  std::map<port::socket_address, simulated_stream_set *> listeners;
  uint16_t last_port = 20'000;

  void lost(const stream_connection &of, bool is_cut) const;
  uint64_t delay_ns() {
    return owner.random.between(faults.delay_ns_min, faults.delay_ns_max);
  }
};

}  // namespace tanada::sim
