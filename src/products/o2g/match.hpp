// products/o2g/match.hpp: matches messages to receives in MPI's order. Posted receives and
// unexpected messages are in two queues. A new receive or message takes the oldest matching entry
// of the other queue. Both queues are hashed: matching costs the same with one entry and with ten
// thousand.
//
// A receive matches by (tag & ~ignore), and by one source or any source. Receives with the same
// `ignore` that all name a source, or all accept any, form a class with its own hash table (tuple
// space search [Srinivasan, Suri, Varghese 1999]). A sequence number decides between classes.
// Programs use few classes: MPI's wildcards result in at most four for each layout of tags.
// Receives of a ninth class are found by a linear search. If a table cannot grow because of
// insufficient memory, it keeps its size: matching is slower, but nothing fails.
//
// Not thread-safe: the engine's lock protects it. The caller owns the entries. They may be in any
// memory, and must not move while they are queued.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"

namespace tanada::o2g {

// The index of a peer within one endpoint.
using peer_index = uint32_t;
inline constexpr peer_index any_peer = ~uint32_t{0};

inline constexpr size_t match_class_count_max = 8;

struct match_key {
  uint64_t tag = 0;
  peer_index source = 0;
};

struct match_pattern {
  uint64_t tag = 0, ignore = 0;  // ignore: bits of the tag that are not compared
  peer_index source = any_peer;
};

inline bool matches(const match_pattern &pattern, const match_key &key) noexcept {
  return ((pattern.tag ^ key.tag) & ~pattern.ignore) == 0 &&
         (pattern.source == any_peer || pattern.source == key.source);
}

// A node of a circular list, whose head is a node, too.
struct match_link {
  match_link *prev = this, *next = this;

  match_link() = default;
  match_link(const match_link &) = delete;
  match_link &operator=(const match_link &) = delete;

  bool is_unlinked() const noexcept {
    return next == this;
  }
  void insert_before(match_link &head) noexcept {
    TND_ASSERT(is_unlinked());
    prev = head.prev;
    next = &head;
    prev->next = this;
    head.prev = this;
  }
  void unlink() noexcept {
    prev->next = next;
    next->prev = prev;
    prev = this;
    next = this;
  }
};

// Base classes of the entries in the two queues.
struct posted_entry {
  match_pattern pattern{};
  match_link order{};   // in the whole queue, oldest first
  match_link bucket{};  // in its class, oldest first; not linked without a class
  uint64_t sequence = 0;
  uint8_t class_index = 0;  // match_class_count_max: no class
  bool is_queued = false;
};

struct arrived_entry {
  match_key key{};
  match_link order{};
  std::array<match_link, match_class_count_max> buckets{};
  uint64_t sequence = 0;
  bool is_queued = false;
};

static_assert(match_class_count_max <= 255);  // posted_entry::class_index

class matcher {
 public:
  matcher() {
    classes_.reserve(match_class_count_max);
  }
  matcher(const matcher &) = delete;
  matcher &operator=(const matcher &) = delete;
  ~matcher();  // removes the entries that are still queued

  // Returns the oldest matching receive, which stays queued; null if there is no match.
  posted_entry *find_posted(const match_key &key);

  // Returns the oldest matching message, which stays queued; null if there is no match. May create
  // a class for the pattern.
  arrived_entry *find_arrived(const match_pattern &pattern);

  // Appends an entry to its queue. The caller has already checked that nothing matches.
  void add(posted_entry &entry);
  void add(arrived_entry &entry);

  void remove(posted_entry &entry);
  void remove(arrived_entry &entry);

  size_t posted_count() const noexcept {
    return posted_count_;
  }
  size_t arrived_count() const noexcept {
    return arrived_count_;
  }

  // Returns the oldest entry for which the predicate is true; null if there is no such entry. The
  // predicate may remove the entry it is called with.
  template <class Predicate>
  posted_entry *find_posted_if(Predicate predicate) {
    return find_if<posted_entry>(posted_, predicate);
  }
  template <class Predicate>
  arrived_entry *find_arrived_if(Predicate predicate) {
    return find_if<arrived_entry>(arrived_, predicate);
  }

 private:
  // Hash chains. grow() keeps the number of entries at or below the number of chains.
  class table {
   public:
    match_link &chain(uint64_t hash) {
      return chains_[hash & (chains_.size() - 1)];
    }
    bool is_full(size_t count) const noexcept {
      return count >= chains_.size();
    }
    bool grow(size_t count) noexcept;  // unlinks all entries; false: no memory, no effect

   private:
    std::vector<match_link> chains_ = std::vector<match_link>(16);
  };

  struct match_class {
    uint64_t ignore = 0;
    bool any_source = false;
    size_t posted_count = 0;
    table posted, arrived;

    uint64_t hash(uint64_t tag, peer_index source) const noexcept;
  };

  template <class Entry, class Predicate>
  static Entry *find_if(match_link &head, Predicate predicate) {
    for (match_link *node = head.next; node != &head;) {
      Entry *const entry = entry_from_order<Entry>(node);
      node = node->next;
      if (predicate(*entry))
        return entry;
    }
    return nullptr;
  }
  template <class Entry>
  static Entry *entry_from_order(match_link *link) {
    return reinterpret_cast<Entry *>(reinterpret_cast<std::byte *>(link) - offsetof(Entry, order));
  }

  size_t class_for(const match_pattern &pattern) noexcept;
  size_t make_class(const match_pattern &pattern) noexcept;
  void index_posted(match_class &kind);
  void index_arrived(size_t class_index);

  match_link posted_, arrived_;  // all entries, in order
  std::vector<std::unique_ptr<match_class>> classes_;
  uint64_t sequence_ = 0;
  size_t posted_count_ = 0, arrived_count_ = 0, unclassed_count_ = 0;
};

}  // namespace tanada::o2g
