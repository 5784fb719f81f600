// Encoding and decoding with ISA-L's arithmetic.
#include "products/pool/erasure_codec.hpp"

#include <isa-l/erasure_code.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/assert.hpp"

namespace tanada::pool {
namespace {

constexpr size_t width_max =
    wire::pool::erasure_data_count_max + wire::pool::erasure_parity_count_max;
constexpr size_t table_size = 32;              // of a coefficient, as ISA-L needs it
constexpr size_t codec_block_size = 16 << 10;  // the blocks of all sources stay in the second cache

constexpr std::array<std::byte, codec_block_size> zero_block{};

// A block of a source. Beyond the source's end there are zeros.
const std::byte *block_of(erasure_codec::fragment source,
                          size_t offset,
                          size_t size,
                          std::vector<std::byte> &buffer) {
  if (offset + size <= source.size())
    return source.data() + offset;
  if (offset >= source.size())
    return zero_block.data();
  buffer.assign(size, std::byte{0});
  std::memcpy(buffer.data(), source.data() + offset, source.size() - offset);
  return buffer.data();
}

// ISA-L does not change what it reads.
unsigned char *mutable_bytes(const std::byte *bytes) {
  return reinterpret_cast<unsigned char *>(const_cast<std::byte *>(bytes));
}

}  // namespace

erasure_codec::erasure_codec(const wire::pool::erasure_scheme &scheme)
    : scheme_{scheme}, matrix_(size_t{scheme.width()} * scheme.data_count) {
  TND_ASSERT(scheme.is_on() && is_valid(scheme));
  // Every square part of this matrix can be inverted. That of gf_gen_rs_matrix() cannot for all
  // sizes.
  gf_gen_cauchy1_matrix(matrix_.data(), int(scheme.width()), scheme.data_count);
}

void erasure_codec::combine(std::span<const uint8_t> coefficients,
                            std::span<const fragment> sources,
                            std::span<std::byte> target) {
  TND_ASSERT(coefficients.size() == sources.size() && sources.size() <= width_max);
  std::array<uint8_t, table_size * width_max> tables;
  std::array<uint8_t, width_max> row;
  std::copy(coefficients.begin(), coefficients.end(), row.begin());
  ec_init_tables(int(sources.size()), 1, row.data(), tables.data());
  std::array<unsigned char *, width_max> blocks;
  std::array<std::vector<std::byte>, width_max> buffers;
  for (size_t offset = 0; offset < target.size(); offset += codec_block_size) {
    size_t const size = std::min(codec_block_size, target.size() - offset);
    for (size_t i = 0; i < sources.size(); i++)
      blocks[i] = mutable_bytes(block_of(sources[i], offset, size, buffers[i]));
    unsigned char *output = mutable_bytes(target.data() + offset);
    ec_encode_data(int(size), int(sources.size()), 1, tables.data(), blocks.data(), &output);
  }
}

void erasure_codec::encode(std::span<const fragment> data,
                           uint32_t index,
                           std::span<std::byte> parity) const {
  TND_ASSERT(data.size() == scheme_.data_count && index < scheme_.parity_count);
  size_t const row = size_t{scheme_.data_count} + index;
  combine(std::span{matrix_}.subspan(row * scheme_.data_count, scheme_.data_count), data, parity);
}

bool erasure_codec::rebuild(std::span<const source> sources,
                            uint32_t place,
                            std::span<std::byte> target) const {
  size_t const count = scheme_.data_count;
  if (sources.size() != count || place >= scheme_.width())
    return false;
  std::vector<uint8_t> rows(count * count), inverse(count * count);
  std::vector<fragment> fragments;
  for (size_t i = 0; i < count; i++) {
    if (sources[i].place >= scheme_.width())
      return false;
    std::copy_n(
        matrix_.begin() + long(sources[i].place * count), count, rows.begin() + long(i * count));
    fragments.push_back(sources[i].bytes);
  }
  if (gf_invert_matrix(rows.data(), inverse.data(), int(count)) != 0)
    return false;
  // The place's row times the inverse: the fragment as a sum of the sources.
  std::vector<uint8_t> coefficients(count);
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < count; k++)
      coefficients[i] ^= gf_mul(matrix_[place * count + k], inverse[k * count + i]);
  combine(coefficients, fragments, target);
  return true;
}

}  // namespace tanada::pool
