#include "pool/checksum.hpp"

#include <isa-l/crc.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

namespace tanada::pool {
namespace {

// Half of a first-level cache of 48 KiB and more, and a small part of any second level.
constexpr size_t block_size = size_t{32} << 10;

uint32_t crc_update(uint32_t crc, std::span<const std::byte> bytes) {
  // The library counts in int and does not write to what it takes as if it might.
  constexpr size_t step_max = size_t{1} << 30;
  while (!bytes.empty()) {
    auto const part = bytes.first(std::min(bytes.size(), step_max));
    auto *const start = const_cast<unsigned char *>(reinterpret_cast<const unsigned char *>(part.data()));
    crc = crc32_iscsi(start, int(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return crc;
}

}  // namespace

void checksum::state_deleter::operator()(XXH3_state_s *state) const noexcept { XXH3_freeState(state); }

checksum::checksum(checksum_kind kind) : kind_{kind} {
  TND_ASSERT(kind <= checksum_kind::xxh3);
  if (kind != checksum_kind::xxh3) return;
  state_.reset(XXH3_createState());
  TND_ASSERT(state_ != nullptr);
  XXH3_64bits_reset(state_.get());
}

checksum::~checksum() = default;
checksum::checksum(checksum &&) noexcept = default;
checksum &checksum::operator=(checksum &&) noexcept = default;

void checksum::update(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  if (kind_ == checksum_kind::crc32c) crc_ = crc_update(crc_, bytes);
  if (kind_ == checksum_kind::xxh3) XXH3_64bits_update(state_.get(), bytes.data(), bytes.size());
}

void checksum::copy(std::byte *target, std::span<const std::byte> source) {
  size_t const step = kind_ == checksum_kind::none ? source.size() : block_size;
  while (!source.empty()) {
    size_t const part = std::min(source.size(), step);
    std::memcpy(target, source.data(), part);
    update({target, part});
    target += part;
    source = source.subspan(part);
  }
}

uint64_t checksum::value() const {
  if (kind_ == checksum_kind::crc32c) return ~crc_;
  return kind_ == checksum_kind::xxh3 ? XXH3_64bits_digest(state_.get()) : 0;
}

uint64_t checksum_of(checksum_kind kind, std::span<const std::byte> bytes) {
  if (kind == checksum_kind::crc32c) return ~crc_update(~uint32_t{0}, bytes);
  return kind == checksum_kind::xxh3 ? XXH3_64bits(bytes.data(), bytes.size()) : 0;
}

}  // namespace tanada::pool
