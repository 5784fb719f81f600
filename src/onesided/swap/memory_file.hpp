// onesided/swap/memory_file.hpp: a process's swappable memory, by its descriptor: read, written and
// taken out of DRAM without mapping it.
#pragma once

#include <functional>

#include "core/base/result.hpp"
#include "onesided/swap/pages.hpp"

namespace tanada::comex::swap {

// A view: the descriptor is somebody else's and outlives it. Mappings of the memory stay as they
// are, whatever is done here. To copy by the system takes fewer faults than by a mapping: some 1.6
// us a page that is not there yet, against 2.5 us (2 virtual cores).
//
// Errors: what the system says, with a message.
//
// Thread safety: any thread.
class memory_file {
 public:
  // Pages lie in the file from `offset` on, bytes, a multiple of the page size.
  memory_file(int descriptor, uint64_t offset, uint32_t page_count)
      : descriptor_{descriptor}, offset_{offset}, count_{page_count} {}

  int descriptor() const noexcept {
    return descriptor_;
  }
  uint64_t offset() const noexcept {
    return offset_;
  }  // bytes
  uint32_t page_count() const noexcept {
    return count_;
  }

  status read(page_run pages, std::byte *into) const;
  status write(page_run pages,
               const std::byte *from) const;  // takes memory for those that have none
  status drop(page_run pages) const;          // they have none any more, and read as zeros

  // f(page_run): those that have memory, ascending, be it in DRAM or where the system has put it.
  status for_each_present(const std::function<void(page_run)> &f) const;

 private:
  int descriptor_;
  uint64_t offset_;
  uint32_t count_;
};

}  // namespace tanada::comex::swap
