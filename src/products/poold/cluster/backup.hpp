// products/poold/cluster/backup.hpp: what a server may show of the partitions that it has a backup
// of, while their primary is out of reach.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "core/wire/pool_replica.hpp"
#include "products/poold/cluster/map.hpp"

namespace tanada::poold {

/**
 * A backup in the map has every change that was acknowledged to a client, because the primary waits
 * for it. It may also have changes that are not settled: another server could become primary
 * without them, so they are not shown. The primary reports which changes are settled with its next
 * change, or a little later.
 *
 * A copy may be read from its mark on, until it begins anew. The primary lets it begin anew before
 * it gives up a backup that runs.
 *
 * **Locks** Acquired before the catalog's mutex. A change is recorded before it is applied, and a
 * read holds the mutex, so that it finds either both or neither.
 */
class backup_copies {
 public:
  // Of the primary with this term.
  void begin(const wire::pool::replica_request &place);
  void record_change(const wire::pool::replica_position &change,
                     std::span<const std::string> names);
  void mark(const wire::pool::replica_position &mark);
  void settle(const wire::pool::replica_position &settled);

  // Nothing is read any more.
  void close();

  // The term in which this server is the partition's backup now, or why it may not be read.
  using term_source = std::function<result<uint64_t>()>;

  // Calls `read`, which reads the object, or for an empty name any. again: something of that is not
  // settled, or the copy is not complete.
  status read(uint32_t partition,
              const std::string &name,
              const term_source &term,
              const std::function<status()> &read);

 private:
  struct copy {
    uint64_t term = 0;
    bool is_complete = false;  // it has had its mark
    uint64_t mark = 0, settled = 0;
    // Changes that are not known to be settled.
    std::deque<std::pair<uint64_t, std::string>> changes;  // position and name, in order
    std::unordered_map<std::string, uint64_t> positions;   // of the last change of a name
  };
  copy *find(const wire::pool::replica_request &place) TND_REQUIRES(mutex_);
  static status check_settled(const copy &read_copy, const std::string &name);

  mutex mutex_;
  std::array<copy, partition_count> copies_ TND_GUARDED_BY(mutex_);
  bool is_closed_ TND_GUARDED_BY(mutex_) = false;
};

// The name by which changes are recorded.
std::string backup_name(const std::string &namespace_name, const std::string &name);

}  // namespace tanada::poold
