// products/poold/cluster_gate.hpp: what sessions need of the cluster that their daemon belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/wire/pool.hpp"

namespace tanada::poold {

/**
 * The state of a cluster's partitions in this server.
 *
 * Each change of a partition has a position. It is settled once every server that the map names
 * has it. Until then no client may see its effect, because another server could become primary
 * without it.
 *
 * **Thread safety** All calls, by any thread.
 */
class cluster_gate {
 public:
  virtual ~cluster_gate() = default;

  // ok: this server is the primary of the partition, and its lease holds. stale: another server is
  // primary. again: this server is not ready yet, or has no lease.
  virtual status check_serving(uint32_t partition) const = 0;

  // Whether this server is the primary and its lease holds, so that replies to earlier requests may
  // be sent. It may have stopped to accept requests.
  virtual bool may_reply(uint32_t partition) const = 0;

  // Positions of the last change, and of the last settled one. They never decrease.
  virtual uint64_t last_position(uint32_t partition) const = 0;
  virtual uint64_t settled_position(uint32_t partition) const = 0;

  // Calls `callback`, from any thread, once the position is settled or the server is no longer
  // primary. It may be called from within this call.
  virtual void when_settled(uint32_t partition,
                            uint64_t position,
                            std::function<void()> callback) = 0;

  // Whether the request comes from the partition's primary. stale, again: see
  // wire::pool::replica_request.
  virtual status check_replica(const wire::pool::replica_request &request) const = 0;

  virtual wire::pool::locate_reply locate(const std::string &namespace_name) const = 0;
  virtual wire::pool::cluster_status_reply describe() const = 0;

  // Calls `done` from any thread once etcd has the change. no_entry: no such server is known, and
  // `done` is not called.
  virtual status set_draining(const std::string &server,
                              bool is_draining,
                              std::function<void(status)> done) = 0;
};

}  // namespace tanada::poold
