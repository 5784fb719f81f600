// products/poold/stripe_ledger.hpp: which striped objects exist in this server, in any state.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/wire/pool.hpp"

namespace tanada::poold {

// A striped object, by its namespace and id.
using striped_key = std::pair<std::string, wire::pool::striped_id>;

/**
 * The striped objects that this server has: committed ones, ones being written, prepared ones, and
 * ones whose name was removed while readers have them open. Stripes of any other object are
 * garbage, because an id is entered when its object is created, before it has stripes.
 *
 * **Thread safety** All calls, by any thread. No call waits for anything else.
 */
class stripe_ledger {
 public:
  void add(const striped_key &key);
  // Called once for each add().
  void remove(const striped_key &key);
  bool contains(const striped_key &key) const;

  // Objects whose stripes may be garbage: this server has just lost the last reference to them.
  // Bounded, because a periodic search finds what is not here.
  std::vector<striped_key> take_dropped();

  // Objects that another server has dropped.
  void add_suspect(const striped_key &key);
  std::set<striped_key> take_suspects();

  // Called, under a lock, when there is something to take.
  void set_wake(std::function<void()> wake);

 private:
  void wake() const TND_REQUIRES(mutex_);

  mutable mutex mutex_;
  std::map<striped_key, size_t> counts_ TND_GUARDED_BY(mutex_);
  std::vector<striped_key> dropped_ TND_GUARDED_BY(mutex_);
  std::set<striped_key> suspects_ TND_GUARDED_BY(mutex_);
  std::function<void()> wake_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::poold
