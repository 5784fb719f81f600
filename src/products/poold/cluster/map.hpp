// products/poold/cluster/map.hpp: the map of a cluster: which servers hold which namespaces. Pure
// functions compute the next map from the present one and the servers that run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::poold {

// Namespaces are assigned to partitions by the hash of their names. A namespace lies in one
// partition as a whole, so that sets, renames and lists are changes of one server. The names of the
// hidden namespaces of stripes have the numbers of their partitions.
inline constexpr uint32_t partition_count = 256;

uint32_t partition_of(std::string_view namespace_name);

// Not a partition of the map: fragments are not replicated. Each server serves those that it has.
inline constexpr uint32_t local_partition = partition_count;

// One run of a server. A server that restarts is another replica: what it has may be incomplete.
struct replica {
  std::string server;  // its name
  uint64_t run = 0;

  bool operator==(const replica &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.server) && f(m.run);
  }
};

// What a run of a server has found in its log.
enum class log_origin : uint8_t {
  new_log,  // nothing of this cluster: its memory or its disk is new
  whole,    // all that was written
  damaged,  // some records were lost
};

// A server that runs. Each server keeps this under a key with its lease.
struct server_presence {
  replica self;
  std::string address;  // "host:port", for clients and other servers
  std::string domain;   // its failure domain; empty: one of its own
  uint64_t weight = 1;  // its share of the partitions, relative to the other servers' weights
  uint8_t is_durable = 0;
  uint8_t is_draining = 0;
  uint8_t origin = 0;  // log_origin

  bool operator==(const server_presence &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.self) && f(m.address) && f(m.domain) && f(m.weight) && f(m.is_durable) &&
           f(m.is_draining) && f(m.origin);
  }
};

struct partition_record {
  uint64_t term = 0;                // the epoch in which its primary became primary
  uint8_t was_lost = 0;             // all copies were lost, and the partition began again, empty
  std::vector<replica> replicas;    // hold every acknowledged change; the first is the primary
  std::vector<replica> joining;     // receive the changes, and are being brought up to date
  std::vector<uint8_t> is_durable;  // of each of `replicas`

  bool operator==(const partition_record &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.term) && f(m.was_lost) && f(m.replicas) && f(m.joining) && f(m.is_durable);
  }
};

struct cluster_map {
  uint64_t epoch = 0;    // of this map; 0: there is no map
  uint32_t copies = 1;   // replicas that each partition should have
  std::string identity;  // of the cluster, random
  std::vector<partition_record> partitions;

  bool operator==(const cluster_map &) const = default;
  static bool fields(auto &f, auto &m) {
    return f(m.epoch) && f(m.copies) && f(m.identity) && f(m.partitions);
  }
};

// Encoded for the coordinator. The decoders return protocol for anything that these did not write.
std::string encode_map(const cluster_map &map);
result<cluster_map> decode_map(std::string_view bytes);
std::string encode_presence(const server_presence &presence);
result<server_presence> decode_presence(std::string_view bytes);

// The servers that should hold a partition, the primary first: by weighted rendezvous hashing, in
// different failure domains as long as there are enough. Draining servers are left out.
std::vector<const server_presence *> desired_servers(uint32_t partition,
                                                     uint32_t copies,
                                                     const std::vector<server_presence> &present);

// A new cluster's map: `creator` is the primary of all partitions, so that a pool with objects can
// become the first server of a cluster.
cluster_map first_map(const server_presence &creator, uint32_t copies);

// Adapts the map to the servers that run; the map's epoch is the new one already. A replica is
// removed when its run is not present, and only then. The order of the others stays, so the next
// one becomes primary. No other change of a primary is made here: see hand_over(). False: nothing
// changed.
bool advance_map(cluster_map &map, const std::vector<server_presence> &present);

// Changes that only a partition's primary makes. False: the map does not allow the change any more.
//
// A joining replica has every acknowledged change, and acknowledges all later ones.
bool complete_join(cluster_map &map, uint32_t partition, const replica &joined, bool is_durable);

// Partitions that a server which does not run may have the only copy of: no other of their replicas
// runs or is durable.
uint32_t count_sole_copies(const cluster_map &map,
                           const std::string &server,
                           const std::vector<server_presence> &present);

// Removes a server that does not run; the map's epoch is the new one already. Partitions that had
// no other replica begin again, empty, and count as lost.
void forget_server(cluster_map &map,
                   const std::string &server,
                   const std::vector<server_presence> &present);

// Backups that the partition has beyond its copies. They are left over once enough others have
// joined.
std::vector<replica> surplus_replicas(const partition_record &partition,
                                      const std::vector<const server_presence *> &desired,
                                      uint32_t copies);

// A replica or joining replica does not keep up, and joins again later; or it is left over.
bool remove_replica(cluster_map &map, uint32_t partition, const replica &removed);

// The primary, which has stopped serving the partition, gives it to another replica.
bool hand_over(cluster_map &map, uint32_t partition, const replica &primary, const replica &next);

}  // namespace tanada::poold
