#include "products/o2g/regions.hpp"

#include <sys/random.h>

#include "core/base/mutex.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::o2g {

status regions::add(uint64_t key, std::byte *addr, uint64_t size, uint64_t base,
                    region_access access) {
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
  std::shared_ptr<region> gone;
  {
    lock_guard const lock{mutex_};
    auto const found = regions_.find(key);
    if (found == regions_.end())
      return status::no_entry;
    gone = std::move(found->second);
    regions_.erase(found);
  }
  gone->closed_.store(true);
  auto &clock = port::monotonic_clock();
  for (; gone->users_.load() != 0; clock.sleep_ns(20'000)) {
    if (clock.now_ns() < deadline_ns)
      continue;
    lock_guard const lock{users_mutex_};
    for (region_user *const each : users_)
      each->drop_closed();
    break;
  }
  return gone->users_.load() == 0 ? status::ok : status::busy;
}

void regions::enter(region_user &user) {
  lock_guard const lock{users_mutex_};
  users_.push_back(&user);
}

void regions::leave(region_user &user) {
  lock_guard const lock{users_mutex_};
  std::erase(users_, &user);
}

result<region_range> regions::reach(uint64_t key, uint64_t address, uint64_t size,
                                    region_access wanted) {
  lock_guard const lock{mutex_};
  auto const found = regions_.find(key);
  if (found == regions_.end())
    return status::no_entry;
  region const &in = *found->second;
  uint64_t const offset = address - in.base_;  // below the base it wraps, and is too large
  if (offset > in.size_ || size > in.size_ - offset)
    return status::fault;
  bool const allowed = (!wanted.remote_read || in.access_.remote_read) &&
                       (!wanted.remote_write || in.access_.remote_write);
  if (!allowed)
    return status::access;
  return region_range{found->second, in.addr_ + offset};
}

}  // namespace tanada::o2g
