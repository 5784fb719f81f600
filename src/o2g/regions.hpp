// o2g/regions.hpp: memory that peers may reach, by key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "base/result.hpp"

namespace tanada::o2g {

struct region_access {
  bool remote_read = false, remote_write = false;
};

// Thread-safe. Taking a region away waits until nobody copies from or to it.
class regions {
 public:
  // Addresses that peers give count from `base`: 0, or the memory's own address. exists: the key is taken.
  status add(uint64_t key, std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // With a key that nobody guesses by chance. no_memory.
  result<uint64_t> add(std::byte *addr, uint64_t size, uint64_t base, region_access access);

  // no_entry.
  status remove(uint64_t key);

  // Memory of one region, held until destroyed. False: no such key (fault), outside of it (fault), or no such access.
  class hold {
   public:
    hold() = default;
    std::byte *addr() const noexcept { return addr_; }
    explicit operator bool() const noexcept { return lock_.owns_lock(); }

   private:
    friend class regions;
    std::shared_lock<std::shared_mutex> lock_;
    std::byte *addr_ = nullptr;
  };

  // no_entry: no such key; fault: not all of the range lies in it; access.
  result<hold> reach(uint64_t key, uint64_t address, uint64_t size, region_access wanted);

 private:
  struct region {
    std::byte *addr = nullptr;
    uint64_t size = 0, base = 0;
    region_access access{};
  };
  std::shared_mutex mutex_;
  std::unordered_map<uint64_t, region> regions_;
};

}  // namespace tanada::o2g
