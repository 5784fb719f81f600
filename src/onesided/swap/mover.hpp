// onesided/swap/mover.hpp: pages between the memory of a node's processes and their swap objects.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onesided/swap/board.hpp"
#include "onesided/swap/memory_window.hpp"
#include "seams/store/store.hpp"

namespace tanada::comex::swap {

struct mover_options {
  uint32_t chunk_pages = 512;  // at most, of one operation of the store
  uint32_t depth = 16;         // operations at a time; each has a buffer of a chunk
};

// A process whose memory moves.
struct swappable {
  memory_file memory;
  page_bits stored;  // its object holds the page's bytes as they are
  port::store_file object;
  std::unique_ptr<memory_window> window = nullptr;  // null: all is copied by the system
};

// What has come to its end.
struct mover_news {
  struct end_of_move {
    order which;
    board::move_result result;
  };
  std::vector<end_of_move> moves;
  std::vector<request *>
      served;  // their pages are in the target's memory, or in the copy that it says
  std::vector<request *> released;  // their origins are done
};

// Out: pages that are not stored are written, all are dropped. In: pages that are stored and not
// there are read. Pages never touched are nowhere. A process that is away may have some pages in
// its memory nevertheless, brought for others by requests: the cache. They stay while a request
// needs them, and then until trim() drops those that nobody asked for lately, the written ones into
// the object first.
//
// Blocks that come as a whole come into large pages, into which the store reads itself, and leave
// from there. They are dropped when all of their process is stored. What is there in small pages
// goes by buffers.
//
// Requests that only read have copies, as long as there are some left: pages that are in the object
// alone are read right into one, and no memory of their process is taken, mapped and dropped for
// them.
//
// Who may touch memory meanwhile: that of a process whose move out has begun, nobody; that of one
// that is away, or coming, the origins of served requests, in the pages they asked for.
//
// Thread safety: one thread at a time.
class mover {
 public:
  // The queue outlives it, and is its own meanwhile.
  // copies: of board::copy_size, shared with the origins; outlive it, too.
  mover(port::store_queue &queue, std::vector<swappable> ranks, const mover_options &chosen,
        std::span<std::byte> copies = {});
  ~mover();
  mover(const mover &) = delete;
  mover &operator=(const mover &) = delete;

  // At first all are whole. out: of one that is whole; begins when no request for its pages is
  // left. in: of one that is away.
  void begin(const order &which);
  // Stays until news say that it is released.
  void serve(request &which);

  static constexpr uint32_t copy_depth =
      32;  // operations at a time that read into copies, beside options.depth
  // Goes on; never waits for the store. True: something has happened. What has failed is in
  // failure(); nothing happens any more then.
  bool poll(mover_news &news);

  // Drops pages of the cache, as far as it can, until it is no larger. Returns whether it got any
  // further: whether pages left or began to leave, or a second call may evict pages that this one
  // spared because a request has used them since the call before.
  bool trim(uint64_t size);

  uint64_t cached_size() const noexcept {
    return cached_pages_ * page_size;
  }  // bytes
  uint64_t copied_size() const noexcept {
    return copied_pages_ * page_size;
  }  // bytes of them that copies were made of
  uint64_t served_size() const noexcept {
    return served_pages_ * page_size;
  }  // bytes read for requests, so far
  uint64_t large_size() const noexcept {
    return large_blocks_ * memory_window::block_pages * page_size;
  }  // bytes that came into large pages
  uint64_t written_back_size() const noexcept {
    return written_back_pages_ * page_size;
  }  // bytes, so far
  static uint64_t buffer_size(const mover_options &chosen) noexcept {
    return uint64_t{chosen.depth} * chosen.chunk_pages * page_size;
  }  // bytes
  bool is_idle() const noexcept {
    return busy_count_ == 0;
  }  // nothing is under way at the store
  bool has_moves() const noexcept {
    return move_count_ != 0;
  }
  bool has_requests() const noexcept {
    return serving_count_ != 0;
  }
  const std::string &failure() const noexcept {
    return failure_;
  }  // one line; empty: none

 private:
  enum class phase : uint8_t { whole, leaving, away, coming };
  enum class purpose : uint8_t { none, grow, out, in, serve, write_back, copy };

  static constexpr bool reads(purpose why) noexcept {
    return why == purpose::in || why == purpose::serve || why == purpose::copy;
  }

  class page_set;
  struct rank_space;
  struct serving;
  struct cached_run;
  struct chunk;

  bool reap();
  void complete(chunk &which, const port::store_completion &done);
  void complete_out(rank_space &of, chunk &which);
  void complete_read(rank_space &of, chunk &which);
  void complete_write_back(rank_space &of, chunk &which);
  void bring(rank_space &of, page_run pages, const std::byte *from);

  bool advance(rank_space &of);
  bool begin_out(rank_space &of);
  void grow(rank_space &of);
  bool advance_out(rank_space &of);
  bool advance_in(rank_space &of);
  bool read_large(rank_space &of, uint32_t first);
  void drop_large(rank_space &of);
  bool end_move(rank_space &of, mover_news &news);
  bool advance_requests(rank_space &of, mover_news &news);
  bool begin_copy(rank_space &of, serving &each);
  bool advance_copy(rank_space &of, serving &each);
  void complete_copy(rank_space &of, chunk &which);
  bool ask_for(rank_space &of, page_run pages);
  bool is_there(const rank_space &of, page_run pages) const;
  void keep(rank_space &of, page_run pages);

  bool is_needed(const rank_space &of, page_run pages) const;
  enum class eviction { begun, spared, refused };
  eviction evict(const cached_run &which);
  void drop(rank_space &of, page_run pages);

  chunk *acquire(purpose why) noexcept;
  bool has_room(purpose why) const noexcept;
  bool write(rank_space &of, page_run pages, purpose why, bool is_direct = false);
  bool read(rank_space &of, page_run pages, purpose why, bool is_direct = false);
  void post(chunk &which);
  void release(chunk &which) noexcept;
  void fail_by(status code, const char *what, const rank_space &of, page_run pages);

  port::store_queue &queue_;
  mover_options const options_;
  std::vector<std::unique_ptr<rank_space>> ranks_;
  std::vector<chunk> chunks_;    // those with buffers first
  std::span<std::byte> memory_;  // that buffers lie in
  std::span<std::byte> const copies_;
  std::vector<uint32_t> free_copies_;
  uint32_t busy_count_ = 0, busy_out_ = 0, busy_in_ = 0, busy_copies_ = 0;
  uint32_t move_count_ = 0, moves_out_ = 0, moves_in_ = 0, serving_count_ = 0;
  std::deque<cached_run> cache_;                   // oldest first
  uint64_t cached_pages_ = 0, leaving_pages_ = 0;  // of them, those being written back
  uint64_t served_pages_ = 0, copied_pages_ = 0, written_back_pages_ = 0, large_blocks_ = 0;
  uint32_t first_ = 0;  // whose turn it is to go first
  std::string failure_;
};

}  // namespace tanada::comex::swap
