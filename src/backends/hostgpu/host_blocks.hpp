// backends/hostgpu/host_blocks.hpp: memory that is the host executor's device memory and is shared
// between processes.
#pragma once

#include <cstddef>
#include <unordered_map>

#include "core/base/mutex.hpp"
#include "core/base/result.hpp"
#include "seams/os/shared_memory.hpp"

namespace tanada::port {

// Guarded: processors do not reach the addresses that the device gives, as those of a GPU's memory;
// queues and copies do, by another mapping. Whoever loads or stores there is stopped by the system.
// For tests of host code: kernels reach them no better.
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

  // Where a processor reaches the memory at `addr`, which may be any of the process.
  template <class T>
  T *here(T *addr) const noexcept {
    return is_guarded_
               ? static_cast<T *>(behind(const_cast<void *>(static_cast<const void *>(addr))))
               : addr;
  }

 private:
  void *behind(void *addr) const noexcept;

  bool const is_guarded_;
  mutable mutex mutex_;
  std::unordered_map<void *, shared_mapping> blocks_;  // guarded by mutex_
};

}  // namespace tanada::port
