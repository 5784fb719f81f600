// products/o2g/match.hpp: which receive gets which message, in MPI's order. Posted receives and
// messages that nobody expected stand in two queues; each finds the oldest of the other that
// matches. Ten thousand entries cost as one: both queues are hashed.
//
// A receive matches by (tag & ~ignore) and by source, or by any source. Receives with the same
// `ignore` and the same way of naming a source are of one class, with a hash table of its own
// (tuple space search: Srinivasan, Suri, Varghese 1999; a sequence number decides between classes).
// Programs use few classes: MPI's wildcards make at most four a layout of tags. Receives of a ninth
// class are found by walking. Where there is no memory for a table it stays as it is: that costs
// time, and nothing fails.
//
// Not thread-safe: the engine's lock covers it. Entries are their owners': they may lie in any
// memory, and stay where they are while they stand in a queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace tanada::o2g {

// A peer as its endpoint numbers it.
using peer_index = uint32_t;
inline constexpr peer_index any_peer = ~uint32_t{0};

inline constexpr size_t match_class_count_max = 8;

struct match_key {
  uint64_t tag = 0;
  peer_index source = 0;
};

struct match_pattern {
  uint64_t tag = 0, ignore = 0;  // ignore: the bits that need not be equal
  peer_index source = any_peer;
};

inline bool matches(const match_pattern &pattern, const match_key &key) noexcept {
  return ((pattern.tag ^ key.tag) & ~pattern.ignore) == 0 &&
         (pattern.source == any_peer || pattern.source == key.source);
}

// In a ring with a head that is such a link, too.
struct match_link {
  match_link *before = this, *behind = this;

  match_link() = default;
  match_link(const match_link &) = delete;
  match_link &operator=(const match_link &) = delete;

  bool alone() const noexcept {
    return behind == this;
  }
  void put_before(match_link &head) noexcept {
    before = head.before;
    behind = &head;
    before->behind = this;
    head.before = this;
  }
  void take_out() noexcept {
    before->behind = behind;
    behind->before = before;
    before = this;
    behind = this;
  }
};

// Derive from these two.
struct posted_entry {
  match_pattern pattern{};
  match_link order{};   // among all, oldest first
  match_link bucket{};  // in its class, oldest first; alone when it is of none
  uint64_t sequence = 0;
  uint8_t class_index = 0;  // match_class_count_max: of none
  bool queued = false;
};

struct arrived_entry {
  match_key key{};
  match_link order{};
  std::array<match_link, match_class_count_max> buckets{};
  uint64_t sequence = 0;
  bool queued = false;
};

class matcher {
 public:
  matcher() {
    classes_.reserve(match_class_count_max);
  }
  matcher(const matcher &) = delete;
  matcher &operator=(const matcher &) = delete;
  ~matcher();  // entries that are still there are let go

  // The oldest receive in the queue that matches; it stays there. Null: none.
  posted_entry *find_posted(const match_key &key);

  // The oldest message in the queue that matches; it stays there. Null: none. May make a class of
  // its pattern.
  arrived_entry *find_arrived(const match_pattern &pattern);

  // To the end of a queue. The caller has looked whether there is a match: here nobody looks again.
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

  // Each of a queue, oldest first, until one is true, which comes back; null: none was. `is` may
  // remove the one it is given.
  template <class Predicate>
  posted_entry *find_posted_if(Predicate is) {
    return find_if<posted_entry>(posted_, is);
  }
  template <class Predicate>
  arrived_entry *find_arrived_if(Predicate is) {
    return find_if<arrived_entry>(arrived_, is);
  }

 private:
  // Chains of entries whose masked keys hash alike, at most as many entries as chains.
  class table {
   public:
    match_link &chain(uint64_t hash) {
      return chains_[hash & (chains_.size() - 1)];
    }
    bool is_full(size_t count) const noexcept {
      return count >= chains_.size();
    }
    bool grow(size_t count) noexcept;  // empties it; false: no memory, and all is as it was

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
  static Entry *find_if(match_link &head, Predicate is) {
    for (match_link *at = head.behind; at != &head;) {
      Entry *const entry = of_order<Entry>(at);
      at = at->behind;
      if (is(*entry))
        return entry;
    }
    return nullptr;
  }
  template <class Entry>
  static Entry *of_order(match_link *link) {
    return reinterpret_cast<Entry *>(reinterpret_cast<std::byte *>(link) - offsetof(Entry, order));
  }

  size_t class_of(const match_pattern &pattern) noexcept;
  size_t make_class(const match_pattern &pattern) noexcept;
  void index_posted(match_class &kind);
  void index_arrived(size_t class_index);

  match_link posted_, arrived_;  // all, in order
  std::vector<std::unique_ptr<match_class>> classes_;
  uint64_t sequence_ = 0;
  size_t posted_count_ = 0, arrived_count_ = 0, unclassed_count_ = 0;
};

}  // namespace tanada::o2g
