// onesided/swap/page_mover.hpp: the page mover, which copies pages between the memory of a node's
// processes and their swap objects.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onesided/swap/node_table.hpp"
#include "onesided/swap/memory_window.hpp"
#include "seams/store/store.hpp"

namespace tanada::onesided::swap {

struct page_mover_options {
  uint32_t chunk_pages = 512;  // of one store operation, at most
  uint32_t depth = 16;         // operations at a time; each has a buffer of one chunk
};

// A process's memory that the page mover moves.
struct swappable_memory {
  memory_file memory;
  page_bits stored;  // the object holds the current bytes of these pages
  seams::store_file object;
  std::unique_ptr<memory_window> window = nullptr;  // null: every page is copied with system calls
  // Set by the process before it is swapped out: it does not expect to touch these pages. Views
  // without pages: it expects to touch all.
  page_bits cold = {};
  // Set by the page mover when the process is swapped in, and cleared when a page was read: the
  // page is only in the object.
  page_bits left_out = {};
};

// Moves and requests that have completed.
struct page_mover_events {
  struct finished_move {
    move_order order;
    node_table::move_result result;
  };
  std::vector<finished_move> moves;
  std::vector<page_request *>
      served;  // their pages are in the target's memory, or in the copy named by the request
  std::vector<page_request *> released;  // the origins have completed them
};

// Moves pages of processes and serves requests for pages.
//
// Swapping out writes the pages that are not stored, and drops all pages from DRAM. Swapping in
// reads the pages that are stored and not in DRAM. Pages of zeros are not written, unless a few of
// them lie between others. Like pages that were never touched, // place.
//
// Long runs of cold pages are left out when their process is swapped in, and stay in the object
// until they are requested. The process's own touches cause such requests, too.
//
// A swapped-out process may have some pages in DRAM nevertheless, which were read for requests: the
// cache. A page stays there while a request needs it. Afterwards trim() drops pages that were not
// requested recently, and writes modified ones to the object first.
//
// Blocks that are read as a whole are placed in large pages. The store reads directly into them,
// and writes directly from them. They are dropped when all of their process is stored. Small pages
// are copied through buffers.
//
// A request that only reads gets a copy, as long as copies are available. Pages that are only in
// the object are read directly into the copy. No memory of their process is allocated, mapped and
// dropped for them.
//
// Nobody may access the memory of a process while it is being swapped out. Origins of served
// requests may access the requested pages of a process that is swapped out or being swapped in.
//
// Thread safety: one thread at a time.
class page_mover {
 public:
  // The queue outlives the page mover, which is its only user. `copies`: blocks of
  // `node_table::copy_size` bytes, shared with the origins; they outlive the page mover, too.
  page_mover(seams::store_queue &queue,
             std::vector<swappable_memory> ranks,
             const page_mover_options &options,
             std::span<std::byte> copies = {});
  ~page_mover();
  page_mover(const page_mover &) = delete;
  page_mover &operator=(const page_mover &) = delete;

  // Begins a move. All processes are resident at first. `swap_out` requires a resident process, and
  // begins when no request for its pages is left. `swap_in` requires a swapped-out process.
  void begin(const move_order &order);
  // Serves a request, which stays valid until the events report it as released.
  void serve(page_request &request);

  static constexpr uint32_t copy_depth =
      32;  // operations at a time that read into copies, in addition to options.depth
  // Makes progress, and never waits for the store. True: something has changed. After an error,
  // which failure() returns, nothing changes any more.
  bool poll(page_mover_events &events);

  // Drops pages of the cache until it has at most this size, as far as possible. Returns whether it
  // made progress. Progress means that pages were dropped or began to be written. It also means
  // that a second call may evict pages that this call spared, because a request used them since the
  // previous call.
  bool trim(uint64_t size);

  // Bytes.
  uint64_t cached_size() const noexcept {
    return cached_pages_ * page_size;
  }
  // Bytes of these that were read into copies.
  uint64_t copied_size() const noexcept {
    return copied_pages_ * page_size;
  }
  // Bytes read for requests, so far.
  uint64_t served_size() const noexcept {
    return served_pages_ * page_size;
  }
  // Bytes that were read into large pages.
  uint64_t large_size() const noexcept {
    return large_blocks_ * memory_window::block_pages * page_size;
  }
  // Bytes, so far.
  uint64_t written_back_size() const noexcept {
    return written_back_pages_ * page_size;
  }
  // Bytes that were dropped instead of written, because they were zeros, so far.
  uint64_t zero_size() const noexcept {
    return zero_pages_ * page_size;
  }
  // Bytes.
  static uint64_t buffer_size(const page_mover_options &options) noexcept {
    return uint64_t{options.depth} * options.chunk_pages * page_size;
  }
  // No store operation is in flight.
  bool is_idle() const noexcept {
    return busy_count_ == 0;
  }
  bool has_moves() const noexcept {
    return move_count_ != 0;
  }
  bool has_requests() const noexcept {
    return request_count_ != 0;
  }
  // One line; empty: no failure.
  const std::string &failure() const noexcept {
    return failure_;
  }

