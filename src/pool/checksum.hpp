// pool/checksum.hpp: the checksum of a whole object, taken while its bytes are written, copied or read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace tanada::pool {

// The numbers are those of the log's format.
enum class checksum_kind : uint8_t {
  none = 0,
  crc32c = 1,  // Castagnoli, RFC 3720; in the lower 32 bits
  xxh3 = 2,    // XXH3, 64 bits, seed 0
};

// Takes bytes in their order, in pieces of any size. Used by one thread at a time.
class checksum {
 public:
  explicit checksum(checksum_kind kind);
  ~checksum();
  checksum(checksum &&) noexcept;
  checksum &operator=(checksum &&) noexcept;

  void update(std::span<const std::byte> bytes);

  // memcpy and update in one pass: pieces small enough for the processor's cache are copied and taken from where they went.
  // What counts is what was stored, whoever changes the source meanwhile. The ranges must not overlap.
  void copy(std::byte *target, std::span<const std::byte> source);

  // Of what has come so far; 0 for none.
  uint64_t value() const;
  checksum_kind kind() const noexcept { return kind_; }

 private:
  struct state_deleter {
    void operator()(XXH3_state_s *state) const noexcept;
  };
  checksum_kind kind_;
  uint32_t crc_ = ~uint32_t{0};
  std::unique_ptr<XXH3_state_s, state_deleter> state_;  // xxh3
};

uint64_t checksum_of(checksum_kind kind, std::span<const std::byte> bytes);

}  // namespace tanada::pool
