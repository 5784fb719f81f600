#include "pool/checksum.hpp"

#include <isa-l/crc.h>
#include <xxhash.h>

#include <cstring>

#include "base/assert.hpp"

namespace tanada::pool {
namespace {

constexpr size_t block_size = 32 << 10;    // of copy_and_add: source and target stay in the first or second cache
constexpr size_t crc_part_max = 1 << 30;   // isa-l counts in an int

}  // namespace

struct checksum::xxh3_state {
  XXH3_state_t *const state = XXH3_createState();
  xxh3_state() {
    TND_ASSERT(state != nullptr);
    XXH3_64bits_reset(state);
  }
  ~xxh3_state() { XXH3_freeState(state); }
};

checksum::checksum(checksum_kind kind) : kind_{kind} {
  if (kind == checksum_kind::xxh3) xxh3_ = std::make_unique<xxh3_state>();
}
checksum::checksum(checksum &&) noexcept = default;
checksum &checksum::operator=(checksum &&) noexcept = default;
checksum::~checksum() = default;

void checksum::add(const void *source, size_t size) {
  if (kind_ == checksum_kind::xxh3) XXH3_64bits_update(xxh3_->state, source, size);
  if (kind_ != checksum_kind::crc32c) return;
  auto *bytes = const_cast<unsigned char *>(static_cast<const unsigned char *>(source));
  while (size > 0) {
    size_t const part = size < crc_part_max ? size : crc_part_max;
    crc_ = crc32_iscsi(bytes, int(part), crc_);
    bytes += part, size -= part;
  }
}

uint64_t checksum::value() const {
  switch (kind_) {
    case checksum_kind::none: return 0;
    case checksum_kind::crc32c: return crc_ ^ 0xFFFFFFFF;
    case checksum_kind::xxh3: return XXH3_64bits_digest(xxh3_->state);
  }
  return 0;
}

uint64_t checksum_of(checksum_kind kind, const void *source, size_t size) {
  if (kind == checksum_kind::xxh3) return XXH3_64bits(source, size);
  checksum sum{kind};
  sum.add(source, size);
  return sum.value();
}

void copy_and_add(void *target, const void *source, size_t size, checksum &sum) {
  auto *to = static_cast<char *>(target);
  auto const *from = static_cast<const char *>(source);
  if (sum.kind() == checksum_kind::none) {
    if (size > 0) std::memcpy(to, from, size);
    return;
  }
  while (size > 0) {
    size_t const part = size < block_size ? size : block_size;
    std::memcpy(to, from, part);
    sum.add(to, part);
    to += part, from += part, size -= part;
  }
}

}  // namespace tanada::pool
