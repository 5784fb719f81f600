// comex/swap/written_pages.hpp: which pages of its own memory a process has written since they were read from its swap object.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "comex/swap/pages.hpp"

namespace tanada::comex::swap {

// The system protects the pages against writing, notes who is written and lets the write pass (userfaultfd's asynchronous write protection,
// Linux 6.7); no signal, no thread. What it costs, on 2 virtual cores: 3 ms a GiB to protect pages that are not mapped yet, 27 ms mapped
// ones, 3 ms a GiB to ask, and some 0.9 us for the first write to each page and 0.7 us for its first read, as the system maps no neighbours
// of protected pages along. To write a page that was not changed would cost 2 us on a flash of 2 GB/s. Blocks of pages that were written as
// a whole again and again are not protected for a while: they would be written out anyhow.
//
// Where the system does not do it, all pages that are in memory count as written.
//
// It sees this process's writes alone, those of the system on its behalf among them; who writes to the memory otherwise clears the bit.
//
// Thread safety: one thread at a time, and nobody writes to the memory meanwhile.
class written_pages {
 public:
  // memory: shared, page-aligned, mapped while this lives. Never null.
  static std::unique_ptr<written_pages> create(std::span<std::byte> memory);
  ~written_pages();
  written_pages(const written_pages &) = delete;
  written_pages &operator=(const written_pages &) = delete;

  bool is_exact() const noexcept { return reason_.empty(); }
  const std::string &reason() const noexcept { return reason_; }  // why not; empty: it is

  // The memory's first page_count pages came back: from now on notes who is written of those whose bit is set. Clears the bits of those that
  // it does not watch.
  void arm(page_bits stored, uint32_t page_count);

  // Clears the bits of those that were written since.
  void collect(page_bits stored, uint32_t page_count);

 private:
  // What the last times say of a block.
  struct habit {
    uint8_t full = 0;    // times in sequence that it was written as a whole
    uint8_t spared = 0;  // times since then that it was not watched
  };

  explicit written_pages(std::span<std::byte> memory) : memory_{memory} {}
  status open();
  status protect(page_run pages);
  void give_up(status code, const char *what);
  void learn(page_bits before, page_bits stored, uint32_t page_count);

  std::span<std::byte> memory_;
  int faults_ = -1, pagemap_ = -1;  // descriptors
  std::string reason_;
  std::vector<habit> habits_;            // by block, as far as blocks were armed
  std::vector<page_bits::word> armed_;   // bits, as stored were when armed
};

}  // namespace tanada::comex::swap
