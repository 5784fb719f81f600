// products/poold/admission.hpp: the decision which connections a daemon accepts.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/base/mutex.hpp"

namespace tanada::poold {

// Counts connections from their accept to their end. Handshakes have limits of their own, because
// unauthenticated peers can start them: a quarter of all connections, and half of that for one
// host. Neither limit is below 256 where as many connections are allowed. A connection beyond these
// limits evicts the oldest handshake of the same host, or of the host with the most handshakes. One
// sixteenth more than all is kept for clients of this node. Thread-safe.
class admission {
 public:
  explicit admission(uint32_t count_max);

  struct decision {
    bool is_admitted = false;
    std::optional<uint64_t> evicted = {};  // the connection to close in exchange
  };
  decision admit(uint64_t id, const std::string &host, bool is_local);

  // The client has authenticated. False: the connection was evicted before, and must be closed
  // without a welcome. This keeps the number of welcomed connections within the limit.
  bool complete(uint64_t id);
  void remove(uint64_t id);

 private:
  using ids = std::list<uint64_t>;  // oldest first
  struct handshake {
    std::string host;
    ids::iterator position;
  };
  uint64_t evict(const std::string &host) TND_REQUIRES(mutex_);
  const std::string &busiest_host() const TND_REQUIRES(mutex_);
  bool erase_handshake(uint64_t id) TND_REQUIRES(mutex_);

  uint32_t const count_max_, local_count_max_, handshake_count_max_, host_count_max_;
  mutex mutex_;
  uint32_t count_ TND_GUARDED_BY(mutex_) = 0;
  std::map<std::string, ids> hosts_ TND_GUARDED_BY(mutex_);  // hosts that have handshakes
  std::unordered_map<uint64_t, handshake> handshakes_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::poold
