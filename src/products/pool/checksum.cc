// CRC32C and XXH3 checksums, and the combination of CRCs of adjacent parts.
#include "products/pool/checksum.hpp"

#include <isa-l/crc.h>
#include <xxhash.h>

#include <array>
#include <climits>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

constexpr size_t block_size =
    32 << 10;  // of copy_and_add: source and target stay in the first or second cache
constexpr size_t crc_part_max = 1 << 30;  // isa-l counts in an int
static_assert(crc_part_max <= size_t{INT_MAX});

// CRCs are remainders of polynomials over GF(2), reflected: the highest bit is x^0.
constexpr uint32_t crc_polynomial = 0x82F63B78, crc_one = 1u << 31;

constexpr uint32_t crc_product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = crc_one; bit != 0; bit >>= 1) {
    if ((a & bit) != 0)
      product ^= b;
    b = (b & 1) != 0 ? b >> 1 ^ crc_polynomial : b >> 1;
  }
  return product;
}

// x^(8 * 2^i), the factor by which 2^i following bytes multiply a CRC.
constexpr std::array<uint32_t, 64> crc_shifts = [] {
  std::array<uint32_t, 64> shifts{};
  shifts[0] = crc_one >> 8;
  for (size_t i = 1; i < shifts.size(); i++) {
    shifts[i] = crc_product(shifts[i - 1], shifts[i - 1]);
  }
  return shifts;
}();
static_assert(crc_product(crc_one, crc_polynomial) == crc_polynomial, "crc_one is neutral");

}  // namespace

struct checksum::xxh3_state {
  XXH3_state_t *const state = XXH3_createState();
  xxh3_state() {
    TND_ASSERT(state != nullptr);
    XXH3_64bits_reset(state);
  }
  ~xxh3_state() {
    XXH3_freeState(state);
  }
};

checksum::checksum(checksum_kind kind) : kind_{kind} {
  if (kind == checksum_kind::xxh3)
    xxh3_ = std::make_unique<xxh3_state>();
}
checksum::checksum(checksum &&) noexcept = default;
checksum &checksum::operator=(checksum &&) noexcept = default;
checksum::~checksum() = default;

void checksum::add(const void *source, size_t size) {
  if (kind_ == checksum_kind::xxh3)
    XXH3_64bits_update(xxh3_->state, source, size);
  if (kind_ != checksum_kind::crc32c)
    return;
  auto *bytes = const_cast<unsigned char *>(static_cast<const unsigned char *>(source));
  while (size > 0) {
    size_t const part = size < crc_part_max ? size : crc_part_max;
    crc_ = crc32_iscsi(bytes, int(part), crc_);
    bytes += part;
    size -= part;
  }
}

void checksum::join(uint64_t value, size_t size) {
  TND_ASSERT(can_join());
  if (kind_ != checksum_kind::crc32c)
    return;
  uint32_t before = crc_ ^ 0xFFFFFFFF;
  for (size_t i = 0; size >> i != 0; i++) {
    if ((size >> i & 1) != 0)
      before = crc_product(crc_shifts[i], before);
  }
  crc_ = before ^ uint32_t(value) ^ 0xFFFFFFFF;
}

uint64_t checksum::value() const {
  switch (kind_) {
    case checksum_kind::none:
      return 0;
    case checksum_kind::crc32c:
      return crc_ ^ 0xFFFFFFFF;
    case checksum_kind::xxh3:
      return XXH3_64bits_digest(xxh3_->state);
  }
  return 0;
}

uint64_t checksum_of(checksum_kind kind, const void *source, size_t size) {
  if (kind == checksum_kind::xxh3)
    return XXH3_64bits(source, size);
  checksum sum{kind};
  sum.add(source, size);
  return sum.value();
}

void copy_and_add(void *target, const void *source, size_t size, checksum &sum) {
  auto *out_bytes = static_cast<char *>(target);
  auto const *in_bytes = static_cast<const char *>(source);
  if (sum.kind() == checksum_kind::none) {
    if (size > 0)
      std::memcpy(out_bytes, in_bytes, size);
    return;
  }
  while (size > 0) {
    size_t const part = size < block_size ? size : block_size;
    std::memcpy(out_bytes, in_bytes, part);
    sum.add(out_bytes, part);
    out_bytes += part;
    in_bytes += part;
    size -= part;
  }
}

}  // namespace tanada::pool
