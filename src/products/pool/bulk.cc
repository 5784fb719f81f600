// Copies and checksums of large data, split into pieces for several threads.
#include "products/pool/bulk.hpp"

#include <algorithm>
#include <vector>

#include "core/base/assert.hpp"
#include "seams/os/bulk_copy.hpp"

namespace tanada::pool {
namespace {

// Smaller copies are done before a helper thread is awake.
constexpr uint64_t shared_size_min = 4 << 20;
// At the end, a caller waits for at most one piece of a helper that has lost its processor.
constexpr size_t piece_size = 512 << 10;
// From these sizes on, the first bytes have left the caches before the last ones are copied: the
// processor's own caches, and its part of the shared cache.
constexpr uint64_t own_cache_size = 8 << 20, cache_size = 32 << 20;
static_assert(piece_size < shared_size_min && own_cache_size <= cache_size);

uint64_t size_of(std::span<const copy_part> parts) {
  uint64_t size = 0;
  for (const copy_part &part : parts)
    size += part.size;
  return size;
}

std::vector<copy_part> pieces_of(std::span<const copy_part> parts) {
  std::vector<copy_part> pieces;
  for (const copy_part &part : parts)
    for (size_t offset = 0; offset < part.size; offset += piece_size)
      pieces.push_back({part.target == nullptr ? nullptr : part.target + offset,
                        part.source + offset,
                        std::min(piece_size, part.size - offset)});
  return pieces;
}

// Calls work(piece, checksum of that piece) for each piece, and appends the pieces' checksums to
// `sum` in order.
template <class Work>
void run_pieces(seams::team &helpers,
                std::span<const copy_part> parts,
                checksum &sum,
                const Work &work) {
  TND_ASSERT(sum.can_join());
  std::vector<copy_part> const pieces = pieces_of(parts);
  bool const sums = sum.kind() != checksum_kind::none;
  std::vector<uint64_t> values(sums ? pieces.size() : 0);
  helpers.run(uint32_t(pieces.size()), [&](uint32_t i) {
    checksum piece_sum{sum.kind()};
    work(pieces[i], piece_sum);
    if (sums)
      values[i] = piece_sum.value();
  });
  for (size_t i = 0; i < values.size(); i++) {
    sum.join(values[i], pieces[i].size);
  }
}

}  // namespace

void copy_bulk(seams::team &helpers,
               std::span<const copy_part> parts,
               first_reader reader,
               checksum &sum) {
  uint64_t const size = size_of(parts);
  if (size < shared_size_min || !sum.can_join()) {
    for (const copy_part &part : parts) {
      copy_and_add(part.target, part.source, part.size, sum);
    }
    return;
  }
  // A checksum reads the stored bytes while they are in the cache.
  bool const passes_caches = sum.kind() == checksum_kind::none &&
                             size >= (reader == first_reader::caller ? cache_size : own_cache_size);
  run_pieces(helpers, parts, sum, [=](const copy_part &piece, checksum &piece_sum) {
    if (passes_caches)
      seams::copy_past_caches(piece.target, piece.source, piece.size);
    else
      copy_and_add(piece.target, piece.source, piece.size, piece_sum);
  });
}

void add_bulk(seams::team &helpers, std::span<const iovec> parts, checksum &sum) {
  std::vector<copy_part> read;
  for (const iovec &part : parts) {
    read.push_back({nullptr, static_cast<const std::byte *>(part.iov_base), part.iov_len});
  }
  if (size_of(read) < shared_size_min || !sum.can_join()) {
    for (const iovec &part : parts) {
      sum.add(part.iov_base, part.iov_len);
    }
    return;
  }
  run_pieces(helpers, read, sum, [](const copy_part &piece, checksum &piece_sum) {
    piece_sum.add(piece.source, piece.size);
  });
}

}  // namespace tanada::pool
