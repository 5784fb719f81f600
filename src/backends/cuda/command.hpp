// backends/cuda/command.hpp: what host code asks of the service kernel: the layout of the memory
// that both reach.
//
// A command is 16 words of 32 bits, and travels as 16 words of 64: its sequence in the high half of
// each. Whoever sees the sequence it waits for in all of them has the whole command, with no fence
// and no second look across the bus. Small answers come the same way. Each word has one writer, for
// a device's read-modify-writes on host memory are not atomic with the host's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tanada/device/detail/simt/config.hpp>

namespace tanada::port::cuda {

inline constexpr uint32_t slot_count = 64;  // commands under way
inline constexpr uint32_t word_count = 16;  // of a command and of an answer
inline constexpr uint32_t annex_size =
    16384;  // bytes of memory for what is too long for a command or an answer
inline constexpr uint32_t inline_size_max = 48;  // bytes in a command
inline constexpr uint32_t answer_size_max = 64;  // bytes in an answer
inline constexpr uint32_t view_count =
    3;  // copies of each command, for warps that look at the same time

// write: the bytes are in the command; copy: from `source`; rows: so many copies; read: the bytes
// go into the answer, or the annex where there are more; rest: the kernel ends.
enum class command_kind : uint8_t { nothing, write, copy, rows, read, update, rest };

struct rows_words {
  uint64_t source;
  int64_t target_stride, source_stride;  // bytes
  uint64_t count;
};

struct update_words {
  uint64_t operand, compare;
};

struct alignas(8) command {
  command_kind kind;
  uint8_t is_ordered;   // what was posted before is performed before it
  uint8_t atomic;       // update: a fabric_atomic
  uint8_t wants_value;  // update: the answer tells what was there
  uint32_t size;        // bytes; of one row, of the word
  uint64_t target;
  union {
    unsigned char bytes[inline_size_max];
    rows_words rows;  // copy and read: the source alone
    update_words update;
  };
};
static_assert(sizeof(command) == word_count * sizeof(uint32_t) && offsetof(command, bytes) == 16);

struct alignas(128) tagged_words {
  uint64_t words[word_count];  // sequence:32 | 32 bits of content
};

struct ring_memory {
  // The host writes; each view is the same.
  tagged_words commands[view_count][slot_count];
  alignas(128) uint32_t canceled;  // runs of the kernel up to this generation serve nothing
  // The device writes. A run that has `started` looks at `canceled`, and then is `serving`. It says
  // that it has `left`, looks at the ring for a last time, and says with `ended` which is the first
  // sequence that it did not perform.
  alignas(128) uint32_t done;  // sequence up to which all is performed
  alignas(128) uint32_t started;
  uint32_t serving;
  uint32_t left;
  uint32_t reserved;
  uint64_t ended;  // generation:32 | sequence
  tagged_words answers[slot_count];
  // The host's in a command's use, the device's in a read's.
  alignas(4096) unsigned char annexes[slot_count][annex_size];
};

// Whether a sequence, or a generation, is not after another; they wrap.
TND_HD constexpr bool is_reached(uint32_t what, uint32_t by) {
  return int32_t(by - what) >= 0;
}

}  // namespace tanada::port::cuda
