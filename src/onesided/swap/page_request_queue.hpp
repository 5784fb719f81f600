// onesided/swap/page_request_queue.hpp: the page request queue: access to memory of processes that
// may be swapped out.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "onesided/swap/node_table.hpp"

namespace tanada::onesided::swap {

// Bytes of another process's memory, as a range of its heap.
struct extent {
  uint64_t offset = 0, size = 0;
};

// An access to another process's memory, carried out piece by piece. Pieces of swapped-out memory
// are smaller than extents, and come in any order. `on_piece` must not delay the other process for
// long: it waits for nothing but memory.
struct page_access {
  uint32_t target = 0;
  bool is_writing = false;
  // Size in bytes of units that must not be split, such as numbers; at most a page.
  uint32_t unit = 1;
  std::vector<extent> extents;
  // Accesses `size` bytes of extent `index`, beginning at byte `skip` of it. `copy`: the address to
  // read them from, if it is not the target's memory; otherwise null. Never set for `is_writing`.
  std::function<void(size_t index, uint64_t skip, uint64_t size, const std::byte *copy)> on_piece;
  // Called after the last piece, if the access was not carried out at once.
  std::function<void()> on_complete = {};
};

// Requests of one origin of the node table.
//
// Thread safety: one thread at a time.
class page_request_queue {
 public:
  // `stored`, `left_out`: bits of all ranks; without the latter, no rank leaves pages out. The
  // table and the bits outlive the queue.
  page_request_queue(node_table &table,
                     uint32_t origin,
                     std::span<page_bits> stored,
                     std::span<page_bits> left_out = {});
  ~page_request_queue();

  // A short access to resident memory. True: `access` has run. False: nothing has happened. Without
  // extents nothing is known of the pages: the access is refused where the target left out some.
  template <class Access>
  bool try_direct(uint32_t target,
                  bool is_writing,
                  std::span<const extent> extents,
                  Access &&access) {
    if (!table_.pin(target))
      return false;
    if (table_.has_left_out(target) && !are_in_memory(target, extents)) [[unlikely]] {
      table_.unpin(target);
      return false;
    }
    access();
    if (is_writing)
      mark_written(target, extents);
    table_.unpin(target);
    return true;
  }

  // Begins an access. True: it was carried out at once, because the memory is resident. False: it
  // is in progress, and what it uses stays in use until poll() has completed it. may_be_direct:
  // false, the pages are requested in any case.
  bool begin(page_access access, bool may_be_direct = true);
  void poll();  // never waits
  bool is_empty() const noexcept {
    return pending_.empty();
  }

 private:
  struct pending_access;
  struct request_plan;

  bool are_in_memory(uint32_t target, std::span<const extent> extents) const noexcept;
  void mark_written(uint32_t target, std::span<const extent> extents) noexcept;
  request_plan plan_next(const pending_access &pending) const;
  bool post_next(pending_access &pending);
  void reap(pending_access &pending);
  bool has_window(uint32_t pages) const noexcept {
    return pages_outstanding_ == 0 || pages_outstanding_ + pages <= window_pages_;
  }

  node_table &table_;
  uint32_t const origin_;
  std::span<page_bits> stored_, left_out_;
  // Pages that may be requested at a time. Requests of all running ranks, and of some that wait for
  // pages, then fit into the cache. Processes of other nodes get the same number.
  uint32_t window_pages_ = 0, pages_outstanding_ = 0;
  std::deque<std::unique_ptr<pending_access>> pending_;
};

}  // namespace tanada::onesided::swap
