// core/wire/pool_replica.hpp: messages between the servers of a cluster about the copies of
// partitions.
#pragma once

#include <string>
#include <vector>

#include "core/wire/pool.hpp"

namespace tanada::wire::pool {

// The requests of a partition's primary to the other servers that hold the partition, over a
// connection without a namespace. All carry the primary's term. stale: the receiver knows a newer
// term. again: it does not know this term yet.
//
// replica_begin: the changes that follow begin anew. replica_mark: the receiver has all changes
// before it. It is sent once they were all acknowledged.
struct replica_request {
  uint32_t partition = 0;
  uint64_t term = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.partition) && f(m.term);
  }
};

// mark: all changes of the partition up to this position come before it. settled: all of them are
// settled.
struct replica_position {
  replica_request place;
  uint64_t position = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.place) && f(m.position);
  }
};

// Names after these, by namespace and name.
struct replica_list_request {
  replica_request place;
  std::string after_namespace, after_name;
  static bool fields(auto &f, auto &m) {
    return f(m.place) && f(m.after_namespace) && f(m.after_name);
  }
};

struct replica_entry {
  std::string namespace_name, name;
  uint64_t version = 0;
  uint32_t flags = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.namespace_name) && f(m.name) && f(m.version) && f(m.flags);
  }
};

struct replica_list_reply {
  std::vector<replica_entry> entries;
  uint8_t more = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.entries) && f(m.more);
  }
};

// One change. For a put the data of the frame is the object. Changes without `is_last` take effect
// together with the next that has it.
struct replica_apply_request {
  replica_request place;
  uint8_t type = 0;  // poold::change::kind
  uint8_t is_last = 1;
  uint8_t wants_disk = 0;  // the reply comes once the change is durable, if the receiver's pool is
  std::string namespace_name, name, old_name;
  info object_info;
  uint32_t flags = 0;
  uint64_t position = 0;  // 0: a difference that the comparison found
  uint64_t settled = 0;   // position up to which the changes of the partition are settled
  static bool fields(auto &f, auto &m) {
    return f(m.place) && f(m.type) && f(m.is_last) && f(m.wants_disk) && f(m.namespace_name) &&
           f(m.name) && f(m.old_name) && f(m.object_info) && f(m.flags) && f(m.position) &&
           f(m.settled);
  }
};

// Memory that its owner has registered with a fabric for reading. The offset is relative to the
// region that base, key and region_size describe, as in rma_request.
struct exposed_part {
  uint64_t base = 0, key = 0, region_size = 0, offset = 0, size = 0;
  static bool fields(auto &f, auto &m) {
    return f(m.base) && f(m.key) && f(m.region_size) && f(m.offset) && f(m.size);
  }
};
inline constexpr size_t exposed_part_count_max = 16;

// A put whose bytes the receiver reads over the fabric. They have the order of the parts.
struct replica_fetch_request {
  replica_apply_request change;
  std::vector<exposed_part> parts;
  static bool fields(auto &f, auto &m) {
    return f(m.change) && f(m.parts);
  }
};

}  // namespace tanada::wire::pool
