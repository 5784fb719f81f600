// backends/libfabric/libfabric_peers.hpp: the peers of one endpoint.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/libfabric/libfabric_domain.hpp"

namespace tanada::port {

// shm 1.17 completes the transfers of an endpoint in their order, so that one that is never
// answered (the peer has died, or has refused the key: it then says nothing) would hold up all that
// follow. Each peer therefore has an endpoint of its own for transfers; once one is late it gets no
// more of them, and a new one takes its place.
struct shm_lane {
  libfabric_handle<fid_ep> endpoint;
  // An operation has come to an end: the peer has taken in our name. shm 1.17 takes in a name by
  // looking for its memory, and crashes when that is gone: until then the lane must stay.
  bool answered = false;
};
// Lanes of one peer's life: each takes one of 256 places at the peer for good. One that has let so
// many hang is lost.
inline constexpr uint32_t shm_lanes_max = 16;

struct libfabric_peer {
  fabric_peer id = no_fabric_peer;
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  std::string address_bytes;
  std::string process;     // shm: as shm_name_process takes it; empty: not known
  bool broken = false;     // its connection is: nothing is handed over until there is a new one
  uint64_t broken_ns = 0;  // when that was seen
  bool gone = false;       // shm: that process is
  bool removed = false;    // late operations are still to settle
  std::deque<uint32_t> waiting;    // slots of operations that the network has not taken, in order
  uint32_t in_flight = 0;          // operations that it has
  uint32_t refusals = 0;           // in a row, of what waits
  uint64_t retry_ns = 0;           // not before, while nothing is in flight: nobody may be there
  std::shared_ptr<shm_lane> lane;  // for new transfers; made with the first
  uint32_t lanes_made = 0;
};

// Used by one thread at a time.
class libfabric_peers {
 public:
  // How many shm holds (SMR_MAX_PEERS), ourselves and lanes of both sides among them; a bound for
  // the others.
  static constexpr size_t count_max_shm = 100, count_max = 65536;

  explicit libfabric_peers(const libfabric_domain &domain) : domain_{domain} {}

  // `own`: an address of the same form as peers have.
  result<fabric_peer> add(std::span<const std::byte> address, std::span<const std::byte> own);

  // No longer to be found. The connection closes now, where that ends its operations; else (shm
  // must keep the peer's memory mapped while operations wait for its answer) when the peer is
  // forgotten.
  void detach(libfabric_peer &which);
  void forget(fabric_peer id);  // in_flight is 0

  // Close the connection, so that the next operation makes a new one. False: the peer is not to be
  // reached any more.
  bool reconnect(libfabric_peer &which);

  libfabric_peer *find(fabric_peer id);             // nullptr if there is none or it is removed
  libfabric_peer *find_any(fabric_peer id);         // removed ones too
  fabric_peer by_address(fi_addr_t address) const;  // no_fabric_peer

  std::unordered_map<fabric_peer, libfabric_peer> &all() {
    return peers_;
  }

  // Close a lane, or keep it until the peer cannot crash by that; a bounded number of them.
  void lane_drop(std::shared_ptr<shm_lane> lane);
  void lanes_close();

 private:
  status check(std::span<const std::byte> address, std::span<const std::byte> own) const;

  const libfabric_domain &domain_;
  std::unordered_map<fabric_peer, libfabric_peer> peers_;
  std::map<std::string, fabric_peer, std::less<>>
      by_bytes_;  // removed peers until they are forgotten, too
  std::unordered_map<fi_addr_t, fabric_peer> by_address_;
  std::deque<std::shared_ptr<shm_lane>> unanswered_;  // lanes without a peer
  fabric_peer next_id_ = 0;
};

}  // namespace tanada::port
