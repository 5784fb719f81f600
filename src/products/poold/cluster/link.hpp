// products/poold/cluster/link.hpp: the connection of a partition's primary to another server that
// holds the partition.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "products/pool/client/channel.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cluster/link_fabric.hpp"
#include "products/poold/cold_read.hpp"
#include "products/poold/cluster/replication.hpp"

namespace tanada::poold {

/**
 * Carries the changes of all partitions that this server is primary of to one other server, and
 * brings that server up to date: one partition at a time, it compares the names and versions of
 * both sides, and sends what differs.
 *
 * **Thread safety** One thread at a time.
 */
class replica_link {
 public:
  struct options {
    replica peer;
    std::optional<pool::key> key;
    // Connects to the peer. Blocks at most until the deadline (absolute, monotonic_clock).
    std::function<result<std::unique_ptr<seams::stream>>(uint64_t deadline_ns)> dial;
    seams::clock *clock = &seams::monotonic_clock();
    size_t page_size = 1000;                   // names compared at a time
    size_t outstanding_count_max = 512;        // requests
    uint64_t outstanding_size_max = 64 << 20;  // bytes of objects
    uint64_t connect_timeout_ns = 2'000'000'000;
    // Of this server: the peer reads large objects over it. Without a provider all bytes are sent
    // over the connection.
    seams::fabric_request fabric = {};
    uint64_t fabric_size_min = 64 << 10;  // bytes of an object
    // Of the protocol, for the next connection.
    std::function<uint32_t()> version = [] {
      return wire::pool::protocol_version;
    };
  };
  replica_link(options settings, replication &changes, catalog &objects);
  ~replica_link();

  // Connects if it is time to; otherwise does what is possible without waiting. Returns whether
  // there was anything to do.
  bool progress();

  // Of the connection; -1: the link has no connection.
  int descriptor() const;
  // How many connections there were. A new one may have the descriptor of the one before.
  uint64_t connection_count() const noexcept {
    return connection_count_;
  }
  bool has_output() const {
    return channel_ != nullptr && !channel_->is_broken() && !channel_->is_idle();
  }
  const replica &peer() const noexcept {
    return options_.peer;
  }

  // The peer's reads over the fabric make progress only in serve_peer(). Blocks at most until the
  // deadline (absolute, monotonic_clock).
  bool needs_service() const {
    return fabric_ != nullptr && fabric_->needs_service();
  }
  void serve_peer(uint64_t deadline_ns) {
    fabric_->serve(deadline_ns);
  }

 private:
  // Of the partition that is being compared.
  enum class step { idle, beginning, listing, comparing, removing, marking };
  using object_place = catalog::object_place;
  struct remote_object {
    uint64_t version = 0;
    uint32_t flags = 0;
  };

  bool connect();
  void join_fabric();
  void drop(const char *reason, status code);
  bool send_batches();
  bool load_batch();
  bool is_batch_loaded();
  static status check_loaded(const cold_load &load, const object &source, const std::byte *bytes);
  void send_batch(std::shared_ptr<replica_batch> batch);
  void send_mark();
  wire::pool::replica_apply_request make_request(const replica_batch &batch, size_t index) const;
  void send_change(const std::shared_ptr<replica_batch> &batch, size_t index);
  bool fetch_change(const wire::pool::replica_apply_request &request,
                    std::span<const iovec> parts,
                    const std::function<void(status)> &finish);
  void finish_request(const std::shared_ptr<replica_batch> &batch, bool is_last, status code);
  bool advance_sync();
  void report_settled();
  bool release_some();
  void begin_sync();
  void finish_begin(status code);
  void request_list();
  void finish_list(const pool::reply &received);
  void compare_page();
  // False: the comparison has to wait.
  bool compare_object(const object_place &place, const object_ref &object);
  void remove_page();
  void enqueue_change(change added);
  wire::pool::replica_request place() const {
    return {target_.partition, target_.term};
  }
  bool has_room() const;

  options const options_;
  replication &changes_;
  catalog &objects_;
  std::unique_ptr<pool::channel> channel_;
  std::unique_ptr<link_fabric> fabric_;  // null: the connection carries all bytes
  static constexpr uint32_t fabric_failure_count_max = 3;
  uint32_t fabric_failure_count_ = 0;  // since the last success; the fabric is not used after max
  static constexpr uint64_t reconnect_ns_min = 100'000'000, reconnect_ns_max = 2'000'000'000;
  uint64_t retry_ns_ = 0, reconnect_ns_ = reconnect_ns_min, connection_count_ = 0;
  status failure_ = status::ok;  // a reply because of which the link is to be dropped
  std::shared_ptr<replica_batch> waiting_mark_;  // until nothing before it is outstanding
  // The next batch while bytes of cold objects are read for it, by the change's index.
  struct loaded_bytes {
    std::shared_ptr<std::byte[]> bytes;
    std::shared_ptr<cold_load> load;
  };
  std::shared_ptr<replica_batch> loading_;
  std::map<size_t, loaded_bytes> loads_;
  size_t outstanding_count_ = 0;
  uint64_t outstanding_size_ = 0;

  step step_ = step::idle;
  bool awaits_reply_ = false;
  uint64_t sync_retry_ns_ = 0, report_ns_ = 0;
  replication::assignment target_{};
  std::map<object_place, remote_object>
      remote_;  // what the peer has and the comparison has not met
  object_place position_;
};

}  // namespace tanada::poold
