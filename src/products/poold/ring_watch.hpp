// products/poold/ring_watch.hpp: the rings that a worker polls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/assert.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

// A session with rings, in the list of its worker.
struct ring_place {
  uint64_t id = 0;
  session *client = nullptr;
  uint64_t active_ns = 0;   // the last request
  bool is_watched = false;  // else its client wakes the worker over the socket
};

// The sessions whose clients have sent a request lately. All others cost nothing: their clients
// know that they have to wake the worker. Used by one thread.
class ring_watch {
 public:
  bool is_empty() const noexcept {
    return places_.empty();
  }

  void add(ring_place &place, uint64_t now_ns) {
    place.active_ns = now_ns;
    if (std::exchange(place.is_watched, true))
      return;
    places_.push_back(&place);
  }

  void remove(ring_place &place) {
    if (std::exchange(place.is_watched, false))
      std::erase(places_, &place);
  }

  // Lists the sessions that have a request and can process it.
  bool collect(std::vector<uint64_t> &ready) const {
    for (const ring_place *place : places_)
      if (has_request(*place))
        ready.push_back(place->id);
    return !ready.empty();
  }

  // Ends the polling of sessions without a request since `limit_ns`. A request that comes at that
  // moment is found by the next collect().
  void rest(uint64_t limit_ns) {
    std::erase_if(places_, [limit_ns](ring_place *place) {
      bool const is_idle = place->active_ns <= limit_ns && !has_request(*place);
      if (!is_idle || (!place->client->ring()->arm() && place->client->expects_input()))
        return false;
      place->is_watched = false;
      return true;
    });
  }

 private:
  static bool has_request(const ring_place &place) {
    TND_ASSERT(place.client->ring() != nullptr);
    return place.client->ring()->has_input() && place.client->expects_input();
  }

  std::vector<ring_place *> places_;
};

// Permits some workers at a time to poll, so that processors are left for others.
class poll_permits {
 public:
  explicit poll_permits(uint32_t count_max) : count_max_{count_max} {}
  bool acquire() noexcept {
    if (count_.fetch_add(1) < count_max_)
      return true;
    count_.fetch_sub(1);
    return false;
  }
  void release() noexcept {
    count_.fetch_sub(1);
  }

 private:
  uint32_t const count_max_;
  std::atomic<uint32_t> count_{0};
};

}  // namespace tanada::poold
