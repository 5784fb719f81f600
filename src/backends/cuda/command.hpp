// backends/cuda/command.hpp: commands from host code to the service kernel: the layout of the
// memory that both access.
//
// A command is 16 words of 32 bits, sent as 16 words of 64 bits with the command's sequence number
// in the high half of each. A reader that finds the expected sequence in all words has the whole
// command, without a fence and without a second read across the bus. Small answers are returned in
// the same way. Each word has one writer, because a device's read-modify-writes of host memory are
// not atomic with respect to the host's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tanada/device/detail/simt/config.hpp>

namespace tanada::backends::cuda {

inline constexpr uint32_t slot_count = 64;  // commands in flight
static_assert((slot_count & (slot_count - 1)) == 0, "sequences wrap around");
inline constexpr uint32_t word_count = 16;  // in a command or an answer
inline constexpr uint32_t annex_size =
    16384;  // bytes, for data too long for a command or an answer
inline constexpr uint32_t inline_size_max = 48;  // bytes in a command
inline constexpr uint32_t answer_size_max = 64;  // bytes in an answer
inline constexpr uint32_t view_count =
    3;  // copies of each command, for warps that poll at the same time

// write: the bytes are in the command. copy: from `source`. rows: `count` copies. read: the bytes
// go into the answer, or into the annex if they do not fit. stop: the kernel ends.
enum class command_kind : uint8_t { nothing, write, copy, rows, read, update, stop };

struct rows_words {
  uint64_t source;
  int64_t target_stride, source_stride;  // bytes
  uint64_t count;
};

static_assert(sizeof(rows_words) == 32 && offsetof(rows_words, count) == 24);

struct update_words {
  uint64_t operand, compare;
};
static_assert(sizeof(update_words) == 16);

struct alignas(8) command {
  command_kind kind;
  uint8_t is_ordered;   // performed after all commands posted before it
  uint8_t atomic;       // update: a fabric_atomic
  uint8_t wants_value;  // update: the answer has the old value
  uint32_t size;        // bytes: of the data, of one row, or of the word
  uint64_t target;
  union {
    unsigned char bytes[inline_size_max];
    rows_words rows;  // copy and read: only the source
    update_words update;
  };
};
static_assert(inline_size_max >= sizeof(rows_words) && inline_size_max >= sizeof(update_words));
static_assert(sizeof(command) == word_count * sizeof(uint32_t) && offsetof(command, bytes) == 16);

struct alignas(128) tagged_words {
  uint64_t words[word_count];  // sequence:32 | 32 bits of content
};
static_assert(sizeof(tagged_words) == word_count * sizeof(uint64_t));
static_assert(answer_size_max == word_count * sizeof(uint32_t));
static_assert(inline_size_max < answer_size_max && answer_size_max < annex_size);

struct ring_memory {
  // Written by the host; all views have the same commands.
  tagged_words commands[view_count][slot_count];
  alignas(128) uint32_t canceled;  // runs of the kernel up to this generation serve no command
  // Written by the device. A run sets `started`, reads `canceled`, and then sets `serving`. To end,
  // it sets `closing`, polls the ring once more, and sets `ended` with the first sequence that it
  // did not perform.
  alignas(128) uint32_t done;  // all commands up to this sequence are performed
  alignas(128) uint32_t started;
  uint32_t serving;
  uint32_t closing;
  uint32_t reserved;
  uint64_t ended;  // generation:32 | sequence
  tagged_words answers[slot_count];
  // Written by the host for a command, and by the device for a read.
  alignas(4096) unsigned char annexes[slot_count][annex_size];
};
static_assert(offsetof(ring_memory, annexes) % 4096 == 0 &&
              offsetof(ring_memory, canceled) / 128 != offsetof(ring_memory, done) / 128);

// Returns true if a sequence or generation is not after another. They wrap around.
TND_HD constexpr bool is_reached(uint32_t sequence, uint32_t reference) {
  return int32_t(reference - sequence) >= 0;
}

}  // namespace tanada::backends::cuda
