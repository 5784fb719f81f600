// onesided/swap/memory_file.hpp: a process's swappable memory as a file, which is read, written and
// removed from DRAM without mapping it.
#pragma once

#include <functional>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "onesided/swap/pages.hpp"

namespace tanada::onesided::swap {

// A view: the caller owns the descriptor, which outlives the view. Mappings of the memory stay
// valid. Copying with system calls takes fewer faults than copying through a mapping: some 1.6 us
// for a page that is not in memory yet, against 2.5 us (2 virtual cores).
//
// Errors: the system's error, with a message.
//
// Thread safety: any thread.
class memory_file {
 public:
  // The pages begin at byte `offset` of the file, a multiple of the page size.
  memory_file(int descriptor, uint64_t offset, uint32_t page_count)
      : descriptor_{descriptor}, offset_{offset}, count_{page_count} {
    TND_ASSERT(offset % page_size == 0);
  }

  int descriptor() const noexcept {
    return descriptor_;
  }
  // Bytes.
  uint64_t offset() const noexcept {
    return offset_;
  }
  uint32_t page_count() const noexcept {
    return count_;
  }

  status read(page_run pages, std::byte *target) const;
  status write(page_run pages,
               const std::byte *source) const;  // allocates memory for pages that have none
  status drop(page_run pages) const;  // frees the pages' memory; they read as zeros afterwards

  // Calls f(page_run) for the pages that have memory, in ascending order, whether it is in DRAM or
  // in the system's swap space.
  status for_each_present(const std::function<void(page_run)> &f) const;

 private:
  int descriptor_;
  uint64_t offset_;
  uint32_t count_;
};

}  // namespace tanada::onesided::swap
