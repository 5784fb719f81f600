// onesided/swap/memory_window.hpp: a process's swappable memory, mapped for who moves it: a store
// reads and writes it where it lies, in large pages.
#pragma once

#include <memory>

#include "onesided/swap/memory_file.hpp"

namespace tanada::comex::swap {

// A mapping of its own: whatever is done here, others see the same bytes at their own addresses. It
// takes no memory by itself.
//
// Blocks are those of the file, of 2 MiB each. One that is a single page costs one fault where 512
// did, is no copy on its way to the store, and one piece to the device. On 2 virtual cores, a page
// of 4 KiB: copied into a hole 1.6 us, out 1.0 us, dropped 0.8 us, touched again 1.2 us; large 0.3,
// 0, 0.02 and 0 us. Read from the disk there: 1.8 GB/s into small pages, 3.0 GB/s into large ones;
// written 4.1 and 4.6 GB/s.
//
// Thread safety: one thread at a time.
class memory_window {
 public:
  static constexpr uint32_t block_pages = 512;

  // With a message. `of`: its descriptor outlives this.
  static result<std::unique_ptr<memory_window>> open(const memory_file &of);
  ~memory_window();
  memory_window(const memory_window &) = delete;
  memory_window &operator=(const memory_window &) = delete;

  std::byte *at(page_run pages) const noexcept {
    return memory_ + pages.offset();
  }

  // Where blocks begin: a page's own is [block_begin, block_begin + block_pages), which may exceed
  // the memory at its ends.
  bool is_block(page_run pages) const noexcept {
    return (pages.first + shift_) % block_pages == 0 && pages.count == block_pages;
  }
  uint32_t block_end(uint32_t page) const noexcept {
    return page + block_pages - (page + shift_) % block_pages;
  }

  // The block is one large page of zeros in DRAM. Before, it had no memory. False: the system has
  // none now, nothing has changed, and it is asked again later.
  bool make_large(page_run block);
  // Made so, and not dropped as a whole since.
  bool is_large(uint32_t page) const noexcept {
    return large_.test(block_of(page));
  }
  // What is no longer in DRAM.
  void forget(page_run pages) noexcept;

 private:
  explicit memory_window(const memory_file &of);
  uint32_t block_of(uint32_t page) const noexcept {
    return (page + shift_) / block_pages;
  }

  memory_file const file_;
  uint32_t const shift_;  // pages of the first block that are before the memory
  std::byte *memory_ = nullptr;
  page_bits::word *words_;
  page_bits large_;       // by block
  uint32_t refused_ = 0;  // blocks to be left small until it is tried again
};

// Memory of a shared file, mapped, which lies at multiples of a block: all of it gets storage, in
// large pages where the system has them.
void populate(std::span<std::byte> memory) noexcept;

}  // namespace tanada::comex::swap
