// products/pool/client/segments.hpp: the pool's memory, mapped by this process.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/result.hpp"
#include "core/wire/pool.hpp"
#include "products/pool/client/device_mapping.hpp"

namespace tanada::pool {

// A file descriptor that the daemon sent, closed with its owner.
class descriptor {
 public:
  explicit descriptor(int number = -1) : number_{number} {}
  descriptor(descriptor &&source) noexcept : number_{source.number_} {
    source.number_ = -1;
  }
  descriptor &operator=(descriptor &&source) noexcept {
    std::swap(number_, source.number_);
    return *this;
  }
  ~descriptor();
  int get() const noexcept {
    return number_;
  }
  // The caller owns it from now on.
  int release() noexcept {
    return std::exchange(number_, -1);
  }

 private:
  int number_;
};

struct received_segment {
  descriptor file;
  wire::pool::segment_reply about;
};

// A range of a segment as GPUs of this process access it.
struct device_range {
  std::shared_ptr<device_mapping> mapping;
  uint64_t offset, size;
};

// Maps segments when they are first used, and keeps them mapped. A pool creates and frees many
// small segments, so those that were not used lately are unmapped once there are many. Results of
// parts_of() are valid until the next call.
class segments {
 public:
  using segment_fetcher = std::function<result<received_segment>(uint32_t)>;

  explicit segments(segment_fetcher fetch) : fetch_{std::move(fetch)} {}

  // The memory of [offset, offset + size) of an object that consists of these pieces. `protocol`: a
  // piece is outside of its segment.
  status parts_of(const std::vector<wire::pool::pool_extent> &pieces,
                  uint64_t offset,
                  uint64_t size,
                  std::vector<iovec> &parts);

  // As parts_of(), for copies by a GPU.
  status device_ranges_of(const std::vector<wire::pool::pool_extent> &pieces,
                          uint64_t offset,
                          uint64_t size,
                          std::vector<device_range> &ranges);

  // All of the object in one range of addresses, read-only. `caller_unmaps`: the caller does so
  // with munmap. Otherwise `owner` keeps it mapped: a separate mapping or the segment's.
  result<void *> contiguous(const std::vector<wire::pool::pool_extent> &pieces,
                            uint64_t size,
                            bool &caller_unmaps,
                            std::shared_ptr<void> &owner);

  // Whether the segment is mapped. A segment may be lent before it contains an object of this
  // client.
  bool is_mapped(uint32_t segment) const {
    return mapped_.contains(segment);
  }
  result<std::shared_ptr<device_mapping>> add_for_device(uint32_t segment,
                                                         received_segment received);

  // Returns the mappings for devices, detached, because dropping the last reference to one is slow.
  std::vector<std::shared_ptr<device_mapping>> take_device_mappings();

  void clear();

  // Unmaps segments that outlive the daemon. Its successor reuses their memory only once no process
  // has them mapped. Called after each transfer.
  void unmap_lasting();

  static constexpr uint64_t small_size = uint64_t{2} << 20;  // segments below this size are small
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
    bool is_lasting = false;  // the memory outlives the daemon
    uint64_t used_tick = 0;
    std::vector<bool> populated = {};                         // by populate_size
    std::shared_ptr<device_mapping> device_mapped = nullptr;  // set once a GPU has used it
  };
  result<mapping *> find(uint32_t segment);
  result<mapping *> add(uint32_t segment, received_segment received);
  mapping &replace(uint32_t segment, std::shared_ptr<mapping> created);
  void unmap_small();
  // A separate read-only mapping of one piece, or else the segment's own.
  void *map_piece(const wire::pool::pool_extent &piece,
                  const iovec &part,
                  std::shared_ptr<void> &owner);
  // Maps the pieces one after the other, in `whole` bytes of addresses.
  result<void *> map_pieces(const std::vector<wire::pool::pool_extent> &pieces, uint64_t whole);

  // Calls visit(mapping, offset, size) for each part of a range of an object. `protocol`: a piece
  // is outside of its segment.
  template <class Visit>
  status visit_parts(const std::vector<wire::pool::pool_extent> &pieces,
                     uint64_t offset,
                     uint64_t size,
                     const Visit &visit);

  segment_fetcher fetch_;
  std::unordered_map<uint32_t, std::shared_ptr<mapping>> mapped_;
  size_t small_count_ = 0;
  bool has_lasting_ = false;
  uint64_t tick_ = 0;
};

}  // namespace tanada::pool
