// Registered memory: registration, lookup by key, and removal that waits for uses to end.

#include "products/o2g/regions.hpp"

#include <sys/random.h>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g {

status regions::add(
    uint64_t key, std::byte *addr, uint64_t size, uint64_t base, region_access access) {
  lock_guard const lock{mutex_};
  bool const added =
      regions_.try_emplace(key, std::make_shared<region>(addr, size, base, access)).second;
  return added ? status::ok : status::exists;
}

result<uint64_t> regions::add(std::byte *addr, uint64_t size, uint64_t base, region_access access) {
  for (;;) {
    uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != ssize_t(sizeof key))
      return status::io;
    status const added = add(key, addr, size, base, access);
    if (added == status::ok)
      return key;
    if (added != status::exists)
      return added;
  }
}

status regions::remove(uint64_t key, uint64_t deadline_ns) {
  std::shared_ptr<region> removed;
  {
    lock_guard const lock{mutex_};
    auto const it = regions_.find(key);
    if (it == regions_.end())
      return status::no_entry;
    removed = std::move(it->second);
    regions_.erase(it);
  }
  removed->is_closed_.store(true);
  auto &clock = seams::monotonic_clock();
  for (; removed->use_count_.load() != 0; clock.sleep_ns(20'000)) {
    if (clock.now_ns() < deadline_ns)
      continue;
    lock_guard const lock{users_mutex_};
    for (region_user *const user : users_)
      user->drop_closed();
    break;
  }
  return removed->use_count_.load() == 0 ? status::ok : status::busy;
}

void regions::add_user(region_user &user) {
  lock_guard const lock{users_mutex_};
  users_.push_back(&user);
}

void regions::remove_user(region_user &user) {
  lock_guard const lock{users_mutex_};
  std::erase(users_, &user);
}

result<region_range> regions::resolve(uint64_t key,
                                      uint64_t address,
                                      uint64_t size,
                                      region_access required) {
  lock_guard const lock{mutex_};
  auto const it = regions_.find(key);
  if (it == regions_.end())
    return status::no_entry;
  region const &target = *it->second;
  uint64_t const offset =
      address - target.base_;  // below the base it wraps around and is too large
  if (offset > target.size_ || size > target.size_ - offset)
    return status::fault;
  bool const is_allowed = (!required.remote_read || target.access_.remote_read) &&
                          (!required.remote_write || target.access_.remote_write);
  if (!is_allowed)
    return status::access;
  return region_range{it->second, target.addr_ + offset};
}

}  // namespace tanada::o2g
