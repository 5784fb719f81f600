// o2g/match.hpp: which receive gets which message, in MPI's order. Posted receives and messages that nobody expected stand
// in two queues; each finds the oldest of the other that matches. Ten thousand entries cost as one: both queues are hashed.
//
// A receive matches by (tag & ~ignore) and by source, or by any source. Receives with the same `ignore` and the same way of
// naming a source are of one class, with a hash table of its own (tuple space search: Srinivasan, Suri, Varghese 1999; a
// sequence number decides between classes). Programs use few classes: MPI's wildcards make at most four a layout of tags. From
// the ninth on, receives stand in one list that is walked.
//
// Not thread-safe: the engine's lock covers it. Entries are their owners': they may lie in any memory, and stay where they
// are while they stand in a queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
  return ((pattern.tag ^ key.tag) & ~pattern.ignore) == 0 && (pattern.source == any_peer || pattern.source == key.source);
}

// In a doubly linked list, whose head is such a link, too.
struct match_link {
  match_link *before = nullptr, *behind = nullptr;
};

// Derive from these two.
struct posted_entry {
  match_pattern pattern{};
  match_link link{};           // in its class's bucket, oldest first
  uint64_t sequence = 0;
  uint8_t class_index = 0;     // match_class_count_max: in the list of the rest
  bool queued = false;
};

struct arrived_entry {
  match_key key{};
  match_link order{};                                      // in the list of all, oldest first
  std::array<match_link, match_class_count_max> links{};   // in the bucket of each class
  uint64_t sequence = 0;
  bool queued = false;
};

class matcher {
 public:
  matcher();
  matcher(const matcher &) = delete;
  matcher &operator=(const matcher &) = delete;
  ~matcher();

  // The oldest receive in the queue that matches; it stays there. Null: none.
  posted_entry *find_posted(const match_key &key);

  // The oldest message in the queue that matches; it stays there. Null: none. May make a class of its pattern.
  arrived_entry *find_arrived(const match_pattern &pattern);

  // To the end of a queue. The caller has looked whether there is a match: here nobody looks again.
  void add(posted_entry &entry);
  void add(arrived_entry &entry);

  void remove(posted_entry &entry);
  void remove(arrived_entry &entry);

  size_t posted_count() const noexcept { return posted_count_; }
  size_t arrived_count() const noexcept { return arrived_count_; }

  // All of them, oldest first; whoever walks may remove the one he is at. Null: the end.
  arrived_entry *first_arrived();
  arrived_entry *behind(arrived_entry &entry);

  // Every receive, in no order, for those who end: `each` may remove it.
  template <class Function>
  void for_each_posted(Function each);

 private:
  size_t posted_count_ = 0, arrived_count_ = 0;
};

}  // namespace tanada::o2g
