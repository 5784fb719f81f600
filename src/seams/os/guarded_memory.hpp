// seams/os/guarded_memory.hpp: memory mapped from a file that another process may truncate, or from
// a device whose cells may fail.
//
// A load or a store past the end of such a file is a SIGBUS, which ends the process. So is a load
// of bytes that the memory has lost (poison). Within guarded memory it gets a page of zeros in
// their place and continues, and the page is marked as replaced. The owner of the memory checks
// that afterwards, and trusts nothing from there. System calls that touch a lost page fail with
// EFAULT, unless a load or a store touched it before them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/result.hpp"

namespace tanada::seams {

inline constexpr size_t guarded_memory_count_max = 64;  // per process

// The memory itself is the caller's. It stays mapped while this object lives, and no thread uses it
// when the object is destroyed. Thread-safe. A thread that blocks SIGBUS is not protected: the
// kernel ends the process.
class guarded_memory {
 public:
  // `addr` and `size` (bytes) are multiples of `granule`, the unit that can be unmapped, a multiple
  // of the page size; 0: the page size. The first call in a process installs the handler of SIGBUS,
  // which forwards signals for other addresses to the previous handler. no_space: there are
  // guarded_memory_count_max already.
  static result<std::unique_ptr<guarded_memory>> guard(std::byte *addr,
                                                       size_t size,
                                                       size_t granule = 0);
  ~guarded_memory();
  guarded_memory(const guarded_memory &) = delete;
  guarded_memory &operator=(const guarded_memory &) = delete;

  size_t replaced_count() const noexcept;  // granules replaced so far; only grows

  // Whether granule number `index` was replaced, counted from `addr`.
  bool is_replaced(size_t index) const noexcept;

  size_t granule() const noexcept {
    return granule_;
  }
  size_t page_size() const noexcept;

 private:
  guarded_memory(size_t entry, size_t granule) : entry_{entry}, granule_{granule} {}
  size_t const entry_, granule_;
};

}  // namespace tanada::seams
