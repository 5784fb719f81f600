// products/poold/cluster_gate.hpp: what sessions need of the cluster that their daemon belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/wire/pool_fragments.hpp"
#include "core/wire/pool_replica.hpp"
#include "products/poold/catalog.hpp"

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

  // The version of the protocol that all servers of the cluster have. It only rises.
  virtual uint32_t protocol() const = 0;

  // ok: this server is the primary of the partition, and its lease holds. stale: another server is
  // primary. again: this server is not ready yet, or has no lease.
  virtual status check_serving(uint32_t partition) const = 0;

  // Whether this server is the primary and its lease holds, so that replies to earlier requests may
  // be sent. It may have stopped to accept requests.
  virtual bool may_reply(uint32_t partition) const = 0;

  // The term in which this server is the primary, or last was. In a later term, what sessions of an
  // earlier one have open does not count any more: another server may have been the primary
  // between.
  virtual uint64_t term(uint32_t partition) const = 0;

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

  // Reads from a server that is a backup of the partition, not its primary.
  //
  // Whether that is so, and its lease holds. stale: it has no copy. again: it has no lease.
  virtual status check_backup(uint32_t partition) const = 0;
  // As may_reply().
  virtual bool may_reply_as_backup(uint32_t partition) const = 0;
  // Calls `read` if no change of the name, as from backup_name(), could be lost that the server
  // has; for an empty name, no change of the partition. again: one could.
  virtual status read_as_backup(uint32_t partition,
                                const std::string &name,
                                const std::function<status()> &read) = 0;

  // The state of a copy that the primary keeps up. begin: it is incomplete until its mark.
  // change: called before the change of these names is applied.
  virtual void begin_copy(const wire::pool::replica_request &place) = 0;
  virtual void change_copy(const wire::pool::replica_position &change,
                           uint64_t settled,
                           std::span<const std::string> names) = 0;
  virtual void mark_copy(const wire::pool::replica_position &mark) = 0;
  virtual void settle_copy(const wire::pool::replica_position &settled) = 0;

  virtual wire::pool::locate_reply locate(const std::string &namespace_name) const = 0;
  virtual wire::pool::cluster_status_reply describe() const = 0;

  // Without the stripes' size.
  virtual wire::pool::stripe_places_reply stripe_places() const = 0;
  virtual wire::pool::striped_id next_striped_id() = 0;
  // Whether a striped object exists in any state; see stripe_ledger. This server serves it.
  virtual bool has_striped(catalog &objects, const striped_key &key) const {
    return objects.striped()->contains(key);
  }

  // The erasure code of a namespace's new striped objects.
  virtual wire::pool::erasure_scheme erasure_of(const std::string &namespace_name) const = 0;
  // invalid: the cluster has too few servers, or too many settings; otherwise as set_draining().
  virtual status set_erasure(const wire::pool::erasure_setting &setting,
                             std::function<void(status)> done) = 0;

  // This server serves the namespace of the fragments; see fragment_directory.
  virtual std::vector<uint8_t> note_fragments(
      catalog &objects, const wire::pool::fragment_report_request &report) = 0;
  virtual wire::pool::fragment_places_reply fragment_places(const striped_key &key) const = 0;
  // Calls `done` from any thread once the fragment was built, or that has failed. busy: there is
  // enough to do, and `done` is not called.
  virtual status build_fragment(const wire::pool::fragment_build_request &request,
                                std::function<void(status)> done) = 0;

  // Calls `done` from any thread once etcd has the change. no_entry: no such server is known, and
  // `done` is not called.
  virtual status set_draining(const std::string &server,
                              bool is_draining,
                              std::function<void(status)> done) = 0;

  // Forgets a server that does not run. busy: it runs, or it may have the only copy of something
  // and the removal is not forced; otherwise as set_draining().
  virtual status remove_server(const std::string &server,
                               bool is_forced,
                               std::function<void(status)> done) = 0;

  // Whether this server's log has all that it should have. no_space, io: it does not work, so what
  // this server has is no durable copy.
  virtual status check_log() const {
    return status::ok;
  }

  // Whether another server may have the bytes of an object of the partition that are damaged here,
  // so that a reader should try again.
  virtual bool may_be_repaired(uint32_t partition) const {
    (void)partition;
    return false;
  }

  // Partitions that began again do not count as lost any more. `done` as of set_draining().
  virtual void clear_losses(std::function<void(status)> done) = 0;
};

}  // namespace tanada::poold
