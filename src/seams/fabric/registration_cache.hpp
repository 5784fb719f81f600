// seams/fabric/registration_cache.hpp: registrations for local use, kept by address range so that a
// program which sends from the same memory again registers it once.
#pragma once

#include <functional>
#include <list>

#include "seams/fabric/fabric.hpp"

namespace tanada::port {

struct registration_cache_limits {
  uint32_t count_max = 256;               // registrations
  uint64_t size_max = uint64_t{4} << 30;  // bytes of memory they hold
};

// Host memory is registered in whole pages, so that neighbours share; GPU memory as it is asked
// for. What is in use is never closed: past the limits the least recently used of the others goes,
// and when all are in use a registration is made that goes with its user. Not thread-safe.
class registration_cache {
 public:
  using native = void *;  // what the network calls a registration

  struct registration {
    fabric_memory memory;
    native handle = nullptr;
    uint32_t users = 0;
    bool forgotten = false;  // closed when the last user goes
  };

  struct backend {
    std::function<result<native>(const fabric_memory &)> open;
    std::function<void(native)> close;
  };

  // The counters outlive the cache.
  registration_cache(backend how, registration_cache_limits limits, fabric_counters &counters);
  ~registration_cache();  // closes all; nothing may be in use
  registration_cache(const registration_cache &) = delete;
  registration_cache &operator=(const registration_cache &) = delete;

  // A registration that holds all of `memory`. Ownership: until release.
  result<registration *> acquire(const fabric_memory &memory);
  void release(registration *which);

  // No later acquire finds a registration that touches this memory.
  void forget(const std::byte *addr, size_t size);

  size_t count() const {
    return all_.size();
  }
  uint64_t size() const {
    return size_;
  }

 private:
  using list = std::list<registration>;  // the most recently used first

  list::iterator find(const fabric_memory &memory);
  list::iterator iterator_of(registration *which);
  void make_room(uint64_t size);
  void close(list::iterator which);

  backend how_;
  registration_cache_limits limits_;
  fabric_counters &counters_;
  list all_;
  uint64_t size_ = 0;
};

}  // namespace tanada::port
