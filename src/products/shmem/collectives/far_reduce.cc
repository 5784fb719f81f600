// Reductions and scans through contexts.
#include "products/shmem/collectives/far.hpp"

namespace tanada::shmem {
namespace {

constexpr size_t block_size = size_t{8}
                              << 20;  // bytes that are worked on at a time, by all members together

}  // namespace

status far_group::reduce(const reduction &what, void *target, const void *source, size_t count) {
  size_t const size = count * what.size;
  if (can_gather(size)) {
    // Aligned as elements are: long double is the largest.
    std::unique_ptr<std::byte[]> const all{new std::byte[size * size_t(members_.count())]};
    TND_TRY(gather(all.get(), source, size));
    for (int32_t member = 1; member < members_.count(); member++) {
      what.combine(all.get(), all.get() + size_t(member) * size, count);
    }
    return by_.context->copy(target, all.get(), size);
  }
  size_t const block = std::max<size_t>(block_size / what.size, 1);
  slice_work work{what, std::nullopt, static_cast<std::byte *>(target),
                  static_cast<const std::byte *>(source)};
  if (fits_slices(size))
    return reduce_slices(work, count);
  for (size_t done = 0; done < count; done += block) {
    TND_TRY(slices_of_block(work, std::min(block, count - done)));
    work.target += block * what.size;
    work.source += block * what.size;
  }
  return status::ok;
}

// Slices differ in size by a line of the cache, or an element, at most.
bool far_group::fits_slices(size_t size) const noexcept {
  size_t const rounding = size_t(members_.count()) * 2 * cache_line;
  return words_.slices_area != nullptr && size + rounding <= control_layout::slices_size;
}

// Each member gets its slice of all sources, and sends the result to all targets. Nobody waits
// before he sends:
//
// - A slice of a target is written when its member has all sources' slices, so nobody needs that of
// the source any more: source and
//   target may be one.
// - Who sends slices of the next operation has the results of this one, and each member has sent
// its own to him when it had taken
//   from its area all that it needs: one area, and one word, are enough. The result is sent from
//   the target, for the area may be written anew while others still wait for it.
status far_group::reduce_slices(const slice_work &work, size_t count) {
  auto const members = members_.count();
  size_t const element = work.what.size, unit = std::max<size_t>(cache_line / element, 1);
  auto const slice_of = [&](int32_t member) {
    return part::of(count, unit, member, members);
  };
  for (int32_t distance = 1; distance < members; distance++) {
    int32_t const member = members_.behind(distance);
    auto const theirs = slice_of(member);
    size_t const size = theirs.count * element;
    TND_TRY(put_signal(words_.slices_area + size_t(members_.me) * size,
                       work.source + theirs.first * element, size, words_.slices, member));
  }
  auto const mine = slice_of(members_.me);
  size_t const size = mine.count * element;
  std::byte *const area = words_.slices_area;
  TND_TRY(by_.context->copy(area + size_t(members_.me) * size, work.source + mine.first * element,
                            size));
  TND_TRY(leave(size));
  TND_TRY(await(words_.slices, uint64_t(members - 1)));
  for (int32_t member = 1; member < members; member++)
    work.what.combine(area, area + size_t(member) * size, mine.count);
  std::byte *const result = work.target + mine.first * element;
  TND_TRY(by_.context->copy(result, area, size));
  return spread_block(result, result, size);
}

status far_group::scan(const reduction &what, scan_kind kind, void *target, const void *source,
                       size_t count) {
  size_t const block = std::max<size_t>(block_size / what.size, 1);
  slice_work work{what, kind, static_cast<std::byte *>(target),
                  static_cast<const std::byte *>(source)};
  for (size_t done = 0; done < count; done += block) {
    TND_TRY(slices_of_block(work, std::min(block, count - done)));
    work.target += block * what.size;
    work.source += block * what.size;
  }
  return status::ok;
}

// Each member works on its slice of the block: it alone reads that of all sources, and writes that
// of all targets, so that source and target may be one. When all results have come, all have read
// this one's source.
status far_group::slices_of_block(const slice_work &work, size_t count) {
  TND_TRY(sync());
  auto const mine = part::of(count, std::max<size_t>(cache_line / work.what.size, 1), members_.me,
                             members_.count());
  TND_TRY(fetch_slices(work, mine));
  return work.scan ? spread_prefixes(work, mine) : spread_reduced(work, mine);
}

status far_group::fetch_slices(const slice_work &work, part mine) {
  size_t const size = mine.count * work.what.size;
  if (size_t const all = size * size_t(members_.count()); all > slices_size_) {
    slices_.reset(new std::byte[all]);
    slices_size_ = all;
  }
  auto const *const from = work.source + mine.first * work.what.size;
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.behind(distance);
    TND_TRY(by_.context->get_nbi(slices_.get() + size_t(member) * size, from, size,
                                 members_.pe(member)));
  }
  return by_.context->quiet();
}

status far_group::spread_reduced(const slice_work &work, part mine) {
  size_t const size = mine.count * work.what.size;
  for (int32_t member = 1; member < members_.count(); member++) {
    work.what.combine(slices_.get(), slices_.get() + size_t(member) * size, mine.count);
  }
  return spread_block(work.target + mine.first * work.what.size, slices_.get(), size);
}

status far_group::spread_prefixes(const slice_work &work, part mine) {
  size_t const size = mine.count * work.what.size;
  auto *const target = work.target + mine.first * work.what.size;
  for (int32_t member = 1; member < members_.count(); member++) {
    work.what.combine(slices_.get() + size_t(member) * size,
                      slices_.get() + size_t(member - 1) * size, mine.count);
  }
  std::unique_ptr<std::byte[]> zeros;
  if (work.scan == scan_kind::exclusive)
    zeros.reset(new std::byte[size]());
  auto const &word = next_bulk();
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.behind(distance);
    int32_t const last = work.scan == scan_kind::exclusive ? member - 1 : member;
    auto const *const prefix = last < 0 ? zeros.get() : slices_.get() + size_t(last) * size;
    if (member == members_.me) {
      TND_TRY(by_.context->copy(target, prefix, size));
    } else {
      TND_TRY(put_signal(target, prefix, size, word, member));
    }
  }
  if (size > copied_size_max)
    TND_TRY(by_.context->quiet());
  return await(word, uint64_t(members_.count() - 1));
}

}  // namespace tanada::shmem
