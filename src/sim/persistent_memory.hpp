// sim/persistent_memory.hpp: seams::persistent_memory in ordinary memory, with cache lines that a
// power failure loses.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/os/persistent_memory.hpp"
#include "sim/world.hpp"

namespace tanada::sim {

// How flushes differ from those of a processor that works.
enum class flush_fault {
  reliable,
  no_effect,   // of any flush
  first_line,  // only the first cache line of a range is written back
  late,        // a range is written back only by the drain after the next one
};

// One module of memory, that any descriptor stands for. Its bytes stay when a mapping is destroyed,
// as when a process is killed. Used by one thread.
class persistent_memory final : public seams::persistent_memory {
 public:
  static constexpr uint64_t line_size = 64, page_size = 4096;
  static constexpr uint64_t granule_max = uint64_t{4} << 20;

  // `initial` is each byte of new memory. `size` is a multiple of the page size.
  explicit persistent_memory(uint64_t size, std::byte initial = std::byte{0});
  persistent_memory(const persistent_memory &) = delete;
  persistent_memory &operator=(const persistent_memory &) = delete;

  bool is_device(int) const override {
    return is_device_;
  }
  // One mapping at a time.
  result<std::unique_ptr<seams::persistent_mapping>> map(int descriptor) override;

  // From now on map() returns not_supported.
  void make_ordinary() noexcept {
    is_ordinary_ = true;
  }
  // Any file stands for a device from now on.
  void make_device() noexcept {
    is_device_ = true;
  }
  void set_granule(uint64_t granule) noexcept {
    TND_ASSERT(granule <= granule_max && size_ % granule == 0);
    granule_ = granule;
  }
  void set_fault(flush_fault fault) noexcept {
    fault_ = fault;
  }

  // Each cache line that was stored to and not drained is kept or lost.
  void fail_power(prng &random);

  // Calls of mappings, and the bytes that were to be flushed.
  struct counters {
    uint64_t flushes = 0, flushed_size = 0, drains = 0;
  };
  const counters &counted() const noexcept {
    return counted_;
  }

 private:
  class mapping;
  struct line_range {
    uint64_t offset;
    std::vector<std::byte> bytes;  // as they were at the flush
  };
  struct page_deleter {
    void operator()(std::byte *bytes) const noexcept;
  };
  void flush(uint64_t offset, uint64_t size);
  void drain();

  uint64_t const size_;
  std::unique_ptr<std::byte[], page_deleter> const cached_;  // what the processors see
  std::vector<std::byte> durable_;
  std::vector<line_range> flushed_, late_;
  uint64_t granule_ = page_size;
  flush_fault fault_ = flush_fault::reliable;
  bool is_ordinary_ = false, is_device_ = false, is_mapped_ = false;
  counters counted_;
};

}  // namespace tanada::sim
