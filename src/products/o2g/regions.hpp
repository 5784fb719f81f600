// products/o2g/regions.hpp: registered memory that peers access by key.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/mutex.hpp"
#include "core/base/result.hpp"

namespace tanada::o2g {

struct region_access {
  bool remote_read = false, remote_write = false;
};

// One region. A thread that copies from or to it holds a use of it; regions::remove() waits until
// there are no uses.
class region {
 public:
  region(std::byte *addr, uint64_t size, uint64_t base, region_access access)
      : addr_{addr}, size_{size}, base_{base}, access_{access} {}
  region(const region &) = delete;
  region &operator=(const region &) = delete;
  ~region() {
    TND_ASSERT(use_count_.load() == 0);
  }

  bool begin_use() noexcept {
    use_count_.fetch_add(1);
    if (!is_closed_.load())
      return true;
    use_count_.fetch_sub(1);
    return false;
  }
  void end_use() noexcept {
    uint32_t const count_before = use_count_.fetch_sub(1);
    TND_ASSERT(count_before != 0);
  }
  bool is_closed() const noexcept {
    return is_closed_.load();
  }

 private:
  friend class regions;
  std::byte *const addr_;
  uint64_t const size_, base_;
  region_access const access_;
  std::atomic<uint32_t> use_count_ = 0;
  std::atomic<bool> is_closed_ = false;
};

// A use of a region, which ends with this object. False: the region is closed, or none was given.
class region_use {
 public:
  region_use() = default;
  explicit region_use(std::shared_ptr<region> target)
      : region_{target->begin_use() ? std::move(target) : nullptr} {}
  region_use(region_use &&source) noexcept : region_{std::exchange(source.region_, nullptr)} {}
  region_use &operator=(region_use &&source) noexcept {
    std::swap(region_, source.region_);
    return *this;
  }
  ~region_use() {
    if (region_ != nullptr)
      region_->end_use();
  }
  explicit operator bool() const noexcept {
    return region_ != nullptr;
  }
  bool is_closed() const noexcept {
    return region_ != nullptr && region_->is_closed();
  }

 private:
  std::shared_ptr<region> region_;
};

// A range of a region. Each copy must hold a use of `parent`.
struct region_range {
  std::shared_ptr<region> parent;
  std::byte *addr = nullptr;
};

// An object that may use regions for as long as a peer takes.
class region_user {
 public:
  virtual ~region_user() = default;

  // Ends its uses of closed regions at once, for example by dropping connections.
  virtual void drop_closed() = 0;
};

// The registered regions of an endpoint. Thread-safe.
class regions {
 public:
  // Registers memory. Addresses in peers' requests are relative to `base`, which is 0 or the
  // memory's own address. exists: the key is in use.
  status add(uint64_t key, std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // Registers memory with a random 64-bit key. io: no random number.
  result<uint64_t> add(std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // Unregisters memory. No new use begins from this call on. Existing uses have until the deadline
  // (absolute, monotonic clock) to end; then every region_user drops its uses. no_entry: no such
  // key. busy: a use remains that no region_user could drop. The key is removed all the same, and
  // the memory may still be written.
  status remove(uint64_t key, uint64_t deadline_ns);

  // Finds a range by key. no_entry: no such key. fault: the range is not within the region. access:
  // the region does not permit `required`.
  result<region_range> resolve(uint64_t key,
                               uint64_t address,
                               uint64_t size,
                               region_access required);

  // remove() calls the added users' drop_closed(), so it must not be called with a lock held that
  // drop_closed() takes.
  void add_user(region_user &user);
  void remove_user(region_user &user);

 private:
  mutex mutex_;
  mutex users_mutex_;  // locked before the locks that drop_closed() takes
  std::vector<region_user *> users_ TND_GUARDED_BY(users_mutex_);
  std::unordered_map<uint64_t, std::shared_ptr<region>> regions_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::o2g
