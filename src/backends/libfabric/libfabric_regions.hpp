// backends/libfabric/libfabric_regions.hpp: the registered memory of one endpoint: regions by
// number, and the registration cache.
#pragma once

#include <unordered_map>

#include "backends/libfabric/libfabric_domain.hpp"

namespace tanada::backends {

class libfabric_regions {
 public:
  // The registration that an operation holds while the network uses its memory.
  struct hold {
    seams::fabric_region_id region = seams::no_fabric_region;
    seams::registration_cache::registration *cached = nullptr;
    void *descriptor = nullptr;
  };

  // `domain` and `counters` must outlive this object. `endpoint` must outlive it if the provider
  // registers memory with endpoints (FI_MR_ENDPOINT).
  libfabric_regions(const libfabric_domain &domain,
                    fid_ep *endpoint,
                    seams::registration_cache_limits limits,
                    seams::fabric_counters &counters);
  ~libfabric_regions();

  result<seams::fabric_region> add(const seams::fabric_memory &memory, seams::fabric_access access);
  status remove(seams::fabric_region_id id);
  void forget(const std::byte *addr, size_t size) {
    cache_.forget(addr, size);
  }

  // Returns the descriptor for an operation's local memory: that of its region or, if the provider
  // requires one, a cached registration. no_entry: no such region. range: the memory is outside the
  // region. Other statuses are those of the registration.
  result<hold> acquire(const seams::fabric_op &op);
  void release(const hold &held);

  // Creates one registration with access flags of libfabric. Ownership: the caller's.
  result<fid_mr *> open(const seams::fabric_memory &memory, uint64_t access);

 private:
  struct region {
    seams::fabric_memory memory;
    libfabric_handle<fid_mr> remote_registration;               // for regions with remote access
    seams::registration_cache::registration *cached = nullptr;  // for regions without remote access
    uint32_t users = 0;
  };

  const libfabric_domain &domain_;
  fid_ep *endpoint_;
  std::unordered_map<seams::fabric_region_id, region> regions_;
  seams::fabric_region_id next_id_ = 1;
  seams::registration_cache cache_;
};

}  // namespace tanada::backends
