// products/poold/pool_memory.hpp: the pool's memory, in segments.
//
// A segment belongs to one namespace at a time (its owner), or to none. Clients on this node map
// the segments of their namespaces, and a descriptor gives access to a whole segment. Memory that
// moves from one namespace to another is therefore recreated or cleared first: no client can see
// bytes of another namespace.
//
// Segments are created in the size that their owner needs. A small namespace has a small segment,
// and each further one is as large as all that the namespace has (segment_owners.cc), up to
// segment_size. The pool starts with segments of the full size. Smaller ones are cut off their
// ends, or replace unowned segments. The sizes of all segments and the spare memory add up to the
// pool's capacity.
//
// The segments of a file are parts of it, all of one size, and all namespaces share them. Clients
// map them only where no process can truncate the file.
#pragma once

#include <atomic>
#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "products/poold/backing_file.hpp"

namespace tanada::poold {

using wire::pool::pool_extent;

struct memory_options {
  uint64_t capacity = uint64_t{1} << 30;       // bytes; rounded up to whole segments
  uint64_t segment_size = uint64_t{64} << 20;  // maximum bytes; a power of two, at least 2 MiB
  std::string file = {};  // the segments are parts of this file; empty: anonymous memory
  bool prefault = true;   // populate all pages at the start
  // Maps the file if it is in persistent memory; null: it never is.
  seams::persistent_memory *persistent = nullptr;
  uint64_t available_size = 0;  // bytes of memory that may be populated; 0: ask the kernel
  // Each segment takes a descriptor and a mapping; 0: derived from the kernel's limits.
  uint32_t segment_count_max = 0;
};

// The bytes of a pool, by ownership and use.
struct memory_usage {
  uint64_t capacity = 0;
  uint64_t used = 0;         // allocated to objects
  uint64_t owned = 0;        // in segments that have an owner, used or not
  uint64_t quarantined = 0;  // in quarantine: a transfer may still access them

  // The capacity of a file with losses may be less than what is in use.
  uint64_t free() const noexcept {
    return capacity > owned + quarantined ? capacity - owned - quarantined : 0;
  }
};

// The memory of one namespace.
struct owner_usage {
  uint64_t owned = 0;  // bytes of its segments
  uint64_t segment_count = 0;
};

// A segment's memory for a client to map. The caller closes the descriptor.
struct segment_view {
  int descriptor = -1;
  uint64_t size = 0, file_offset = 0;
  bool is_huge = false;  // all of its pages are huge pages
};

// Thread-safe.
class pool_memory {
 public:
  // invalid: bad sizes. no_memory, no_space, or an error of backing_file::open, with a message.
  static result<std::unique_ptr<pool_memory>> create(const memory_options &options);
  ~pool_memory();

  // Allocate `size` bytes in few pieces, with undefined contents. Where clients can map segments,
  // the contents are never another owner's bytes. no_space: not enough memory is free, or only in
  // more pieces than an object may have. again: is_held().
  result<std::vector<pool_extent>> allocate(uint64_t owner, uint64_t size);
  void release(std::span<const pool_extent> pieces);

  // Reserve `size` bytes in all before the owner's objects are restored, so that they fit in any
  // order. end_reservations() frees the segments that no object uses. No effect where owners share
  // segments, or where less than `size` is free.
  void reserve(uint64_t owner, uint64_t size);
  void end_reservations();

  // The memory that an object of `size` bytes takes.
  static uint64_t allocated_size(uint64_t size);

  // Allocate exactly these pieces, for the recovery of a file. All or none of them. busy: some of
  // their bytes are in use. invalid: a piece is empty, misaligned, out of bounds, or in a segment
  // of another owner.
  status claim(uint64_t owner, std::span<const pool_extent> pieces);

  std::byte *addr(const pool_extent &part) const;

  // A descriptor of a segment for a client of `owner`, read-only unless `writable`. no_entry: the
  // segment is not the owner's. not_supported: is_exportable() is false. io: the segment cannot be
  // sealed or locked. too_many_files: the process has no free descriptor.
  result<segment_view> export_segment(uint64_t owner, uint32_t segment, bool writable);

  // Numbers of segments that the owner's next large allocations take first, in that order, for
  // clients that map memory ahead of its use. Together they have `size` free bytes, or all that
  // are free. Unowned segments are reserved for the owner, up to half of the wholly free ones.
  // They stay unowned: other owners take them when no other memory is left.
  static constexpr size_t reserve_count_max = 256;
  std::vector<uint32_t> reserve_segments(uint64_t owner, uint64_t size);

  // The offset of a piece in the file.
  uint64_t file_offset(const pool_extent &part) const noexcept {
    return part.segment * options_.segment_size + part.offset;
  }

