// products/poold/object.hpp: an object's memory and what is known of it.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/wire/pool.hpp"
#include "products/poold/space.hpp"

namespace tanada::poold {

using wire::pool::info;

// What objects of a namespace share. Outlives them.
struct owner_account {
  uint64_t id = 0;
  std::atomic<uint64_t> used{
      0};  // bytes of all objects, those being written and those only held open, too
};

// Being written by one session, and unchangeable from its commit on. Whoever may still look at it
// holds a reference: the catalog, open handles, transfers, the journal. Its memory goes back with
// the last one.
class object {
 public:
  object(space &home, std::shared_ptr<owner_account> owner)
      : home_{home}, owner_{std::move(owner)} {}
  object(const object &) = delete;
  object &operator=(const object &) = delete;
  ~object();

  // Take in memory that was allocated, or claimed, for the owner.
  void add(std::vector<piece> pieces);

  // The memory of [offset, offset + size), which lies within allocated_size(), added to `parts`.
  void parts_of(uint64_t offset, uint64_t size, std::vector<iovec> &parts) const;

  // False: it was damaged when the daemon started, or bytes of it lay in a part of the backing file
  // that was gone at the last look.
  bool is_whole() const {
    return !is_damaged && !home_.is_lost(pieces_, about.size);
  }
  bool is_whole_now() const {
    home_.look();
    return is_whole();
  }

  const std::vector<piece> &pieces() const noexcept {
    return pieces_;
  }
  uint64_t allocated_size() const noexcept {
    return allocated_size_;
  }
  uint64_t owner() const noexcept {
    return owner_->id;
  }

  // What a client is told.
  info described() const {
    info copy = about;
    copy.flags = flags.load(std::memory_order_relaxed);
    return copy;
  }

  info about;  // unchangeable from the commit on, but for the flags, which are here:
  std::atomic<uint32_t> flags{0};
  // A restart loses nothing when it finds other bytes in its place: the journal of a file does not
  // have it, or has it as evictable whichever of its failed changes a restart finds. The flags
  // above may be ahead of the journal.
  std::atomic<bool> may_vanish{true};
  bool loss_is_told = false;  // of the catalog
  bool is_damaged =
      false;  // the restart could not bring its bytes back; it may have less memory than its size

 private:
  struct part {
    uint64_t begin;  // in the object
    std::byte *addr;
    uint64_t size;
  };
  space &home_;
  std::shared_ptr<owner_account> owner_;
  std::vector<piece> pieces_;
  std::vector<part> parts_;
  uint64_t allocated_size_ = 0;
};

using object_ref = std::shared_ptr<object>;

// Which bytes of an object have been written. Its memory has old bytes where nothing was: they are
// cleared before anybody reads it.
class written_ranges {
 public:
  void add(uint64_t offset, uint64_t size);
  size_t count() const noexcept {
    return ranges_.size();
  }

  // Nothing at or behind `size` counts as written any more.
  void cut(uint64_t size);

  // Clear what is not written in [0, size), as far as `budget` bytes go, which get less by what was
  // done. True: all of it is written now.
  bool clear_gaps(const object &target, uint64_t size, uint64_t &budget);

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin: end; neighbours are merged
};

// More ranges than this are not kept: the gaps are cleared. Where the client, or the fabric, may
// have written to a gap already and not said so yet, that cannot be, and there are more of them at
// most.
inline constexpr size_t written_range_count_max = 65536, unseen_range_count_max = 1 << 20;

}  // namespace tanada::poold
