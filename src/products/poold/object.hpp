// products/poold/object.hpp: an object's memory and metadata.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/wire/pool.hpp"
#include "products/poold/pool_memory.hpp"
#include "products/poold/stripe_ledger.hpp"

namespace tanada::poold {

using wire::pool::info;
using wire::pool::list_request;

// The account that all objects of a namespace are charged to. Outlives them.
struct owner_account {
  uint64_t id = 0;
  std::atomic<uint64_t> used{
      0};  // bytes of all objects, including uncommitted ones and removed ones still open
  // The same of all namespaces of the pool; null: nobody counts them.
  std::shared_ptr<std::atomic<uint64_t>> pool_used{};
  pool_memory *memory = nullptr;  // of all objects of the pool
};

// What a striped object is to clients. Its own bytes are its manifest, and its namespace is charged
// for the bytes of its stripes.
class striped_head {
 public:
  striped_head(std::shared_ptr<stripe_ledger> ledger,
               striped_key key,
               std::shared_ptr<owner_account> owner)
      : ledger_{std::move(ledger)}, key_{std::move(key)}, owner_{std::move(owner)} {
    ledger_->add(key_);
  }
  striped_head(const striped_head &) = delete;
  striped_head &operator=(const striped_head &) = delete;
  ~striped_head() {
    charge(0);
    ledger_->remove(key_);
  }
  const wire::pool::striped_id &id() const noexcept {
    return key_.second;
  }
  // Charge the namespace for this many bytes, instead of those before.
  void charge(uint64_t charged) {
    owner_->used.fetch_add(charged - charged_size_, std::memory_order_relaxed);
    charged_size_ = charged;
  }
  uint64_t charged_size() const noexcept {
    return charged_size_;
  }

  uint64_t size = 0, checksum = 0;
  uint32_t checksum_kind = 0;
  wire::pool::erasure_layout layout;  // without an erasure code: its scheme is off

 private:
  std::shared_ptr<stripe_ledger> const ledger_;
  striped_key const key_;
  std::shared_ptr<owner_account> const owner_;
  uint64_t charged_size_ = 0;
};

// An object is written by one session and is immutable once committed. The catalog, open handles,
// transfers and the journal each hold a reference while they use it. The last reference releases
// its memory.
//
// A cold object has no memory: its bytes are only in the log, where `logged_version` identifies
// them. An object leaves memory, and returns, as another instance with the same metadata, which
// replaces this one in the catalog. So references keep what they have.
class object {
 public:
  explicit object(std::shared_ptr<owner_account> owner) : owner_{std::move(owner)} {}

  // A cold object, which its namespace is charged for.
  object(std::shared_ptr<owner_account> owner, const info &about, uint64_t logged)
      : metadata{about}, logged_version{logged}, owner_{std::move(owner)} {
    is_cold_ = true;
    set_charged(true);
  }
  object(const object &) = delete;
  object &operator=(const object &) = delete;
  ~object();

  // Append memory that was allocated or claimed for the owner, and charge the owner for it, unless
  // it is still charged for another instance.
  void add_pieces(std::vector<pool_extent> pieces, bool charges = true);

  // The owner is charged for this instance, and no longer for the previous one of the same object.
  // Called under the catalog's mutex.
  void take_charge(object &previous) {
    set_charged(true);
    previous.set_charged(false);
  }

  // Append the memory of [offset, offset + size) to `parts`. The range must lie within
  // allocated_size().
  void append_parts(uint64_t offset, uint64_t size, std::vector<iovec> &parts) const;

  // False: the object was damaged when the daemon started, or the last check of the backing file
  // found some of its bytes lost.
  bool is_intact() const {
    return !is_damaged && !memory().is_lost(pieces(), metadata.size);
  }
  bool check_intact() const {
    memory().check_losses();
    return is_intact();
  }

