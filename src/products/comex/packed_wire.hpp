// products/comex/packed_wire.hpp: requests for memory of a process of another node: blocks packed
// into one message. These are pure functions; they check all untrusted input before it is used.
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
  put = 1,  // the data that follow are stored to the blocks
  get,      // the blocks are the reply
  add,      // the data that follow are added to the blocks
  update,   // changes a word, a block of 4 or 8 naturally aligned bytes; the reply is its old value
};
enum class word_update : uint8_t { exchange = 1, add };

enum class block_layout : uint8_t {
  strided = 1,  // `level_count` levels follow
  list,         // `count` offsets follow, of blocks of one size
};

// The header of a request. The levels or offsets follow it and, for put and add, the data. The
// packed data of a transfer are its blocks, concatenated. A request covers `size` bytes of them
// from `begin` on; a request with a list covers all of them.
struct head {
  uint32_t magic = magic_number;
  action op = action::put;
  block_layout layout = block_layout::strided;
  uint8_t kind = 0;              // of add: the element type; of update: the word_update
  uint8_t level_count = 0;       // of strided
  uint64_t offset = 0;           // of strided: byte offset of the first block in the target's heap
  uint64_t block_size = 0;       // bytes
  uint64_t begin = 0, size = 0;  // bytes
  uint64_t count = 0;            // of list
  std::byte scale[16]{};         // of add: one element; of update: the operand
};
static_assert(sizeof(head) == 64 && offsetof(head, offset) == 8 && offsetof(head, count) == 40);

struct level {
  uint64_t count, stride;  // blocks or lower levels; bytes
};
static_assert(sizeof(level) == 16);
static_assert(sizeof(head::scale) >= 16 && stride_level_max <= UINT8_MAX);

// A checked request. Its spans refer to the bytes that it was parsed from.
struct request {
  head header;
  strided_shape shape{0};              // of strided: both sides are the heap's side
  std::span<const std::byte> offsets;  // of a list: `count` words
  std::span<const std::byte> data;

  bool has_reply() const noexcept {
    return header.op == action::get || header.op == action::update;
  }
  uint64_t offset_at(size_t index) const noexcept {
    uint64_t value;
    std::memcpy(&value, offsets.data() + index * sizeof value, sizeof value);
    return value;
  }
};

// `reply_size` is the size of the requested reply. range: some byte is outside of the heap;
// protocol: the bytes are no valid request.
result<request> parse(std::span<const std::byte> bytes, size_t reply_size, size_t heap_size);

// The side of a shape that lies in the heap.
enum class side : uint8_t { source, target };

// Size of a request before its data.
inline size_t head_size(const strided_shape &shape) noexcept {
  return sizeof(head) + shape.levels() * sizeof(level);
}

// Writes header and levels of a request for a part of the shape. Returns the position for the data.
std::byte *write_head(std::byte *output,
                      head header,
                      const strided_shape &shape,
                      side heap) noexcept;

}  // namespace tanada::comex::packed
