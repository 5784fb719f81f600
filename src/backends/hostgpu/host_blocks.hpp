// backends/hostgpu/host_blocks.hpp: device memory of the host executor that processes share.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::backends {

// If guarded, processors cannot access the addresses that the device returns, as with a GPU's
// memory. Queues and copies use a second mapping, and a direct load or store faults. This is for
// tests of host code: kernels cannot access such addresses either.
//
// Thread-safe.
class host_blocks {
 public:
  explicit host_blocks(bool is_guarded) : is_guarded_{is_guarded} {}
  ~host_blocks();
  host_blocks(const host_blocks &) = delete;
  host_blocks &operator=(const host_blocks &) = delete;

  result<void *> map(int descriptor, size_t size);
  void unmap(void *addr) noexcept;
  bool has(const void *addr) const noexcept;

  // The address at which a processor accesses `addr`, which may be any address of the process.
  template <class T>
  T *host_address(T *addr) const noexcept {
    return is_guarded_
               ? static_cast<T *>(translate(const_cast<void *>(static_cast<const void *>(addr))))
               : addr;
  }

 private:
  void *translate(void *addr) const noexcept;

  bool const is_guarded_;
  mutable mutex mutex_;
  std::unordered_map<void *, seams::shared_mapping> blocks_ TND_GUARDED_BY(mutex_);
};

}  // namespace tanada::backends
