// comex/swap/residence.hpp: a process's side of the board: where it waits, and how it reaches the memory of others.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "comex/swap/board.hpp"

namespace tanada::comex::swap {

// What a process does with its own memory; see written_pages.hpp.
struct own_memory {
  std::function<void()> collect;       // clear in `stored` what was written since the last time, and watch for more
  std::function<void()> arm;           // watch, after all of it came back
  std::function<uint64_t()> here;      // bytes in DRAM
};

// Bytes of another's memory: a place in its heap.
struct extent {
  uint64_t offset = 0, size = 0;
};

// Something to be done with another's memory, piece by piece. Where memory is away pieces are smaller than extents, and come in
// any order; never in another process's way for long: `part` waits for nothing but memory.
struct access {
  uint32_t target = 0;
  bool is_writing = false;
  uint32_t unit = 1;                                            // bytes that stay together: of numbers; up to a page
  std::vector<extent> extents;
  std::function<void(size_t index, uint64_t skip, uint64_t size)> part;  // `size` bytes of extent `index`, from `skip` on
};

// Thread safety: one thread at a time.
class residence {
 public:
  // `stored`: of all ranks; both outlive it.
  residence(board &shared, uint32_t rank, std::span<page_bits> stored, own_memory mine);
  ~residence();

  // Before and after everything else. start: it runs when this returns.
  status start(int32_t process_id);
  void finish();

  // Around a wait, in this order: leave(), attend() about each millisecond and when rung, enter(). Between leave() and enter() nothing of
  // swappable memory is touched, unless it is `held` or `served`. They nest: an inner pair does nothing.
  // enter: running, and its memory is whole; peer_lost or io when the board has failed, with its text as the message.
  void leave(wait_kind kind);
  void attend();
  status enter();
  bool is_in() const noexcept { return depth_ == 0; }

  // For calls that programs repeat without ever waiting: makes way if asked to. Cheap.
  status offer() { return shared_.is_asked(rank_) ? make_way() : status::ok; }

  // Before memory is allocated, and after it is given back. no_memory, with a message: the budget is less than that. Waits for room as `kind`.
  status reserve(uint64_t bytes, wait_kind kind = wait_kind::others);
  void release(uint64_t bytes) { shared_.release(rank_, bytes); }

  // Short access to what is in DRAM: true and `part` has run, or false and nothing has happened.
  template <class Part>
  bool try_direct(uint32_t target, bool is_writing, std::span<const extent> extents, Part &&part) {
    if (!shared_.pin(target)) return false;
    part();
    if (is_writing) mark(target, extents);
    shared_.unpin(target);
    return true;
  }

  // Begins what is to be done: at once where the memory is here. False: it is under way, and what it uses stays the caller's until
  // complete().
  bool begin(access what);
  // All that was begun is done. Waits as `served`: this process's own memory stays.
  status complete();
  bool is_complete() const noexcept { return pending_.empty(); }
  void poll();  // never waits

  board &shared() noexcept { return shared_; }
  uint32_t rank() const noexcept { return rank_; }

 private:
  struct pending;

  void mark(uint32_t target, std::span<const extent> extents) noexcept;
  status make_way();
  bool post_next(pending &of);
  void reap(pending &of);
  bool has_window(uint32_t pages) const noexcept { return pages_asked_ == 0 || pages_asked_ + pages <= window_pages_; }

  board &shared_;
  uint32_t const rank_;
  std::span<page_bits> stored_;
  own_memory mine_;
  uint32_t depth_ = 0;
  // Pages that this process has asked for at a time, so that those of all fit into half of the cache.
  uint32_t window_pages_ = 0, pages_asked_ = 0;
  std::deque<std::unique_ptr<pending>> pending_;
};

}  // namespace tanada::comex::swap
