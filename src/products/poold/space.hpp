// products/poold/space.hpp: the pool's memory, in segments.
//
// A segment belongs to one namespace at a time (its owner), or to none. On this node clients map
// the segments of their namespaces, and a descriptor opens all of a segment, so memory that moves
// from one namespace to another is made new or cleared first: no client can see bytes of a
// namespace that is not its own.
//
// Segments are made in the size that their owner needs. A small namespace has a small one, and each
// further one is as large as all that the namespace has (space_owners.cc), up to segment_size. The
// pool begins as segments of the full size. Smaller ones are cut off their ends, or take the place
// of others that nobody owns. Their sizes, and what is spare, add up to the pool's.
//
// The segments of a file are parts of it and all of one size. Clients do not map them, and all
// namespaces share them.
#pragma once

#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "seams/os/guarded_memory.hpp"

namespace tanada::poold {

using wire::pool::piece;

// The file that the pool's memory is mapped from, and what somebody took away of it. Others may cut
// a file while it is mapped; no lock of an ordinary file keeps them from it. What was cut off is
// lost for good, also when the file grows again: what comes then is zeros. Touching it ends nobody
// (seams/os/guarded_memory.hpp). Thread-safe.
class backing_file {
 public:
  // Opens or makes it, with all its blocks. busy: another daemon has it. no_space, no_memory or
  // what the system says, with a message. `size` (bytes) is a multiple of the page size.
  static result<std::unique_ptr<backing_file>> open(const std::string &path, uint64_t size);
  ~backing_file();

  // Where `size` bytes from `offset` on are mapped. `populate`: all pages are brought in.
  result<std::byte *> map(uint64_t offset, uint64_t size, bool populate);

  // Look whether all is there still: one system call. True: more is lost than at the last look.
  bool look();

  // Whether any of this range was lost at the last look.
  bool is_lost(uint64_t offset, uint64_t size) const;

  // The parts of a range that are not lost, in order.
  void visit_whole(uint64_t offset, uint64_t size,
                   const std::function<void(uint64_t offset, uint64_t size)> &take) const;

  uint64_t lost_size() const noexcept {
    return lost_size_.load(std::memory_order_relaxed);
  }

  // io: it could not be written, or nobody will find the file again since it was removed. What is
  // lost syncs well: look.
  status sync(uint64_t offset, uint64_t size);

 private:
  backing_file(std::string path, uint64_t size) : path_{std::move(path)}, size_{size} {}
  status prepare();
  void lose(uint64_t begin, uint64_t end);

  std::string const path_;
  uint64_t const size_;
  int file_ = -1;
  std::byte *addr_ = nullptr;
  bool is_device_ = false;  // it has the size it has
  std::unique_ptr<port::guarded_memory> guard_;
  std::atomic<uint64_t> lost_size_{0};
  std::atomic<bool> is_removed_{false};
  mutable std::mutex mutex_;
  std::map<uint64_t, uint64_t> lost_;  // begin: end, of the file; neighbours are merged
  uint64_t file_size_ = 0;             // the smallest it was seen to have
  size_t lost_page_count_ = 0;         // of the guard, at the last look
};

struct space_options {
  uint64_t capacity = uint64_t{1} << 30;       // bytes; rounded up to whole segments
  uint64_t segment_size = uint64_t{64} << 20;  // bytes, at most; a power of two, 2 MiB at least
  std::string file = {};        // the segments are parts of this file; empty: memory of their own
  bool prefault = true;         // bring all pages in at the start
  uint64_t available_size = 0;  // bytes of memory that may be brought in; 0: ask the kernel
  // Each takes a descriptor and a mapping; 0: as the kernel's limits allow.
  uint32_t segment_count_max = 0;
};

// Bytes of a pool: who owns them, and what is in use of them.
struct space_usage {
  uint64_t capacity = 0;
  uint64_t used = 0;       // by objects
  uint64_t owned = 0;      // in segments that have an owner, used or not
  uint64_t held_back = 0;  // a transfer may still touch them