  std::span<const pool_extent> pieces() const noexcept {
    if (scattered_ != nullptr)
      return scattered_->pieces;
    return {&first_piece_, allocated_size_ != 0 ? size_t{1} : size_t{0}};
  }
  uint64_t allocated_size() const noexcept {
    return allocated_size_;
  }
  uint64_t owner() const noexcept {
    return owner_->id;
  }
  const std::shared_ptr<owner_account> &account() const noexcept {
    return owner_;
  }
  bool is_cold() const noexcept {
    return is_cold_;
  }
  // What the object takes of the pool, in memory or not.
  uint64_t stored_size() const noexcept {
    return is_cold_ ? metadata.size : allocated_size_;
  }

  // The metadata that a client receives.
  info client_metadata() const {
    info copy = metadata;
    copy.flags = flags.load(std::memory_order_relaxed);
    if (striped != nullptr) {
      copy.size = striped->size;
      copy.checksum = striped->checksum;
      copy.checksum_kind = striped->checksum_kind;
    }
    return copy;
  }

  info metadata;  // immutable once committed, except for the flags, which are kept separately:
  std::atomic<uint32_t> flags{0};
  std::atomic<uint32_t> last_read_s{0};  // of a cold object: of the clock; 0: not read
  // The version under which the log has the object's bytes; 0: it does not have them (yet).
  std::atomic<uint64_t> logged_version{0};
  // Of a striped object whose manifest is known or is being written; else null.
  std::unique_ptr<striped_head> striped;
  // The object's memory in a backing file may be overwritten without loss after a restart: the
  // journal does not contain the object, or has it as evictable whichever of the failed changes a
  // restart finds. `flags` may be ahead of the journal.
  std::atomic<bool> is_discardable{true};
  bool is_loss_logged = false;  // guarded by the catalog's mutex
  // Its bytes could not be restored, or read from the log. It may have less memory than its size.
  std::atomic<bool> is_damaged{false};

 private:
  pool_memory &memory() const noexcept {
    return *owner_->memory;
  }
  // Charges the owner for stored_size(), or for nothing.
  void set_charged(bool charged) {
    if (charged != is_charged_)
      add_charge(charged ? stored_size() : -stored_size());
    is_charged_ = charged;
  }
  void add_charge(uint64_t change) {  // modulo 2^64
    owner_->used.fetch_add(change, std::memory_order_relaxed);
    if (owner_->pool_used != nullptr)
      owner_->pool_used->fetch_add(change, std::memory_order_relaxed);
  }

  struct part {
    uint64_t begin;  // offset in the object
    std::byte *addr;
    uint64_t size;
  };
  struct scattered {
    std::vector<pool_extent> pieces;
    std::vector<part> parts;
  };
  // Most objects are small, and a pool may have millions of them: the order of members leaves no
  // gaps.
  bool is_cold_ = false, is_charged_ = false;
  std::shared_ptr<owner_account> owner_;
  pool_extent first_piece_{};
  std::byte *first_addr_ = nullptr;       // of an object of one piece, as most are
  std::unique_ptr<scattered> scattered_;  // of an object of several pieces
  uint64_t allocated_size_ = 0;
};

using object_ref = std::shared_ptr<object>;

// Which bytes of an object have been written. Unwritten memory holds stale bytes, which must be
// cleared before a client reads the object.
class written_ranges {
 public:
  void add(uint64_t offset, uint64_t size);
  size_t count() const noexcept {
    return ranges_.size();
  }

  // Forget what was written at or past `size`.
  void truncate(uint64_t size);

  // Clear the unwritten ranges of [0, size), up to `budget` bytes, and reduce `budget` by the work
  // done. True: no unwritten range is left.
  bool clear_unwritten(const object &target, uint64_t size, uint64_t &budget);

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin -> end; adjacent ranges are merged
};

// Limits of the number of ranges kept. At the first, unwritten ranges are cleared so that the
// written ones merge. That is impossible where a client or the fabric may have written to such a
// range without reporting it yet: the second, larger limit applies there.
inline constexpr size_t written_range_count_max = 65536, unreported_range_count_max = 1 << 20;

}  // namespace tanada::poold
