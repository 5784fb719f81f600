// seams/os/guarded_memory.hpp: memory mapped from a file that somebody may cut short.
//
// A load or a store behind the end of such a file is a SIGBUS, which ends the process. Within
// guarded memory it gets a page of zeros in its place and goes on, and the page is noted as lost:
// whoever owns the memory asks afterwards, and trusts nothing that lay there. System calls that
// touch a lost page fail with EFAULT, unless a load or a store was there before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/result.hpp"

namespace tanada::port {

inline constexpr size_t guarded_memory_count_max = 64;  // of a process

// The memory itself is the caller's, stays mapped while this lives, and is touched by nobody when
// it ends. Thread-safe. A thread that blocks SIGBUS is not saved: the kernel ends the process.
class guarded_memory {
 public:
  // `addr` and `size` (bytes) are multiples of the page size. The first call of a process installs
  // the handler of SIGBUS; signals for other addresses go where they went before. no_space: there
  // are guarded_memory_count_max already.
  static result<std::unique_ptr<guarded_memory>> guard(std::byte *addr, size_t size);
  ~guarded_memory();
  guarded_memory(const guarded_memory &) = delete;
  guarded_memory &operator=(const guarded_memory &) = delete;

  size_t lost_count() const noexcept;  // pages replaced so far; only grows

  // Whether page number `index` was replaced, counted from `addr`.
  bool is_lost(size_t index) const noexcept;

  size_t page_size() const noexcept;

 private:
  explicit guarded_memory(size_t entry) : entry_{entry} {}
  size_t const entry_;
};

}  // namespace tanada::port
