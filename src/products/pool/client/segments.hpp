// products/pool/client/segments.hpp: the pool's memory as this process maps it.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "products/pool/client/device_mapping.hpp"

namespace tanada::pool {

// A descriptor of the daemon's, closed with its owner.
class descriptor {
 public:
  explicit descriptor(int number = -1) : number_{number} {}
  descriptor(descriptor &&other) noexcept : number_{other.number_} {
    other.number_ = -1;
  }
  descriptor &operator=(descriptor &&other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~descriptor();
  int get() const noexcept {
    return number_;
  }

 private:
  int number_;
};

struct lent_segment {
  descriptor file;
  wire::pool::segment_reply about;
};

// A range of a segment as GPUs of this process reach it.
struct device_range {
  std::shared_ptr<device_mapping> mapping;
  uint64_t offset, size;
};

// Maps segments when they are first used and keeps them mapped. Small ones, of which a pool makes
// many and gives them up again, are unmapped once there are many that were not used lately. What
// parts_of returns is good until the next call.
class segments {
 public:
  using lender = std::function<result<lent_segment>(uint32_t)>;

  explicit segments(lender lend) : lend_{std::move(lend)} {}

  // The memory of [offset, offset + size) of an object that lies in these pieces. protocol: it lies
  // elsewhere.
  status parts_of(const std::vector<wire::pool::piece> &pieces, uint64_t offset, uint64_t size,
                  std::vector<iovec> &parts);

  // As parts_of, for copies by a GPU.
  status device_ranges_of(const std::vector<wire::pool::piece> &pieces, uint64_t offset,
                          uint64_t size, std::vector<device_range> &ranges);

  // All of it in one run of addresses, read-only; unmap with munmap when it is not one of the
  // segments' own. `own`: it is new. `hold` keeps the memory of what is a segment's own.
  result<void *> contiguous(const std::vector<wire::pool::piece> &pieces, uint64_t size, bool &own,
                            std::shared_ptr<void> &hold);

  // A segment that was lent before an object of this client lies in it.
  bool holds(uint32_t segment) const {
    return mapped_.contains(segment);
  }
  result<std::shared_ptr<device_mapping>> add_for_device(uint32_t segment, lent_segment lent);

  // The mappings for devices, which are detached: the last of their references ends slowly.
  std::vector<std::shared_ptr<device_mapping>> take_device_mappings();

  void clear();

  static constexpr uint64_t small_size = uint64_t{2} << 20;  // below
  static constexpr size_t small_count_max = 128;

 private:
  struct mapping {
    mapping() = default;
    mapping(const mapping &) = delete;
    mapping &operator=(const mapping &) = delete;
    ~mapping();
    void populate(uint64_t offset, uint64_t length);
    status map_for_device();
    descriptor file;
    std::byte *addr = nullptr;
    uint64_t size = 0, file_offset = 0;
    bool writable = false, has_huge_pages = false;
    uint64_t used_tick = 0;
    std::vector<bool> populated = {};                         // by populate_size
    std::shared_ptr<device_mapping> device_mapped = nullptr;  // once a GPU has used it
  };
  result<mapping *> find(uint32_t segment);
  result<mapping *> add(uint32_t segment, lent_segment lent);
  void forget_small();

  // visit(mapping, offset, size) for each part of a range of an object. protocol: it lies
  // elsewhere.
  template <class Visit>
  status visit_parts(const std::vector<wire::pool::piece> &pieces, uint64_t offset, uint64_t size,
                     const Visit &visit);

  lender lend_;
  std::unordered_map<uint32_t, std::shared_ptr<mapping>> mapped_;
  size_t small_count_ = 0;
  uint64_t tick_ = 0;
};

}  // namespace tanada::pool
