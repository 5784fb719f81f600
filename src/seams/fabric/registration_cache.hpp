// seams/fabric/registration_cache.hpp: registrations for local use, kept by address range. A
// program that sends from the same memory again registers it once.
#pragma once

#include <functional>
#include <list>

#include "seams/fabric/fabric.hpp"

namespace tanada::seams {

struct registration_cache_limits {
  uint32_t count_max = 256;               // registrations
  uint64_t size_max = uint64_t{4} << 30;  // bytes of memory that they cover
};

// Host memory is registered in whole pages, so that neighbours share a registration, GPU memory as
// requested. Registrations in use are never closed. Beyond the limits the least recently used of
// the others is closed. If all are in use, a new registration is closed when it is released. Not
// thread-safe.
class registration_cache {
 public:
  using native = void *;  // the network's handle of a registration

  struct registration {
    fabric_memory memory;
    native handle = nullptr;
    uint32_t users = 0;
    bool is_stale = false;  // closed when the last user releases it
  };

  struct backend {
    std::function<result<native>(const fabric_memory &)> open;
    std::function<void(native)> close;
  };

  // The counters outlive the cache.
  registration_cache(backend network, registration_cache_limits limits, fabric_counters &counters);
  ~registration_cache();  // closes all; none may be in use
  registration_cache(const registration_cache &) = delete;
  registration_cache &operator=(const registration_cache &) = delete;

  // A registration that covers all of `memory`. Ownership: until release.
  result<registration *> acquire(const fabric_memory &memory);
  void release(registration *released);

  // No later acquire returns a registration that overlaps this memory.
  void forget(const std::byte *addr, size_t size);

  size_t count() const {
    return entries_.size();
  }
  uint64_t size() const {
    return size_;
  }

 private:
  using list = std::list<registration>;  // the most recently used first

  list::iterator find(const fabric_memory &memory);
  list::iterator find_entry(registration *target);
  void evict(uint64_t size);
  void close(list::iterator position);

  backend backend_;
  registration_cache_limits limits_;
  fabric_counters &counters_;
  list entries_;
  uint64_t size_ = 0;
};

}  // namespace tanada::seams
