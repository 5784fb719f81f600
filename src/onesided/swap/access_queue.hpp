// onesided/swap/access_queue.hpp: what is to be done with memory of processes that may be away.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "onesided/swap/board.hpp"

namespace tanada::comex::swap {

// Bytes of another's memory: a place in its heap.
struct extent {
  uint64_t offset = 0, size = 0;
};

// Something to be done with another's memory, piece by piece. Where memory is away pieces are
// smaller than extents, and come in any order; never in another process's way for long: `part`
// waits for nothing but memory.
struct access {
  uint32_t target = 0;
  bool is_writing = false;
  uint32_t unit = 1;  // bytes that stay together: of numbers; up to a page
  std::vector<extent> extents;
  // `size` bytes of extent `index`, from `skip` on. `copy`: where they are to be read, which need
  // not be where they lie; null: there. Never of what is_writing.
  std::function<void(size_t index, uint64_t skip, uint64_t size, const std::byte *copy)> part;
  std::function<void()> end = {};  // after the last part, of what was not done at once
};

// Of one origin of the board.
//
// Thread safety: one thread at a time.
class access_queue {
 public:
  // `stored`: of all ranks; both outlive it.
  access_queue(board &shared, uint32_t origin, std::span<page_bits> stored);
  ~access_queue();

  // Short access to what is in DRAM: true and `part` has run, or false and nothing has happened.
  template <class Part>
  bool try_direct(uint32_t target, bool is_writing, std::span<const extent> extents, Part &&part) {
    if (!shared_.pin(target))
      return false;
    part();
    if (is_writing)
      mark(target, extents);
    shared_.unpin(target);
    return true;
  }

  // Begins what is to be done: at once where the memory is here, and true. False: it is under way,
  // and what it uses stays the caller's until poll() has brought it to its end. may_be_direct:
  // false, it is only asked for.
  bool begin(access what, bool may_be_direct = true);
  void poll();  // never waits
  bool is_empty() const noexcept {
    return pending_.empty();
  }

 private:
  struct pending;

  void mark(uint32_t target, std::span<const extent> extents) noexcept;
  bool post_next(pending &of);
  void reap(pending &of);
  bool has_window(uint32_t pages) const noexcept {
    return pages_asked_ == 0 || pages_asked_ + pages <= window_pages_;
  }

  board &shared_;
  uint32_t const origin_;
  std::span<page_bits> stored_;
  // Pages that it has asked for at a time, so that those of all who run, and of some that wait for
  // theirs, fit into the cache; as many for processes elsewhere.
  uint32_t window_pages_ = 0, pages_asked_ = 0;
  std::deque<std::unique_ptr<pending>> pending_;
};

}  // namespace tanada::comex::swap