  // Append the pieces that hold a range of the file. All pieces are multiples of small_alignment,
  // so only the last range of an object can be shorter than its piece. Rounding up to
  // small_alignment therefore includes no other object's bytes and changes no other range. A range
  // that crosses segments was written with another segment size, and is split.
  void add_pieces_at(uint64_t offset, uint64_t size, std::vector<pool_extent> &pieces) const;

  // Memory to make durable together, such as that of one transaction, and the outcome.
  struct sync_request {
    std::vector<pool_extent> pieces;
    status outcome = status::ok;  // io: bytes could not be written, or are lost
  };

  // Make the bytes of all requests durable in the file, in at most sync_count_max syncs. A sync
  // takes as long as writing some megabytes, so ranges with smaller gaps share one. If there are
  // more, one sync writes all that lies between them. A failed sync fails all requests, because the
  // kernel reports a failed write once, to any of them. In persistent memory exactly the pieces are
  // flushed.
  static constexpr size_t sync_count_max = 4;
  void sync(std::span<sync_request> requests);
  status sync(std::span<const pool_extent> pieces);

  // Check the backing file for lost bytes and stop allocating them. At most one system call, and
  // one more while the memory is held.
  void check_losses();

  // The number of checks that found new losses.
  uint64_t loss_count() const noexcept {
    return loss_count_.load(std::memory_order_relaxed);
  }

  // Whether the last check found any of the first `size` bytes of these pieces lost.
  bool is_lost(std::span<const pool_extent> pieces, uint64_t size) const;

  // Called before memory is returned to the system. False, after `timeout_ns`: a transfer may still
  // access it; the segment is then quarantined, unchanged and unused, and the hook is called again
  // later. Set before the first use.
  using drop_hook = std::function<bool(const std::byte *addr, size_t size, uint64_t timeout_ns)>;
  void set_drop_hook(drop_hook hook) {
    drop_hook_ = std::move(hook);
  }

  uint64_t capacity() const noexcept {
    return capacity_ - (file_ != nullptr ? file_->lost_size() : 0);
  }
  uint64_t used() const;
  memory_usage usage() const;
  // Zeros where owners share segments.
  owner_usage usage_of(uint64_t owner) const;
  // Segments belong to one owner at a time. False: all owners share them.
  bool binds_segments() const noexcept {
    return options_.file.empty();
  }
  // Clients may map segments. Where all owners share them, only clients with rights for all.
  bool is_exportable() const noexcept {
    return binds_segments() || (!is_held() && file_->is_exportable(options_.segment_size));
  }
  // Nothing is allocated, because clients of a previous daemon may still write to the memory.
  bool is_held() const noexcept {
    return is_held_.load(std::memory_order_relaxed);
  }
  bool is_persistent() const noexcept {
    return file_ != nullptr && file_->is_persistent();
  }

  // The smallest segment: 64 KiB, or a huge page where the memory consists of huge pages.
  static constexpr uint64_t granule_min = uint64_t{64} << 10;

 private:
  static constexpr uint64_t no_owner = ~uint64_t{0}, common_owner = 0;
  struct segment {
    std::byte *addr = nullptr;
    uint64_t size = 0;
    int descriptor = -1;
    uint64_t owner = no_owner;  // of an unowned segment: the owner of the bytes in it
    bool is_huge = false;       // made of reserved huge pages (MFD_HUGETLB)
    bool has_huge_pages = false;
    bool is_exported = false;  // a client may map it, so its size is fixed
    uint64_t used = 0;
    std::map<uint64_t, uint64_t> free = {};  // offset -> size
  };
  // By number. New memory gets a new number.
  using segments = std::map<uint32_t, segment>;
  struct free_extent {
    uint64_t size;
    uint32_t segment;
    uint64_t offset;
    auto operator<=>(const free_extent &) const = default;
  };
  struct owned_memory {
    uint64_t size = 0, segment_count = 0;
    std::set<free_extent> free;
  };
  struct unowned_segment {
    uint64_t last_owner;  // the previous owner
    uint64_t size;
    uint32_t number;
    auto operator<=>(const unowned_segment &) const = default;
  };

  explicit pool_memory(const memory_options &options) : options_{options} {}

  // Memory (segment_memory.cc).
  void update_hold();
  result<segment_view> export_part(uint32_t number, bool writable);
  status make_memory(segment &target, uint64_t file_offset);
  bool make_anonymous_memory(segment &target, bool is_huge) const;
  status populate(segments &created);
  status create_segments(uint64_t count);
  struct segment_list;
  struct free_segments;
  void list_owned(uint64_t owner, segment_list &list) const TND_REQUIRES(mutex_);
  free_segments find_free_segments(uint64_t owner) const TND_REQUIRES(mutex_);
  void drop_memory(segment &old);
  bool may_drop(const segment &old, uint64_t timeout_ns);
  bool shrink(segment &target, uint64_t size);