  // A file that lost a part may have less than what is taken.
  uint64_t free() const noexcept {
    return capacity > owned + held_back ? capacity - owned - held_back : 0;
  }
};

// What one namespace has.
struct owner_usage {
  uint64_t owned = 0;  // bytes of its segments
  uint64_t segment_count = 0;
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

  // Memory of `size` bytes in few pieces, its contents undefined; where segments are lent, never of
  // another owner's. no_space: not that much is left, or only in more pieces than an object may
  // have.
  result<std::vector<piece>> allocate(uint64_t owner, uint64_t size);
  void release(std::span<const piece> pieces);

  // Before objects of the owner come back, so much in all: whatever their order, they find room in
  // it. What has no object when reservations end is free again. No effect where owners share
  // segments, or where not that much is left.
  void reserve(uint64_t owner, uint64_t size);
  void end_reservations();

  // What an object of such a size takes.
  static uint64_t allocated_size(uint64_t size);

  // As allocate, but just those; for recovery of a file. busy: bytes of it are taken; invalid:
  // outside, or in a segment of another owner's.
  status claim(uint64_t owner, std::span<const piece> pieces);

  std::byte *addr(const piece &part) const;

  // For the clients of `owner`; no_entry when the segment is not its own; not_supported where
  // segments share a file. Without `writable` the descriptor is good for reading only.
  result<segment_view> lend(uint64_t owner, uint32_t segment, bool writable);

  // Numbers of segments that the owner's next large allocations take first, in that order. They
  // have `size` free bytes in all, or as many as there are. For clients that prepare memory ahead
  // of its use. Nobody's segments become the owner's for that, but it has at most half of the
  // wholly free ones. They stay unused: others take them when nothing else is left.
  static constexpr size_t reserve_count_max = 256;
  std::vector<uint32_t> reserve_segments(uint64_t owner, uint64_t size);

  // Where a piece lies in the file.
  uint64_t file_offset(const piece &part) const noexcept {
    return part.segment * options_.segment_size + part.offset;
  }

  // The memory that holds a range of the file. All pieces are multiples of small_alignment, so only
  // the last range of an object can be shorter than its piece: rounding up to small_alignment
  // touches no other object's bytes, and leaves the size of every other range as it is. A range
  // that crosses segments, written with another segment size, is split.
  void add_pieces_at(uint64_t offset, uint64_t size, std::vector<piece> &pieces) const;

  // Make the bytes of these pieces durable: of a file. io: they could not be written, or are lost.
  status sync(std::span<const piece> pieces);

  // Look whether the backing file has all its bytes still, and use those no more that it has not. A
  // system call at most.
  void look();

  // How often a look found that something was gone.
  uint64_t loss_count() const noexcept {
    return loss_count_.load(std::memory_order_relaxed);
  }

  // Whether any of the first `size` bytes of these pieces were lost at the last look.
  bool is_lost(std::span<const piece> pieces, uint64_t size) const;

  // Asked before memory goes back to the system. False, after `timeout_ns`: somebody may touch it
  // still; it stays as it is, in nobody's use, and is asked for again. Set before the first use.
  using drop_hook = std::function<bool(const std::byte *addr, size_t size, uint64_t timeout_ns)>;
  void on_drop(drop_hook hook) {
    dropping_ = std::move(hook);
  }

  uint64_t capacity() const noexcept {
    return capacity_ - (file_ != nullptr ? file_->lost_size() : 0);
  }
  uint64_t used() const;
  space_usage usage() const;
  // Nothing where owners share segments.
  owner_usage usage_of(uint64_t owner) const;
  bool is_lendable() const noexcept {
    return options_.file.empty();
  }

  // The smallest segment: 64 KiB, or a huge page where the memory is of those.
  static constexpr uint64_t granule_min = uint64_t{64} << 10;

