// products/poold/admission.hpp: which connections a daemon has at a time.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace tanada::poold {

// Counts connections from their accept to their end. Those in their handshake have bounds of their
// own, for everybody can make them: a quarter of all, and half of that for one host, neither less
// than 256 where as many connections are allowed. A connection beyond these bounds takes the place
// of the oldest handshake of the same host, or of the host with the most. A sixteenth more than all
// is kept for clients of this node. Thread-safe.
class admission {
 public:
  explicit admission(uint32_t count_max);

  struct verdict {
    bool is_admitted = false;
    std::optional<uint64_t> evicted = {};  // a connection whose place this one takes: to be closed
  };
  verdict admit(uint64_t id, const std::string &host, bool is_local);

  // The client has proven itself. False: the connection was evicted before, and must be closed
  // without a welcome, for only then do connections that are welcome never exceed the bound.
  bool complete(uint64_t id);
  void leave(uint64_t id);

 private:
  using ids = std::list<uint64_t>;  // the oldest first
  struct handshake {
    std::string host;
    ids::iterator place;
  };
  uint64_t evict(const std::string &host);
  const std::string &busiest() const;
  bool forget(uint64_t id);

  uint32_t const count_max_, local_count_max_, handshake_count_max_, host_count_max_;
  std::mutex mutex_;
  uint32_t count_ = 0;
  std::map<std::string, ids> hosts_;  // with handshakes
  std::unordered_map<uint64_t, handshake> handshakes_;
};

}  // namespace tanada::poold
