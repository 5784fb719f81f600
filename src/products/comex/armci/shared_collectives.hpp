// products/comex/armci/shared_collectives.hpp: broadcasts and reductions over all ranks of a
// one-node job, through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "products/comex/armci/combine.hpp"

namespace tanada::comex::armci {

// Each rank has two areas of collective memory from libcomex, which alternate by turn. In a turn,
// one reduction or gather, each rank writes its own area, passes a barrier, and reads the areas of
// the others. An area is written again two turns later. By then its rank has passed another
// barrier, before which all ranks had finished reading.
//
// All calls are collective over the world. All but broadcasts are also barriers: earlier puts and
// accumulates are complete at their targets. Ranks that make different calls end the job, as far as
// this can be detected.
class shared_collectives {
 public:
  // nullopt: the ranks have no collective memory.
  static std::optional<shared_collectives> open(int me, int count);

  // The root may return before the others have the bytes. A rank that has them sees what the root
  // has put before.
  void broadcast(const char *call, std::span<std::byte> bytes, int root) noexcept;

  // Combines in rank order, so that all ranks get the same result. `size` is in bytes and covers
  // whole elements.
  void reduce(const char *call, const reduction &op, std::byte *data, size_t size) noexcept;

  // Concatenates the `size` bytes of each rank.
  void gather(const char *call, const void *contribution, size_t size, std::byte *result) noexcept;

 private:
  enum class kind : uint32_t { reduce = 1, gather };

  // Describes a rank's call, for comparison.
  struct call_header {
    uint64_t turn, size;
    kind call_kind;
    int32_t id;  // identifies the operation and element type
  };
  // Bytes. Data begin at another page offset than large buffers of programs do, because copies
  // between equal page offsets are slow; see engine::control.
  static constexpr size_t header_size = 2048;
  static_assert(sizeof(call_header) == 24 && sizeof(call_header) <= header_size);

  shared_collectives(int me, std::vector<std::byte *> areas, size_t part_size)
      : me_{me}, areas_{std::move(areas)}, area_size_{part_size} {}
  std::byte *area_of(int rank) const noexcept {
    return areas_[size_t(rank)] + (turn_ % 2) * area_size_ + header_size;
  }
  size_t capacity() const noexcept {
    return area_size_ - header_size;
  }
  int count() const noexcept {
    return int(areas_.size());
  }
  void begin_turn(kind call_kind, size_t size, int id = 0) noexcept;  // starts a turn
  void wait_for_all(const char *call) noexcept;
  void check(const char *call, int rank, kind call_kind, size_t size, int id = 0) const noexcept;
  void reduce_chunk(
      const char *call, const reduction &op, std::byte *data, size_t size, size_t total) noexcept;
  void combine(const reduction &op, std::byte *target, size_t offset, size_t size) const noexcept;
  void reduce_slices(const char *call, const reduction &op, std::byte *data, size_t size) noexcept;

  int me_;
  std::vector<std::byte *> areas_;  // by rank
  size_t area_size_;                // bytes
  uint64_t turn_ = 0;
};

}  // namespace tanada::comex::armci
