// backends/libfabric/libfabric_regions.hpp: memory that one endpoint has registered: regions by
// number, and the cache.
#pragma once

#include <unordered_map>

#include "backends/libfabric/libfabric_domain.hpp"

namespace tanada::port {

class libfabric_regions {
 public:
  // What an operation holds while the network uses its memory.
  struct hold {
    fabric_region_id region = no_fabric_region;
    registration_cache::registration *cached = nullptr;
    void *descriptor = nullptr;
  };

  // `domain` and `counters` outlive it; `endpoint` until endpoint_closed(). The endpoint is what
  // some providers (FI_MR_ENDPOINT) register memory with.
  libfabric_regions(const libfabric_domain &domain, fid_ep *endpoint,
                    registration_cache_limits limits, fabric_counters &counters);
  ~libfabric_regions();

  result<fabric_region> add(const fabric_memory &memory, fabric_access access);
  status remove(fabric_region_id id);
  void forget(const std::byte *addr, size_t size) {
    cache_.forget(addr, size);
  }

  // The descriptor for an operation's local memory, from its region or, where the provider asks for
  // one, from the cache. no_entry, range; or what registering said.
  result<hold> acquire(const fabric_op &op);
  void release(const hold &held);

  // One registration, with access as libfabric names it. Ownership: the caller's.
  result<fid_mr *> open(const fabric_memory &memory, uint64_t access);

 private:
  struct region {
    fabric_memory memory;
    libfabric_handle<fid_mr> own;                        // with remote access
    registration_cache::registration *cached = nullptr;  // without
    uint32_t users = 0;
  };

  const libfabric_domain &domain_;
  fid_ep *endpoint_;
  std::unordered_map<fabric_region_id, region> regions_;
  fabric_region_id next_id_ = 1;
  registration_cache cache_;
};

}  // namespace tanada::port
