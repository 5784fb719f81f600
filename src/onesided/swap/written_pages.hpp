// onesided/swap/written_pages.hpp: which pages of its own memory a process has written since they
// were read from its swap object.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "onesided/swap/pages.hpp"

namespace tanada::comex::swap {

// The system protects the pages against writing, notes who is written and lets the write pass
// (userfaultfd's asynchronous write protection, Linux 6.7); no signal, no thread. What it costs, on
// 2 virtual cores: 3 ms a GiB to protect pages that are not mapped yet, 27 ms mapped ones, 3 ms a
// GiB to ask, and some 0.9 us for the first write to each page and 0.7 us for its first read, as
// the system maps no neighbours of protected pages along. To write a page that was not changed
// would cost 2 us on a flash of 2 GB/s. Blocks of pages that were written as a whole again and
// again are not protected for a while, and longer each time: they would be written out anyhow. The
// system may have each of them in one large page then, which one fault maps.
//
// Where the system does not do it, all pages that are in memory count as written.
//
// It sees this process's writes alone, those of the system on its behalf among them; who writes to
// the memory otherwise clears the bit.
//
// Thread safety: one thread at a time, and nobody writes to the memory meanwhile.
class written_pages {
 public:
  // memory: shared, page-aligned, mapped while this lives. Never null.
  static std::unique_ptr<written_pages> create(std::span<std::byte> memory);
  ~written_pages();
  written_pages(const written_pages &) = delete;
  written_pages &operator=(const written_pages &) = delete;

  bool is_exact() const noexcept {
    return reason_.empty();
  }
  const std::string &reason() const noexcept {
    return reason_;
  }  // why not; empty: it is

  // The memory's first page_count pages came back: from now on notes who is written of those whose
  // bit is set. Clears the bits of those that it does not watch.
  void arm(page_bits stored, uint32_t page_count);

  // The same where other threads of the process may touch pages meanwhile, which were mapped for
  // nobody before: those that they have touched count as written.
  void arm_among_others(page_bits stored, uint32_t page_count);

  // Where the system lets this process see touches of pages that are not mapped, its own calls of
  // the system among them: the descriptor that says so, for own_faults. -1: it does not.
  int touches() const noexcept {
    return sees_touches_ ? faults_ : -1;
  }

  // After own_faults has watched touches in their place: writes are watched again. False: the
  // system does not.
  bool watch_writes() noexcept;

  // Clears the bits of those that were written since.
  void collect(page_bits stored, uint32_t page_count);

 private:
  // What the last times say of a block.
  struct habit {
    uint8_t full = 0;    // times in sequence that it was written as a whole
    uint8_t spared = 0;  // times since then that it was not watched
    uint8_t most = 0;    // times that it is not watched before it is looked at again; 0: it is not
                         // known to be full again and again
    bool is_free = false;  // the system does not look at it at all
  };

  explicit written_pages(std::span<std::byte> memory) : memory_{memory} {}
  status open();
  int open_faults();
  status protect(page_run pages);
  void scan(uint64_t category, page_bits stored, uint32_t page_count);
  void give_up(status code, const char *what);
  void learn(page_bits before, page_bits stored, uint32_t page_count);
  bool is_full(const habit &of) const noexcept;
  void let_go(page_run blocks);
  void watch_again(page_run blocks);
  // The blocks' pages, of the first page_count.
  static page_run pages_in(page_run blocks, uint32_t page_count) noexcept;

  std::span<std::byte> memory_;
  int faults_ = -1, pagemap_ = -1;  // descriptors
  bool sees_touches_ = false;
  std::string reason_;
  std::vector<habit> habits_;           // by block, as far as blocks were armed
  std::vector<page_bits::word> armed_;  // bits, as stored were when armed
};

}  // namespace tanada::comex::swap
