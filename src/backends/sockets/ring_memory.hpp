// backends/sockets/ring_memory.hpp: the memory of a connection between two processes of one node:
// a ring of bytes for each direction.
//
// Neither process trusts the other, which may write anything here at any time. So a process keeps
// its own position in each ring to itself, checks the other one's against the capacity, and copies
// bytes out once before it looks at them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "seams/os/shared_memory.hpp"

namespace tanada::backends {

// One direction. Positions count all bytes from the beginning. Each word has cache lines of its
// own, in pairs, because processors fetch them so: the sender reads `receiver_waits` after every
// message, and the receiver writes `head` after every one.
struct ring_state {
  alignas(128) std::atomic<uint64_t> tail;  // written by the sender
  alignas(128) std::atomic<uint64_t> head;  // written by the receiver
  // 1: that side sleeps until a byte arrives over the socket. The other side resets it, and sends
  // the byte.
  alignas(128) std::atomic<uint32_t> receiver_waits;
  alignas(128) std::atomic<uint32_t> sender_waits;
};
static_assert(sizeof(ring_state) == 512 && std::atomic<uint64_t>::is_always_lock_free);

class ring_memory {
 public:
  static constexpr size_t capacity = size_t{64} << 10;  // bytes in flight in one direction
  static constexpr size_t header_size = 4096;
  static constexpr size_t size = header_size + 2 * capacity;
  static_assert((capacity & (capacity - 1)) == 0 && 2 * sizeof(ring_state) <= header_size);

  // New rings. `file`: its size is sealed, for the other process. no_memory, or the system's error,
  // with a message.
  struct creation;
  static result<creation> create();

  // The rings behind a descriptor of the other process; it stays the caller's. invalid: it has
  // another size, or can be truncated.
  static result<std::shared_ptr<ring_memory>> map(int descriptor);

  explicit ring_memory(std::byte *addr) noexcept : addr_{addr} {}
  ring_memory(const ring_memory &) = delete;
  ring_memory &operator=(const ring_memory &) = delete;
  ~ring_memory();

  ring_state &state(unsigned direction) noexcept {
    return reinterpret_cast<ring_state *>(addr_)[direction];
  }
  std::byte *bytes(unsigned direction) noexcept {
    return addr_ + header_size + direction * capacity;
  }

 private:
  std::byte *const addr_;
};

struct ring_memory::creation {
  std::shared_ptr<ring_memory> memory;
  seams::shared_memory file;
};

}  // namespace tanada::backends
