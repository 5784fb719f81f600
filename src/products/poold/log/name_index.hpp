// products/poold/log/name_index.hpp: who has which name once all records that were placed are
// durable.
#pragma once

#include <string>
#include <unordered_map>

#include "products/poold/log/live_set.hpp"

namespace tanada::pool {

// Used by one thread at a time.
class name_index {
 public:
  // From what is durable alone. Two objects with one name, which damage may leave, are settled in
  // favour of the later name: `lose` is told of the other and of the winner. It must not change
  // `live`.
  void build(const live_set &live,
             const std::function<void(const live_object &loser, const live_object &winner)> &lose);

  // A change takes its place among the records: names move, and the fact learns whom it supersedes.
  // What a change means that names a version that is not there is nothing.
  void place(fact &what);

 private:
  struct holder {
    std::string space, name;
  };
  uint64_t give(const std::string &space, const std::string &name, uint64_t version);
  void drop(uint64_t version);

  std::unordered_map<std::string, uint64_t> names_;  // versions by namespace, NUL, name
  std::unordered_map<uint64_t, holder> holders_;
};

}  // namespace tanada::pool
