// products/o2g/match.hpp: the C++ view of kernel/o2g/match.h, which matches messages to receives in
// MPI's order. The driver contains the same code.
//
// Not thread-safe: the engine's lock protects it. The caller owns the entries. They may be in any
// memory, and must not move while they are queued.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/assert.hpp"
#include "kernel/o2g/match.h"

namespace tanada::o2g {

// The index of a peer within one endpoint.
using peer_index = uint32_t;
inline constexpr peer_index any_peer = O2G_MATCH_ANY_PEER;

using match_key = ::o2g_match_key;
using match_pattern = ::o2g_match_pattern;
using match_link = ::o2g_match_link;

inline bool matches(const match_pattern &pattern, const match_key &key) noexcept {
  return o2g_match_matches(&pattern, &key);
}

// Base classes of the entries in the two queues. add() sets what the constructors do not.
struct posted_entry : ::o2g_posted_entry {
  posted_entry() noexcept {
    pattern = {0, 0, any_peer};
    is_queued = false;
  }
  posted_entry(const posted_entry &) = delete;
  posted_entry &operator=(const posted_entry &) = delete;
};

struct arrived_entry : ::o2g_arrived_entry {
  arrived_entry() noexcept {
    key = {};
    number = 0;
    is_queued = false;
  }
  arrived_entry(const arrived_entry &) = delete;
  arrived_entry &operator=(const arrived_entry &) = delete;
};

class matcher {
 public:
  matcher() noexcept {
    o2g_matcher_init(&queues_);
  }
  matcher(const matcher &) = delete;
  matcher &operator=(const matcher &) = delete;
  ~matcher() {  // removes the entries that are still queued
    o2g_matcher_fini(&queues_);
  }

  // Returns the oldest matching receive, which stays queued; null if there is no match.
  posted_entry *find_posted(const match_key &key) noexcept {
    return static_cast<posted_entry *>(o2g_match_find_posted(&queues_, &key));
  }

  // Returns the oldest matching message, which stays queued; null if there is no match. May create
  // a class for the pattern.
  arrived_entry *find_arrived(const match_pattern &pattern) noexcept {
    return static_cast<arrived_entry *>(o2g_match_find_arrived(&queues_, &pattern));
  }

  // Whether a queued message with a number larger than `number` matches.
  bool is_raced(const match_pattern &pattern, uint64_t number) noexcept {
    return o2g_match_is_raced(&queues_, &pattern, number);
  }

  // Appends an entry to its queue. The caller has already checked that nothing matches.
  void add(posted_entry &entry) noexcept {
    TND_ASSERT(!entry.is_queued);
    o2g_match_add_posted(&queues_, &entry);
  }
  void add(arrived_entry &entry) noexcept {
    TND_ASSERT(!entry.is_queued);
    o2g_match_add_arrived(&queues_, &entry);
  }

  void remove(posted_entry &entry) noexcept {
    TND_ASSERT(entry.is_queued);
    o2g_match_remove_posted(&queues_, &entry);
  }
  void remove(arrived_entry &entry) noexcept {
    TND_ASSERT(entry.is_queued);
    o2g_match_remove_arrived(&queues_, &entry);
  }

  size_t posted_count() const noexcept {
    return queues_.posted_count;
  }
  size_t arrived_count() const noexcept {
    return queues_.arrived_count;
  }

  // Returns the oldest entry for which the predicate is true; null if there is no such entry. The
  // predicate may remove the entry it is called with.
  template <class Predicate>
  posted_entry *find_posted_if(Predicate predicate) {
    return find_if<posted_entry>(&o2g_match_next_posted, predicate);
  }
  template <class Predicate>
  arrived_entry *find_arrived_if(Predicate predicate) {
    return find_if<arrived_entry>(&o2g_match_next_arrived, predicate);
  }

 private:
  template <class Entry, class Next, class Predicate>
  Entry *find_if(Next next, Predicate predicate) {
    for (auto *node = next(&queues_, nullptr); node != nullptr;) {
      Entry &entry = static_cast<Entry &>(*node);
      node = next(&queues_, node);
      if (predicate(entry))
        return &entry;
    }
    return nullptr;
  }

  ::o2g_matcher queues_;
};

}  // namespace tanada::o2g
