// sim/fabric.hpp: seams::fabric_endpoint in a world: a network in memory, with faults.
#pragma once

#include <memory>
#include <string>

#include "seams/fabric/fabric.hpp"
#include "seams/fabric/registration_cache.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// Kinds of faults and their frequency. They may be changed during a run.
struct fabric_faults {
  // Faults of any network. The contract of fabric_endpoint holds under all of them.
  uint64_t delay_ns_min = 1'000, delay_ns_max = 1'000;  // in each direction
  // Transfers may overtake one another. Messages between two endpoints never do, nor do the
  // transfers of an ordered endpoint.
  bool reorder = true;
  uint32_t drop_percent = 0;  // attempts that are dropped; the next one is retry_ns later
  uint64_t retry_ns = 50'000;
  uint32_t retry_count_max = 7;  // after these the operation completes with peer_lost
  uint64_t detect_ns = 100'000;  // from the failure of a peer to peer_lost
  uint32_t again_percent = 0;    // posts that begin a burst of `again`
  uint32_t again_burst_max = 8;  // length of a burst, in posts
  uint32_t late_cancel_percent =
      0;  // Receives that the network keeps for late_ns after their deadline.
  uint64_t late_ns = 200'000;
  // Faults that no correct network has, but bad cables and bad code do. They test the checks of
  // receivers, and that a test can fail.
  uint32_t corrupt_percent = 0;    // a byte of the moved data changes
  uint32_t duplicate_percent = 0;  // a message arrives twice
  uint32_t swap_percent = 0;       // a message overtakes earlier ones
  uint32_t loss_percent = 0;      // A message, write or atomic completes with ok and never arrives.
  uint32_t overtake_percent = 0;  // A transfer of an ordered endpoint overtakes earlier ones.
  uint32_t uncopied_percent = 0;  // the source of a `copied` operation is read later
};

struct fabric_options {
  uint32_t depth = 64;
  size_t message_size_max = 4096;  // bytes
  seams::registration_cache_limits cache{};
  size_t copied_size_max = 1024;  // bytes
  // Whether its operations are ordered, as fabric_properties defines it, whatever the faults are.
  bool is_ordered = false;
  bool has_auto_progress = false;
  // Accepts GPU memory, which must be passed with its region. In the simulation it is host memory.
  bool has_cuda = false;
};

// Endpoints by name. An endpoint handles requests of peers only in poll and wait, like the slowest
// real ones, unless it has automatic progress. A wait runs the actions of the world until it has a
// completion.
//
// As thread-safe as the world; one thread at a time uses an endpoint. The world outlives the fabric
// and the endpoints.
class fabric {
 public:
  fabric(world &owner, fabric_faults faults = {});
  ~fabric();

  // Opens an endpoint; its name is its address. exists: a live endpoint has this name.
  result<std::unique_ptr<seams::fabric_endpoint>> open(const std::string &name,
                                                       const fabric_options &options = {});

  void faults_set(const fabric_faults &faults);

  // Nothing crosses between the two endpoints until heal(): it is held back. Deadlines still
  // expire.
  void partition(const std::string &first, const std::string &second);
  void heal();

  // Adds a delay to everything an endpoint sends and receives, in each direction.
  void slow(const std::string &name, uint64_t extra_ns);

  // Simulates the death of the process of an endpoint. The object becomes inactive and returns no
  // more completions; its owner destroys it. The next endpoint of that name has the same address.
  // With `memory_kept` it also has the same regions and keys, as with memory that outlives
  // processes; the test keeps the bytes.
  void crash(const std::string &name, bool memory_kept = false);

 private:
  struct network;
  class endpoint;
  std::shared_ptr<network> network_;
};

}  // namespace tanada::sim
