// products/pool/checksum.hpp: checksums of objects: CRC32C (isa-l) and XXH3 (xxHash).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tanada::pool {

// The numbers are those of tnd_pool_checksum.
enum class checksum_kind : uint32_t { none = 0, crc32c = 1, xxh3 = 2 };

inline bool is_checksum_kind(uint32_t number) {
  return number <= uint32_t(checksum_kind::xxh3);
}

// The checksum of bytes that are added in order, in parts of any size.
class checksum {
 public:
  explicit checksum(checksum_kind kind);
  checksum(checksum &&) noexcept;
  checksum &operator=(checksum &&) noexcept;
  ~checksum();

  checksum_kind kind() const noexcept {
    return kind_;
  }
  void add(const void *source, size_t size);
  void add(std::span<const std::byte> bytes) {
    add(bytes.data(), bytes.size());
  }

  // Appends bytes of which only the checksum is known, of the same kind. Requires can_join().
  void join(uint64_t value, size_t size);
  bool can_join() const noexcept {
    return kind_ != checksum_kind::xxh3;
  }

  // The checksum of all bytes so far. CRC32C is in the low 32 bits. The value is 0 for `none`.
  uint64_t value() const;

 private:
  struct xxh3_state;
  checksum_kind kind_;
  uint32_t crc_ = 0xFFFFFFFF;
  std::unique_ptr<xxh3_state> xxh3_;
};

uint64_t checksum_of(checksum_kind kind, const void *source, size_t size);
inline uint64_t checksum_of(checksum_kind kind, std::span<const std::byte> bytes) {
  return checksum_of(kind, bytes.data(), bytes.size());
}

// Copies with memcpy, and adds the bytes while they are in the cache. These are the stored bytes,
// even if the source changes meanwhile.
void copy_and_add(void *target, const void *source, size_t size, checksum &sum);

}  // namespace tanada::pool
