// poold/space.hpp: the pool's memory, in segments.
//
// A segment belongs to one namespace at a time (its owner), or to none. On this node clients map the segments of their
// namespaces, so memory that moves from one namespace to another is made new or cleared first: no client can see bytes of
// a namespace that is not its own. The segments of a file are not mapped by clients, and all namespaces share them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "poold/backing_file.hpp"
#include "wire/pool.hpp"

namespace tanada::poold {

using wire::pool::piece;

struct space_options {
  uint64_t capacity = uint64_t{1} << 30;      // bytes; rounded up to whole segments
  uint64_t segment_size = uint64_t{64} << 20;  // bytes; a power of two, 2 MiB at least
  std::string file = {};                       // the segments are parts of this file; empty: memory of their own
  bool prefault = true;                        // bring all pages in at the start
  uint64_t available_size = 0;                 // bytes of memory that may be brought in; 0: ask the kernel
};

// A segment's memory for a client to map. The descriptor is the caller's to close.
struct segment_view {
  int descriptor = -1;
  uint64_t size = 0, file_offset = 0;
  bool is_huge = false;  // all of its pages are huge ones
};

// Thread-safe.
class space {
 public:
  // no_memory, no_space or what the file's system calls say, with a message.
  static result<std::unique_ptr<space>> create(const space_options &options);
  ~space();

  // Memory of `size` bytes in few pieces, its contents undefined; where segments are lent, never of another owner's. no_space:
  // not that much is left, or only in more pieces than an object may have.
  result<std::vector<piece>> allocate(uint64_t owner, uint64_t size);
  void release(std::span<const piece> pieces);

  // As allocate, but just those; for recovery of a file. busy: bytes of it are taken; invalid: outside, or in a segment of
  // another owner's.
  status claim(uint64_t owner, std::span<const piece> pieces);

  std::byte *addr(const piece &part) const;

  // For the clients of `owner`; no_entry when the segment is not its own; not_supported where segments share a file.
  // Without `writable` the descriptor is good for reading only.
  result<segment_view> lend(uint64_t owner, uint32_t segment, bool writable);

  // Numbers of segments that the owner's next large allocations take first, in that order. They
  // have `size` free bytes in all, or as many as there are. For clients that prepare memory ahead
  // of its use. Nobody's segments become the owner's for that, but it has at most half of the
  // wholly free ones. They stay unused: others take them when nothing else is left.
  static constexpr size_t reserve_count_max = 256;
  std::vector<uint32_t> reserve(uint64_t owner, uint64_t size);

  // Where a piece lies in the file.
  uint64_t file_offset(const piece &part) const noexcept { return part.segment * options_.segment_size + part.offset; }

  // The memory that holds a range of the file. All pieces are multiples of small_alignment, so only the last range of an
  // object can be shorter than its piece: rounding up to small_alignment touches no other object's bytes, and leaves the
  // size of every other range as it is. A range that crosses segments, written with another segment size, is split.
  void add_pieces_at(uint64_t offset, uint64_t size, std::vector<piece> &pieces) const;

  // Make the bytes of these pieces durable: of a file. io: they could not be written, or are lost.
  status sync(std::span<const piece> pieces);

  // Look whether the backing file has all its bytes still, and use those no more that it has not. A system call at most.
  void look();

  // How often a look found that something was gone.
  uint64_t loss_count() const noexcept { return loss_count_.load(std::memory_order_relaxed); }

  // Whether any of the first `size` bytes of these pieces were lost at the last look.
  bool is_lost(std::span<const piece> pieces, uint64_t size) const;

  // Asked before memory goes back to the system. False, after `timeout_ns`: somebody may touch it still; it stays as it is,
  // in nobody's use, and is asked for again. Set before the first use.
  using drop_hook = std::function<bool(const std::byte *addr, size_t size, uint64_t timeout_ns)>;
  void on_drop(drop_hook hook) { dropping_ = std::move(hook); }

  uint64_t capacity() const noexcept {
    return uint64_t(segments_.size()) * options_.segment_size - (file_ != nullptr ? file_->lost_size() : 0);
  }
  uint64_t used() const;
  bool is_lendable() const noexcept { return options_.file.empty(); }

 private:
  static constexpr uint64_t no_owner = ~uint64_t{0}, common_owner = 0;
  struct slot {
    uint32_t number = 0;  // of the segment; another one each time its memory is made new
    std::byte *addr = nullptr;
    int descriptor = -1, read_descriptor = -1;
    uint64_t owner = no_owner;
    bool lent = false, is_huge = false;
    std::map<uint64_t, uint64_t> free;  // offset: size
  };
  struct extent {
    uint64_t size;
    uint32_t slot;
    uint64_t offset;
    auto operator<=>(const extent &) const = default;
  };

  explicit space(const space_options &options) : options_{options} {}
  status make_memory(slot &made);
  void drop_memory(slot &old);
  bool may_drop(const slot &old, uint64_t timeout_ns);
  // Segments that nobody maps belong to all owners together.
  uint64_t segment_owner(uint64_t owner) const noexcept { return is_lendable() ? owner : common_owner; }
  uint32_t best_unowned(uint64_t owner) const;
  status renew(uint32_t index);
  status take_slot(uint64_t owner, uint32_t &index);
  void own(uint32_t index, uint64_t owner);
  void give(uint32_t index, uint64_t offset, uint64_t size);
  void give_whole(uint32_t index, uint64_t offset, uint64_t size);
  void retire_lost();
  void cut(uint32_t index, uint64_t offset, uint64_t size, uint64_t used_size);
  status claim_one(uint64_t owner, const piece &part);
  bool take_best(uint64_t owner, uint64_t size, uint64_t alignment, std::vector<piece> &pieces, uint64_t &got);
  slot &slot_of(uint32_t number);
  const slot &slot_of(uint32_t number) const;

  space_options options_;
  drop_hook dropping_;
  std::unique_ptr<backing_file> file_;
  std::atomic<uint64_t> loss_count_{0};
  mutable std::mutex mutex_;
  std::vector<slot> segments_;
  std::map<uint32_t, uint32_t> by_number_;
  std::set<uint32_t> unowned_;                         // slots that are wholly free
  std::set<uint32_t> quarantine_;                      // those that somebody may touch still: nobody's, and not given
  std::map<uint64_t, std::set<extent>> free_by_size_;  // of each owner
  uint32_t next_number_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tanada::poold
