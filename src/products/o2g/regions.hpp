// products/o2g/regions.hpp: memory that peers may reach, by key.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"

namespace tanada::o2g {

struct region_access {
  bool remote_read = false, remote_write = false;
};

// One region. Whoever copies from or to it holds a use of it; taking it away waits for them.
class region {
 public:
  region(std::byte *addr, uint64_t size, uint64_t base, region_access access)
      : addr_{addr}, size_{size}, base_{base}, access_{access} {}

  bool begin_use() noexcept {
    users_.fetch_add(1);
    if (!closed_.load())
      return true;
    users_.fetch_sub(1);
    return false;
  }
  void end_use() noexcept {
    users_.fetch_sub(1);
  }
  bool is_closed() const noexcept {
    return closed_.load();
  }

 private:
  friend class regions;
  std::byte *const addr_;
  uint64_t const size_, base_;
  region_access const access_;
  std::atomic<uint32_t> users_ = 0;
  std::atomic<bool> closed_ = false;
};

// A use of a region, ended when destroyed. False: there was none to have.
class region_use {
 public:
  region_use() = default;
  explicit region_use(std::shared_ptr<region> of)
      : of_{of->begin_use() ? std::move(of) : nullptr} {}
  region_use(region_use &&other) noexcept : of_{std::exchange(other.of_, nullptr)} {}
  region_use &operator=(region_use &&other) noexcept {
    std::swap(of_, other.of_);
    return *this;
  }
  ~region_use() {
    if (of_ != nullptr)
      of_->end_use();
  }
  explicit operator bool() const noexcept {
    return of_ != nullptr;
  }
  bool is_closed() const noexcept {
    return of_ != nullptr && of_->is_closed();
  }

 private:
  std::shared_ptr<region> of_;
};

// A range of a region: a use of `in` goes around each copy.
struct region_range {
  std::shared_ptr<region> in;
  std::byte *addr = nullptr;
};

// Somebody who uses regions for as long as a peer takes.
class region_user {
 public:
  virtual ~region_user() = default;

  // Ends its uses of regions that are closed, whatever it costs.
  virtual void drop_closed() = 0;
};

// Thread-safe.
class regions {
 public:
  // Addresses that peers give count from `base`: 0, or the memory's own address. exists: the key is
  // taken.
  status add(uint64_t key, std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // With a key that nobody guesses by chance.
  result<uint64_t> add(std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // From the call on nobody begins to use it. Whoever uses it has until the deadline (absolute,
  // monotonic clock) to end; then its users drop it. no_entry; busy: somebody still uses it, being
  // no user that was made known: the key is gone, the memory may still be written.
  status remove(uint64_t key, uint64_t deadline_ns);

  // no_entry: no such key; fault: not all of the range lies in it; access.
  result<region_range> reach(uint64_t key, uint64_t address, uint64_t size, region_access wanted);

  // It is asked within remove(), which must not be called with the locks that drop_closed() takes.
  void enter(region_user &user);
  void leave(region_user &user);

 private:
  mutex mutex_;
  mutex users_mutex_;  // taken before whatever drop_closed() takes
  std::vector<region_user *> users_;
  std::unordered_map<uint64_t, std::shared_ptr<region>> regions_;
};

}  // namespace tanada::o2g
