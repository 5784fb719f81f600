// seams/coordination/coordinator.hpp: the seam to the store of what the servers of a cluster agree
// on: a few small keys, with leases and compare-and-swap. Implementations: etcd_coordinator and
// sim::coordinator. One contract suite (tests/contract/coordinator_contract.hpp) runs on both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace tanada::seams {

using lease_id = int64_t;
inline constexpr lease_id no_lease = 0;

struct coordinated_entry {
  std::string key, value;
  uint64_t revision = 0;      // of the store at the key's last change, at least 1
  lease_id lease = no_lease;  // with whose end the key is removed
};

// The entries at one revision of the whole store, by key.
struct coordinated_range {
  std::vector<coordinated_entry> entries;
  uint64_t store_revision = 0;
};

// Holds if the key's revision is this one. 0: if there is no such key.
struct transaction_condition {
  std::string key;
  uint64_t revision = 0;
};

struct transaction_change {
  enum class kind : uint8_t { put, remove };
  kind type = kind::put;
  std::string key, value;
  lease_id lease = no_lease;
};

struct transaction_outcome {
  bool is_applied = false;      // every condition held
  uint64_t store_revision = 0;  // that of the changes, if they were applied
};

struct watch_event {
  bool is_removed = false;
  coordinated_entry entry;  // removed: only the key and the revision of its removal
};

inline constexpr size_t coordinated_key_size_max = 1 << 10;
inline constexpr size_t coordinated_value_size_max = 1 << 20;
inline constexpr size_t transaction_entry_count_max = 128;  // of conditions, and of changes
inline constexpr uint64_t lease_ttl_s_max = 1'000'000'000;

// too_big: a transaction exceeds a limit above, or its values together exceed the limit of one.
// invalid: a key is empty, or two changes are to one key.
status check_transaction(const std::vector<transaction_condition> &conditions,
                         const std::vector<transaction_change> &changes);

/**
 * A client of the store. Requests are posted and complete later.
 *
 * **Completion** Every callback comes from within progress(). Each request's callback is called
 * exactly once, unless the client is destroyed first. Requests may complete in any order.
 * **Errors** timed_out and peer_lost: no member of the store answered within the options' request
 * timeout. A change may have been made or not. It may even be made later, and no bound is certain,
 * since a member may keep a request while it has no quorum. A caller that tries again needs a
 * condition that fails once either attempt has been applied. access: the credentials were refused.
 * too_big, invalid: check_transaction() refused the request. protocol: the answer made no sense.
 * **Thread safety** One thread at a time, except for wake().
 */
class coordinator {
 public:
  virtual ~coordinator() = default;

  // All keys that begin with `prefix`. Linearizable.
  using range_callback = std::function<void(result<coordinated_range>)>;
  virtual void read(const std::string &prefix, range_callback done) = 0;

  // Makes all changes or, if a condition does not hold, none. At most one change to a key.
  // no_entry: a lease of a change has ended, and nothing was changed.
  using transaction_callback = std::function<void(result<transaction_outcome>)>;
  virtual void transact(std::vector<transaction_condition> conditions,
                        std::vector<transaction_change> changes,
                        transaction_callback done) = 0;

  // Creates a lease that ends `ttl_s` seconds after its creation or last renewal, in the store's
  // time. A lease never ends earlier, even if members of the store are replaced. It may end later.
  // invalid: the ttl is 0 or above lease_ttl_s_max.
  using lease_callback = std::function<void(result<lease_id>)>;
  virtual void grant_lease(uint64_t ttl_s, lease_callback done) = 0;

  // no_entry: the lease has ended.
  using status_callback = std::function<void(status)>;
  virtual void renew_lease(lease_id lease, status_callback done) = 0;

  // Ends the lease and removes its keys. no_entry: it had ended.
  virtual void revoke_lease(lease_id lease, status_callback done) = 0;

  // Calls `handler` with the changes to keys that begin with `prefix` and whose revision is above
  // `after_revision`, in order and each once. Changes of one revision come in one call. The last
  // call has an error: peer_lost, timed_out, or stale, if the store no longer has the changes. The
  // caller then reads and watches again. A client has one watch at a time: a new one replaces it.
  using watch_handler = std::function<void(result<std::vector<watch_event>>)>;
  virtual void watch(const std::string &prefix, uint64_t after_revision, watch_handler handler) = 0;

  // Calls the callbacks that are due. Returns how many.
  virtual size_t progress() = 0;

  // Waits until progress() would call one, wake() is called, or the deadline has passed (absolute,
  // monotonic_clock; timed_out).
  virtual status wait(uint64_t deadline_ns) = 0;

  // Ends the current wait, or else the next one.
  virtual void wake() noexcept = 0;
};

}  // namespace tanada::seams
