// sim/fabric.hpp: port::fabric_endpoint in a world: a network in memory, with faults.
#pragma once

#include <memory>
#include <string>

#include "seams/fabric/fabric.hpp"
#include "seams/fabric/registration_cache.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// What goes wrong, and how often. All of it may change during a run.
struct fabric_faults {
  // What any network may do; the contract of fabric_endpoint holds under all of it.
  uint64_t delay_ns_min = 1'000, delay_ns_max = 1'000;  // of each way
  bool reorder = true;  // transfers overtake one another; messages between two never do, nor those
                        // of an endpoint that is ordered
  uint32_t drop_percent = 0;  // of each try to cross; the next one is retry_ns later
  uint64_t retry_ns = 50'000;
  uint32_t retry_count_max = 7;  // then the operation has lost its peer
  uint64_t detect_ns = 100'000;  // from the death of a peer to peer_lost
  uint32_t again_percent = 0;    // of posts that begin a burst of `again`
  uint32_t again_burst_max = 8;  // posts
  uint32_t late_cancel_percent =
      0;  // of receives that the network keeps after their deadline, for late_ns
  uint64_t late_ns = 200'000;
  // What no network may do, but bad cables and bad code do: for those who check what they got, and
  // to show that a test can fail.
  uint32_t corrupt_percent = 0;    // a byte of what is moved changes
  uint32_t duplicate_percent = 0;  // a message arrives twice
  uint32_t swap_percent = 0;       // a message overtakes those before it
  uint32_t lost_percent = 0;       // a message, a write or an atomic says ok and never arrives
  uint32_t overtake_percent =
      0;  // a transfer of an endpoint that is ordered overtakes those before it
  uint32_t uncopied_percent = 0;  // of a `copied` source what is there later is taken
};

struct fabric_options {
  uint32_t depth = 64;
  size_t message_size_max = 4096;  // bytes
  port::registration_cache_limits cache{};
  size_t copied_size_max = 1024;  // bytes
  bool is_ordered = false;  // of what it posts, as fabric_properties says, whatever the faults are
  bool progresses_alone = false;
  bool has_cuda = false;  // memory that is said to be a GPU's is taken, and must be named by its
                          // region: it is memory here
};

// Endpoints by name. They answer their peers in poll and wait only, as the slowest of the real ones
// do, but for those that progress alone. A wait does the world's next things until it has
// something.
//
// Thread-safe as the world is, an endpoint used by one thread at a time. The world outlives the
// fabric and the endpoints.
class fabric {
 public:
  fabric(world &owner, fabric_faults faults = {});
  ~fabric();

  // The name is the address. exists while an endpoint of that name lives.
  result<std::unique_ptr<port::fabric_endpoint>> open(const std::string &name,
                                                      const fabric_options &options = {});

  void faults_set(const fabric_faults &faults);

  // Nothing crosses between the two until heal(): it waits. Deadlines pass.
  void partition(const std::string &one, const std::string &other);
  void heal();

  // What goes to and from an endpoint takes so much longer, each way.
  void slow(const std::string &name, uint64_t extra_ns);

  // The process behind an endpoint dies: the object does nothing any more and yields nothing; its
  // owner destroys it. The next endpoint of that name has its address. With `memory_kept` regions
  // and keys are there again, as of memory that outlives processes; the test keeps the bytes.
  void crash(const std::string &name, bool memory_kept = false);

 private:
  struct network;
  class endpoint;
  std::shared_ptr<network> network_;
};

}  // namespace tanada::sim