 private:
  enum class phase : uint8_t { resident, swapping_out, swapped_out, swapping_in };
  enum class purpose : uint8_t { unused, grow, swap_out, swap_in, serve, write_back, copy };

  static constexpr bool reads(purpose kind) noexcept {
    return kind == purpose::swap_in || kind == purpose::serve || kind == purpose::copy;
  }

  class page_set;
  struct rank_space;
  struct active_request;
  struct cached_run;
  struct chunk;

  bool reap();
  void complete(chunk &transfer, const seams::store_completion &completion);
  void complete_swap_out(rank_space &rank, chunk &transfer);
  void complete_read(rank_space &rank, chunk &transfer);
  void complete_write_back(rank_space &rank, chunk &transfer);
  void install_pages(rank_space &rank, page_run pages, const std::byte *source);

  bool advance(rank_space &rank);
  bool begin_swap_out(rank_space &rank);
  void forget_discarded(rank_space &rank);
  void grow(rank_space &rank);
  bool advance_swap_out(rank_space &rank);
  bool write_out(rank_space &rank, page_run pages);
  page_run copy_out(rank_space &rank, page_run pages, chunk &transfer);
  page_run find_write(rank_space &rank, page_run pages, const std::byte *bytes);
  void drop_zeros(rank_space &rank, page_run pages);
  bool write_back(rank_space &rank, page_run pages);
  bool advance_swap_in(rank_space &rank);
  void choose_left_out(rank_space &rank);
  bool read_large(rank_space &rank, uint32_t first);
  void drop_large(rank_space &rank);
  bool finish_move(rank_space &rank, page_mover_events &events);
  bool advance_requests(rank_space &rank, page_mover_events &events);
  void release_request(rank_space &rank, size_t index, page_mover_events &events);
  bool advance_request(rank_space &rank, active_request &active, page_mover_events &events);
  bool serve_copied(rank_space &rank, active_request &active, page_mover_events &events);
  bool serve_in_memory(rank_space &rank, active_request &active, page_mover_events &events);
  bool serve_left_out(rank_space &rank, active_request &active, page_mover_events &events);
  bool post_left_out_reads(rank_space &rank, page_run pages);
  static void mark_served(active_request &active, page_mover_events &events);
  bool begin_copy(rank_space &rank, active_request &active);
  bool advance_copy(rank_space &rank, active_request &active);
  void complete_copy(rank_space &rank, chunk &transfer);
  bool post_reads(rank_space &rank, page_run pages);
  bool are_resident(const rank_space &rank, page_run pages) const;
  void mark_resident(rank_space &rank, page_run pages);

  bool is_needed(const rank_space &rank, page_run pages) const;
  enum class eviction { begun, spared, refused };
  eviction evict(const cached_run &run);
  void drop(rank_space &rank, page_run pages);

  chunk *acquire(purpose kind) noexcept;
  bool has_free_chunk(purpose kind) const noexcept;
  void assign(rank_space &rank, chunk &transfer, page_run pages);
  bool read(rank_space &rank, page_run pages, purpose kind, bool is_direct = false);
  void post(chunk &transfer);
  void release(chunk &transfer) noexcept;
  void record_failure(status code, const char *action, const rank_space &rank, page_run pages);

  seams::store_queue &queue_;
  page_mover_options const options_;
  std::vector<std::unique_ptr<rank_space>> ranks_;
  std::vector<chunk> chunks_;    // those with buffers come first
  std::span<std::byte> memory_;  // the buffers lie in it
  std::span<std::byte> const copies_;
  std::vector<uint32_t> free_copies_;
  uint32_t busy_count_ = 0, busy_out_ = 0, busy_in_ = 0, busy_copies_ = 0;
  uint32_t move_count_ = 0, moves_out_ = 0, moves_in_ = 0, request_count_ = 0;
  std::deque<cached_run> cache_;  // oldest first
  // Pages in the cache, and those of them that are being written back.
  uint64_t cached_pages_ = 0, pages_in_write_back_ = 0;
  uint64_t served_pages_ = 0, copied_pages_ = 0, written_back_pages_ = 0, large_blocks_ = 0;
  uint64_t zero_pages_ = 0;
  uint32_t next_rank_ = 0;  // the rank that is served first in the next round
  std::string failure_;
};

}  // namespace tanada::onesided::swap