 private:
  static constexpr uint64_t no_owner = ~uint64_t{0}, common_owner = 0;
  struct segment {
    std::byte *addr = nullptr;
    uint64_t size = 0;
    int descriptor = -1;
    uint64_t owner = no_owner;  // of an unowned one: whose bytes are in it
    bool is_huge = false;       // of huge pages that were set aside
    bool has_huge_pages = false;
    bool lent = false;  // then its size is fixed
    uint64_t used = 0;
    std::map<uint64_t, uint64_t> free = {};  // offset: size
  };
  // By its number, which is another one each time that memory is made.
  using segments = std::map<uint32_t, segment>;
  struct extent {
    uint64_t size;
    uint32_t segment;
    uint64_t offset;
    auto operator<=>(const extent &) const = default;
  };
  struct owned_memory {
    uint64_t size = 0, segment_count = 0;
    std::set<extent> free;
  };
  struct unowned_segment {
    uint64_t before;  // its last owner
    uint64_t size;
    uint32_t number;
    auto operator<=>(const unowned_segment &) const = default;
  };

  explicit space(const space_options &options) : options_{options} {}

  // Memory (space_segments.cc). Of all of these, but for the first, the mutex is held.
  status make_memory(segment &target, uint64_t file_offset);
  status make_all(uint64_t count);
  void drop_memory(segment &old);
  bool may_drop(const segment &old, uint64_t timeout_ns);
  bool shrink(segment &target, uint64_t size);

  // Which segments an owner has (space_owners.cc).
  uint64_t segment_owner(uint64_t owner) const noexcept {
    return is_lendable() ? owner : common_owner;
  }
  uint64_t wanted_size(uint64_t owner, uint64_t needed) const;
  status add_segment(uint64_t owner, uint64_t needed, uint32_t &number);
  status take_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max, uint32_t &number);
  bool find_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max, uint32_t &number) const;
  status clean(uint64_t owner, uint32_t &number);
  status bind_segment(uint64_t owner, uint64_t size, uint32_t &number);
  status make_segment(uint64_t owner, uint64_t size, uint32_t &number);
  status insert_segment(uint64_t size, uint32_t &number);
  status gather(uint64_t size);
  void hand_in(uint32_t number, uint64_t size);
  void reclaim(uint64_t size);
  void use_up_spare();
  void release_held_back();
  void hold_back(uint32_t number);
  void drop_segment(uint32_t number);
  void own(uint32_t number, uint64_t owner);
  void disown(uint32_t number);
  void insert_unowned(uint32_t number);
  void erase_unowned(uint32_t number);

  // What is free of them (space.cc).
  void give(uint32_t number, uint64_t offset, uint64_t size);
  void give_whole(uint32_t number, uint64_t offset, uint64_t size);
  bool is_free(const segment &home) const;
  void retire_lost();
  void cut(const extent &place, uint64_t used_size);
  status claim_one(uint64_t owner, const piece &part);
  bool take(const extent &place, uint64_t size, uint64_t alignment, piece &taken);
  bool take_fitting(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken);
  bool take_largest(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken);
  bool take_some(uint64_t owner, uint64_t size, uint64_t alignment, piece &taken);

  space_options options_;
  drop_hook dropping_;
  std::unique_ptr<backing_file> file_;
  std::atomic<uint64_t> loss_count_{0};
  uint64_t capacity_ = 0, granule_ = granule_min;
  mutable std::mutex mutex_;
  segments segments_;
  std::map<uint64_t, owned_memory> owned_;  // by owner
  // Segments that are wholly free.
  std::set<std::pair<uint64_t, uint32_t>> unowned_;  // size, number
  std::set<unowned_segment> unowned_by_owner_;
  std::set<uint32_t> quarantine_;  // those that somebody may touch still: nobody's, and not given
  uint64_t unowned_size_ = 0, quarantine_size_ = 0;
  uint64_t spare_size_ = 0;  // of the pool, and in no segment
  uint32_t next_number_ = 0;
  uint64_t used_ = 0;
};

}  // namespace tanada::poold
