#include "products/pool/bulk.hpp"

#include <algorithm>
#include <vector>

#include "seams/os/bulk_copy.hpp"

namespace tanada::pool {
namespace {

// Less is done before a helper is awake.
constexpr uint64_t shared_size_min = 4 << 20;
// What a caller waits for at the end, when a helper has lost its processor, is one piece.
constexpr size_t piece_size = 512 << 10;
// From here on the first bytes have left the caches before the last ones are there: those that a
// processor has of its own, and its part of the shared one.
constexpr uint64_t own_cache_size = 8 << 20, cache_size = 32 << 20;

uint64_t size_of(std::span<const copy_part> parts) {
  uint64_t size = 0;
  for (const copy_part &one : parts)
    size += one.size;
  return size;
}

std::vector<copy_part> pieces_of(std::span<const copy_part> parts) {
  std::vector<copy_part> pieces;
  for (const copy_part &one : parts)
    for (size_t at = 0; at < one.size; at += piece_size)
      pieces.push_back({one.target == nullptr ? nullptr : one.target + at, one.source + at,
                        std::min(piece_size, one.size - at)});
  return pieces;
}

// work(piece, sum of that piece) for each; the sums in order are added to `sum`.
template <class Work>
void share(port::team &helpers, std::span<const copy_part> parts, checksum &sum, const Work &work) {
  std::vector<copy_part> const pieces = pieces_of(parts);
  bool const sums = sum.kind() != checksum_kind::none;
  std::vector<uint64_t> values(sums ? pieces.size() : 0);
  helpers.run(uint32_t(pieces.size()), [&](uint32_t i) {
    checksum one{sum.kind()};
    work(pieces[i], one);
    if (sums)
      values[i] = one.value();
  });
  for (size_t i = 0; i < values.size(); i++)
    sum.join(values[i], pieces[i].size);
}

}  // namespace

void copy_bulk(port::team &helpers, std::span<const copy_part> parts, first_reader reader,
               checksum &sum) {
  uint64_t const size = size_of(parts);
  if (size < shared_size_min || !sum.can_join()) {
    for (const copy_part &one : parts)
      copy_and_add(one.target, one.source, one.size, sum);
    return;
  }
  // A sum reads what was stored, while it is in the cache.
  bool const passes_caches = sum.kind() == checksum_kind::none &&
                             size >= (reader == first_reader::caller ? cache_size : own_cache_size);
  share(helpers, parts, sum, [=](const copy_part &one, checksum &of_piece) {
    if (passes_caches)
      port::copy_past_caches(one.target, one.source, one.size);
    else
      copy_and_add(one.target, one.source, one.size, of_piece);
  });
}

void add_bulk(port::team &helpers, std::span<const iovec> parts, checksum &sum) {
  std::vector<copy_part> read;
  for (const iovec &one : parts)
    read.push_back({nullptr, static_cast<const std::byte *>(one.iov_base), one.iov_len});
  if (size_of(read) < shared_size_min || !sum.can_join()) {
    for (const iovec &one : parts)
      sum.add(one.iov_base, one.iov_len);
    return;
  }
  share(helpers, read, sum,
        [](const copy_part &one, checksum &of_piece) { of_piece.add(one.source, one.size); });
}

}  // namespace tanada::pool
