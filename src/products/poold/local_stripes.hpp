// products/poold/local_stripes.hpp: the striped objects of a pool that has one server.
#pragma once

#include <atomic>
#include <thread>

#include "core/base/mutex.hpp"
#include "core/wire/pool_local_stripes.hpp"
#include "products/poold/catalog.hpp"

namespace tanada::poold {

/**
 * An object larger than a part of memory is striped on a pool's only server, too, so that its
 * stripes leave memory one by one. This gives out the ids of such objects, and removes stripes
 * whose object is gone: at once when the last reference to it has gone, and by a search, because a
 * client may write stripes of an object that it has given up.
 *
 * An id is in the catalog's ledger before there are stripes, and is never used again. So stripes
 * whose id is not there are garbage.
 *
 * **Thread safety** limits() and next_id() by any thread, all else by one.
 */
class local_stripes {
 public:
  struct options {
    uint64_t memory_size = 0;                   // of the pool
    uint64_t stripe_size = uint64_t{64} << 20;  // at most; 0: objects are not striped
    uint64_t period_ns = 5'000'000'000;         // between two searches
    size_t page_size = 1000;                    // stripes visited at a time
    uint64_t run = 0;  // a number that no earlier daemon of this pool had; 0: a random one
    seams::clock *clock = &seams::monotonic_clock();
  };
  // The catalog has all objects that a restart restores, and outlives this.
  local_stripes(const options &settings, catalog &objects);
  ~local_stripes();
  local_stripes(const local_stripes &) = delete;
  local_stripes &operator=(const local_stripes &) = delete;

  const wire::pool::stripe_limits_reply &limits() const noexcept {
    return limits_;
  }
  wire::pool::striped_id next_id() {
    return {run_, next_number_.fetch_add(1)};
  }

  // Removes the stripes that are garbage now.
  void progress();
  // Calls progress() in a thread of its own, until stop().
  void start();
  void stop();

 private:
  void search();
  void run();

  options const options_;
  catalog &objects_;
  wire::pool::stripe_limits_reply const limits_;
  uint64_t run_ = 0;
  std::atomic<uint64_t> next_number_{1};
  uint64_t search_ns_;  // when all stripes are searched next
  mutex mutex_;
  condition_variable changed_;
  bool is_woken_ TND_GUARDED_BY(mutex_) = false, is_ending_ TND_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tanada::poold
