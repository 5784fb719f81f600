// backends/libfabric/libfabric_peers.hpp: the peers of one endpoint.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/libfabric/libfabric_domain.hpp"

namespace tanada::backends {

// shm 1.17 completes the transfers of an endpoint in order. A transfer that is never answered,
// because the peer died or silently refused the key, would block all later ones. Therefore each
// peer has an endpoint of its own for transfers. Once a transfer is late, the endpoint gets no more
// of them, and a new one replaces it.
struct shm_lane {
  libfabric_handle<fid_ep> endpoint;
  // An operation has completed, so the peer has resolved this lane's name. shm 1.17 resolves a name
  // by opening its memory, and crashes if that is gone. The lane must stay until then.
  bool answered = false;
};
// Lanes over one peer's lifetime. Each permanently takes one of 256 entries at the peer. A peer
// that let this many lanes hang is treated as failed.
inline constexpr uint32_t shm_lanes_max = 16;

struct libfabric_peer {
  seams::fabric_peer id = seams::no_fabric_peer;
  fi_addr_t address = FI_ADDR_NOTAVAIL;
  std::string address_bytes;
  std::string process;           // shm: the owner part of its name, for shm_name_process(); empty:
                                 // unknown
  bool broken = false;           // the connection failed: nothing is posted until it is replaced
  uint64_t broken_ns = 0;        // when the failure was detected
  bool is_dead = false;          // shm: the peer's process has ended
  bool removed = false;          // late operations have still to settle
  std::deque<uint32_t> waiting;  // slots of operations that the network has not accepted, in
                                 // order
  uint32_t in_flight = 0;        // operations that the network has accepted
  uint32_t refusals = 0;         // consecutive refusals of the waiting operations
  uint64_t retry_ns = 0;         // earliest retry while nothing is in flight: the peer may not be
                                 // listening
  std::shared_ptr<shm_lane> lane;  // for new transfers; created with the first
  uint32_t lanes_made = 0;
};

// Used by one thread at a time.
class libfabric_peers {
 public:
  // shm holds this many peers (SMR_MAX_PEERS), including this endpoint and the lanes of both sides.
  // For other providers it is a limit of Tanada's.
  static constexpr size_t count_max_shm = 100, count_max = 65536;

  explicit libfabric_peers(const libfabric_domain &domain) : domain_{domain} {}

  // `own_address` has the same format as addresses of peers.
  result<seams::fabric_peer> add(std::span<const std::byte> address,
                                 std::span<const std::byte> own_address);

  // Hides the peer from find(). If closing its connection ends its operations, the connection
  // closes now. Otherwise it closes in erase(), because shm must keep the peer's memory mapped
  // while operations wait for answers.
  void detach(libfabric_peer &peer);
  void erase(seams::fabric_peer id);  // `in_flight` must be 0

  // Closes the connection, so that the next operation opens a new one. Returns false if the peer is
  // no longer reachable.
  bool reconnect(libfabric_peer &peer);

  libfabric_peer *find(seams::fabric_peer id);      // nullptr: there is no such peer, or it was
                                                    // removed
  libfabric_peer *find_any(seams::fabric_peer id);  // also finds removed peers
  seams::fabric_peer find_by_address(fi_addr_t address) const;  // or no_fabric_peer

  std::unordered_map<seams::fabric_peer, libfabric_peer> &peers() {
    return peers_;
  }

  // Closes a lane, or keeps it until closing it cannot crash the peer. The number of kept lanes is
  // bounded.
  void lane_drop(std::shared_ptr<shm_lane> lane);
  void lanes_close();

 private:
  status check(std::span<const std::byte> address, std::span<const std::byte> own_address) const;

  const libfabric_domain &domain_;
  std::unordered_map<seams::fabric_peer, libfabric_peer> peers_;
  std::map<std::string, seams::fabric_peer, std::less<>>
      by_bytes_;  // includes removed peers that are not erased yet
  std::unordered_map<fi_addr_t, seams::fabric_peer> by_address_;
  std::deque<std::shared_ptr<shm_lane>> unanswered_;  // lanes that no peer uses any more
  seams::fabric_peer next_id_ = 0;
};

}  // namespace tanada::backends
