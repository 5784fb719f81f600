// products/comex/packed_wire.hpp: what is asked of the memory of a process of another node: blocks,
// packed into one request. All of it is checked before it is used: these are pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "products/comex/accumulate.hpp"
#include "products/comex/shape.hpp"

namespace tanada::comex::packed {

inline constexpr uint32_t magic_number = 0x314B5043;  // "CPK1"

enum class action : uint8_t {
  put = 1,  // the data that follow go to the blocks
  get,      // the blocks are the answer
  add,      // the data are added to what the blocks have
  update,   // of a word, one block of 4 or 8 bytes at a multiple of its size; what it was is the
            // answer
};
enum class word_update : uint8_t { swap = 1, add };

enum class form : uint8_t {
  strided = 1,  // `level_count` levels follow
  list,         // `count` offsets follow, of blocks of one size
};

// A request: this, the levels or offsets, and, of puts and adds, the data. The packed data of a
// transfer are its blocks one behind the other; a request is about `size` bytes of them from
// `begin` on: of a list, about all.
struct head {
  uint32_t magic = magic_number;
  action what = action::put;
  form of = form::strided;
  uint8_t kind = 0;              // element, of add; word_update, of update
  uint8_t level_count = 0;       // strided
  uint64_t offset = 0;           // strided: of the first block, bytes into the heap of who is asked
  uint64_t block_size = 0;       // bytes
  uint64_t begin = 0, size = 0;  // bytes
  uint64_t count = 0;            // list
  std::byte scale[16]{};         // of add: one element; of update: the operand
};
static_assert(sizeof(head) == 64 && offsetof(head, offset) == 8 && offsetof(head, count) == 40);

struct level {
  uint64_t count, stride;  // blocks, or what is below; bytes
};
static_assert(sizeof(level) == 16);

// Of a request that has been checked; the bytes are those that it was made of.
struct request {
  head asks;
  strided_shape shape{0};              // of strided: the heap's side is both sides
  std::span<const std::byte> offsets;  // of a list: count words
  std::span<const std::byte> data;

  bool has_answer() const noexcept {
    return asks.what == action::get || asks.what == action::update;
  }
  uint64_t offset_at(size_t index) const noexcept {
    uint64_t value;
    std::memcpy(&value, offsets.data() + index * sizeof value, sizeof value);
    return value;
  }
};

// `reply_size`: of the answer that is asked for. range: some byte lies outside of the heap;
// protocol: it is no request.
result<request> parse(std::span<const std::byte> bytes, size_t reply_size, size_t heap_size);

// Where the heap's side of a shape is.
enum class side : uint8_t { source, target };

// Bytes of a request before the data.
inline size_t head_size(const strided_shape &shape) noexcept {
  return sizeof(head) + shape.levels() * sizeof(level);
}

// Head and levels of a request for a part of the shape; returns where the data go.
std::byte *write_head(std::byte *into, head asks, const strided_shape &shape, side heap) noexcept;

}  // namespace tanada::comex::packed