  // Assignment of segments to owners (segment_owners.cc).
  uint64_t segment_owner(uint64_t owner) const noexcept {
    return binds_segments() ? owner : common_owner;
  }
  uint64_t segment_size_for(uint64_t owner, uint64_t needed) const TND_REQUIRES(mutex_);
  status add_segment(uint64_t owner, uint64_t needed, uint32_t &number) TND_REQUIRES(mutex_);
  status take_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max, uint32_t &number)
      TND_REQUIRES(mutex_);
  bool find_unowned(uint64_t owner, uint64_t size_min, uint64_t size_max, uint32_t &number) const
      TND_REQUIRES(mutex_);
  status clear_for_owner(uint64_t owner, uint32_t &number) TND_REQUIRES(mutex_);
  status bind_segment(uint64_t owner, uint64_t size, uint32_t &number) TND_REQUIRES(mutex_);
  status make_segment(uint64_t owner, uint64_t size, uint32_t &number) TND_REQUIRES(mutex_);
  status insert_segment(uint64_t size, uint32_t &number) TND_REQUIRES(mutex_);
  status collect_spare(uint64_t size) TND_REQUIRES(mutex_);
  void make_spare(uint32_t number, uint64_t size) TND_REQUIRES(mutex_);
  void reclaim(uint64_t size) TND_REQUIRES(mutex_);
  void convert_spare() TND_REQUIRES(mutex_);
  void release_quarantine() TND_REQUIRES(mutex_);
  void quarantine_segment(uint32_t number) TND_REQUIRES(mutex_);
  void drop_segment(uint32_t number) TND_REQUIRES(mutex_);
  void assign_segment(uint32_t number, uint64_t owner) TND_REQUIRES(mutex_);
  void unassign_segment(uint32_t number) TND_REQUIRES(mutex_);
  void insert_unowned(uint32_t number) TND_REQUIRES(mutex_);
  void erase_unowned(uint32_t number) TND_REQUIRES(mutex_);

  std::vector<backing_file::range> sync_ranges(std::span<const sync_request> requests) const;

  // Free extents of the segments (pool_memory.cc).
  void add_free(uint32_t number, uint64_t offset, uint64_t size) TND_REQUIRES(mutex_);
  void add_free_intact(uint32_t number, uint64_t offset, uint64_t size) TND_REQUIRES(mutex_);
  bool is_free(const segment &seg) const TND_REQUIRES(mutex_);
  void remove_lost() TND_REQUIRES(mutex_);
  void use_front(const free_extent &place, uint64_t used_size) TND_REQUIRES(mutex_);
  status claim_piece(uint64_t owner, const pool_extent &part) TND_REQUIRES(mutex_);
  bool allocate_from(const free_extent &place,
                     uint64_t size,
                     uint64_t alignment,
                     pool_extent &allocated) TND_REQUIRES(mutex_);
  bool allocate_best_fit(uint64_t owner, uint64_t size, uint64_t alignment, pool_extent &allocated)
      TND_REQUIRES(mutex_);
  bool allocate_largest(uint64_t owner, uint64_t size, uint64_t alignment, pool_extent &allocated)
      TND_REQUIRES(mutex_);
  bool allocate_piece(uint64_t owner, uint64_t size, uint64_t alignment, pool_extent &allocated)
      TND_REQUIRES(mutex_);

  memory_options options_;
  drop_hook drop_hook_;
  std::unique_ptr<backing_file> file_;
  std::atomic<uint64_t> loss_count_{0};
  std::atomic<bool> is_held_{false};
  uint64_t capacity_ = 0, granule_ = granule_min;
  mutable mutex mutex_;
  segments segments_ TND_GUARDED_BY(mutex_);
  std::map<uint64_t, owned_memory> owned_ TND_GUARDED_BY(mutex_);  // by owner
  // Wholly free segments: size, number.
  std::set<std::pair<uint64_t, uint32_t>> unowned_ TND_GUARDED_BY(mutex_);
  std::set<unowned_segment> unowned_by_owner_ TND_GUARDED_BY(mutex_);
  // Segments that a transfer may still access, not allocated.
  std::set<uint32_t> quarantine_ TND_GUARDED_BY(mutex_);
  uint64_t unowned_size_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t quarantine_size_ TND_GUARDED_BY(mutex_) = 0;
  // Bytes of the pool that are in no segment.
  uint64_t spare_size_ TND_GUARDED_BY(mutex_) = 0;
  uint32_t next_number_ TND_GUARDED_BY(mutex_) = 0;
  uint64_t used_ TND_GUARDED_BY(mutex_) = 0;
};

}  // namespace tanada::poold
