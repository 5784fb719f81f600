// Reductions and scans through contexts.
#include <cstring>

#include "products/shmem/collectives/fabric_group.hpp"

namespace tanada::shmem {
namespace {

constexpr size_t block_size = size_t{8} << 20;  // bytes that all members together work on at a time
static_assert(block_size % cache_line == 0);

// Returns the elements of `count` that a member combines for all others.
part slice_of(const reduction &op, size_t count, int32_t member, int32_t members) noexcept {
  return part::for_member(count, std::max<size_t>(cache_line / op.size, 1), member, members);
}

}  // namespace

status fabric_group::reduce(const reduction &op, void *target, const void *source, size_t count) {
  slice_work work{
      op, std::nullopt, static_cast<std::byte *>(target), static_cast<const std::byte *>(source)};
  switch (schedule::path_of_reduction(
      count * op.size, members_.count(), {words_.area_size, words_.slices_size}, load())) {
    case schedule::reduction_path::gathered:
      return reduce_gathered(op, target, source, count);
    case schedule::reduction_path::doubling:
      return reduce_by_doubling(op, target, source, count);
    case schedule::reduction_path::tree:
      return reduce_by_tree(op, target, source, count);
    case schedule::reduction_path::slices:
      return reduce_slices(work, count);
    case schedule::reduction_path::fetched:
      break;
  }
  size_t const block = std::max<size_t>(block_size / op.size, 1);
  for (size_t done = 0; done < count; done += block) {
    TND_TRY(slices_of_block(work, std::min(block, count - done)));
    work.target += block * op.size;
    work.source += block * op.size;
  }
  return status::ok;
}

status fabric_group::reduce_gathered(const reduction &op,
                                     void *target,
                                     const void *source,
                                     size_t count) {
  size_t const size = count * op.size;
  // Aligned as elements are: long double is the largest.
  std::unique_ptr<std::byte[]> const gathered{new std::byte[size * size_t(members_.count())]};
  TND_TRY(gather(gathered.get(), source, size));
  for (int32_t member = 1; member < members_.count(); member++)
    op.combine(gathered.get(), gathered.get() + size_t(member) * size, count);
  return channel_.context->copy(target, gathered.get(), size);
}

status fabric_group::reduce_by_areas(const reduction &op,
                                     void *target,
                                     const void *source,
                                     size_t count) {
  switch (schedule::path_by_areas(count * op.size, members_.count(), words_.area_size, load())) {
    case schedule::reduction_path::gathered:
      return reduce_gathered(op, target, source, count);
    case schedule::reduction_path::tree:
      return reduce_by_tree(op, target, source, count);
    default:
      return reduce_by_doubling(op, target, source, count);
  }
}

status fabric_group::reduce_by_tree(const reduction &op,
                                    void *target,
                                    const void *source,
                                    size_t count) {
  return reduce_pieces(op, {target, source, count}, &fabric_group::reduce_piece_by_tree);
}

status fabric_group::reduce_by_doubling(const reduction &op,
                                        void *target,
                                        const void *source,
                                        size_t count) {
  return reduce_pieces(op, {target, source, count}, &fabric_group::reduce_piece_by_doubling);
}

status fabric_group::reduce_pieces(const reduction &op,
                                   const piece_arrays &arrays,
                                   piece_call call) {
  size_t const piece_max = schedule::area_piece(words_.area_size, members_.count());
  size_t const piece_count = piece_max / op.size;
  TND_ASSERT(piece_count != 0 && piece_max <= copied_size_max);
  std::unique_ptr<std::byte[]> const elements{new std::byte[piece_max]};
  for (size_t done = 0; done < arrays.count; done += piece_count) {
    size_t const piece = std::min(piece_count, arrays.count - done), size = piece * op.size;
    auto const *const src = static_cast<const std::byte *>(arrays.source) + done * op.size;
    TND_TRY(channel_.context->copy(elements.get(), src, size));
    TND_TRY((this->*call)({op, elements.get(), piece, piece_max}));
    auto *const dst = static_cast<std::byte *>(arrays.target) + done * op.size;
    TND_TRY(channel_.context->copy(dst, elements.get(), size));
  }
  return status::ok;
}

// An area holds a piece for each round, and then the result. A member that returns knows that all
// have entered, so the area alternates as for a gather. Results arrive over the words of a
// broadcast's tree: each of them has the same sender in both.
status fabric_group::reduce_piece_by_tree(const piece_work &work) {
  size_t const size = work.size(), parity = counts_.gather++ & 1;
  auto const members = members_.count();
  auto const place = schedule::place_in_tree(members_.me, members);
  std::byte *const area = words_.areas[parity];
  std::byte *const result = area + size_t(schedule::round_count(members)) * work.size_max;
  auto const *const words = &words_.gather[parity * round_count_max];
  for (int32_t round = 0; round < place.child_count; round++) {
    TND_TRY(await(words[round], 1));
    work.op.combine(work.elements, area + size_t(round) * work.size_max, work.count);
  }
  if (place.round >= 0) {
    int32_t const parent = members_.prev(schedule::distance(place.round));
    std::byte *const slot = area + size_t(place.round) * work.size_max;
    TND_TRY(put_signal(slot, work.elements, size, words[place.round], parent));
    TND_TRY(await(words_.tree[size_t(place.round)], 1));
    std::memcpy(work.elements, result, size);
  }
  return forward_result(work.elements, result, size);
}

// An area holds a piece for each round, and one more for members that share a position. A member
// that returns has a result of all elements, so all have entered, and the area alternates as for a
// gather. Words count signals, so another sender than in a gather does no harm.
status fabric_group::reduce_piece_by_doubling(const piece_work &work) {
  size_t const size = work.size(), parity = counts_.gather++ & 1;
  auto const members = members_.count();
  auto const place = schedule::place_in_doubling(members_.me, members);
  if (place.companion >= 0)
    TND_TRY(fold_piece(work, parity));
  if (place.position < 0)
    return status::ok;
  for (int32_t round = 0; round < place.rounds; round++)
    TND_TRY(exchange_piece(work, place.position, round, parity));
  if (place.companion < 0)
    return status::ok;
  std::byte *const slot = words_.areas[parity] + size_t(place.rounds) * work.size_max;
  auto const &word = words_.gather[parity * round_count_max + size_t(place.rounds)];
  return put_signal(slot, work.elements, size, word, place.companion);
}

// All get the same bits, because the lower position's elements come first at both.
status fabric_group::exchange_piece(const piece_work &work,
                                    int32_t position,
                                    int32_t round,
                                    size_t parity) {
  std::byte *const slot = words_.areas[parity] + size_t(round) * work.size_max;
  auto const &word = words_.gather[parity * round_count_max + size_t(round)];
  int32_t const partner = schedule::doubling_partner(position, round, members_.count());
  TND_TRY(put_signal(slot, work.elements, work.size(), word, partner));
  TND_TRY(await(word, 1));
  if ((position & schedule::distance(round)) == 0) {
    work.op.combine(work.elements, slot, work.count);
    return status::ok;
  }
  work.op.combine(slot, work.elements, work.count);
  std::memcpy(work.elements, slot, work.size());
  return status::ok;
}

// A member without a position sends its elements to its companion, and waits for the result.
status fabric_group::fold_piece(const piece_work &work, size_t parity) {
  auto const place = schedule::place_in_doubling(members_.me, members_.count());
  std::byte *const slot = words_.areas[parity] + size_t(place.rounds) * work.size_max;
  auto const &word = words_.gather[parity * round_count_max + size_t(place.rounds)];
  if (place.position >= 0) {
    TND_TRY(await(word, 1));
    work.op.combine(work.elements, slot, work.count);
    return status::ok;
  }
  TND_TRY(put_signal(slot, work.elements, work.size(), word, place.companion));
  TND_TRY(await(word, 1));
  std::memcpy(work.elements, slot, work.size());
  return status::ok;
}

status fabric_group::forward_result(std::byte *elements, std::byte *result, size_t size) {
  auto const place = schedule::place_in_tree(members_.me, members_.count());
  for (int32_t round = place.child_count - 1; round >= 0; round--) {
    int32_t const child = members_.next(schedule::distance(round));
    TND_TRY(forward(result, elements, size, words_.tree[size_t(round)], child));
  }
  return status::ok;
}

// Each member gets its slice of all sources, and sends the result to all targets. No sync precedes
// the sends:
//
// - A slice of a target is written after its member has that slice of all sources. Nothing reads
//   the slice of the source any more, so source and target may be equal.
// - A member that sends slices of the next operation has all results of this one. Each member sends
//   its result only after it has read its whole area. So one area and one word are enough. The
//   result is sent from the target, because the area may be overwritten while others still wait for
//   it.
status fabric_group::reduce_slices(const slice_work &work, size_t count) {
  TND_ASSERT(words_.slices_area != nullptr);
  TND_TRY(send_slices(work, count));
  auto const members = members_.count();
  auto const own_part = slice_of(work.op, count, members_.me, members);
  size_t const size = own_part.count * work.op.size;
  std::byte *const area = words_.slices_area;
  TND_TRY(channel_.context->copy(
      area + size_t(members_.me) * size, work.source + own_part.first * work.op.size, size));
  TND_TRY(release_source(size));
  TND_TRY(await(words_.slices, uint64_t(members - 1)));
  for (int32_t member = 1; member < members; member++) {
    work.op.combine(area, area + size_t(member) * size, own_part.count);
  }
  std::byte *const result = work.target + own_part.first * work.op.size;
  TND_TRY(channel_.context->copy(result, area, size));
  return spread_block(result, result, size);
}

// Sends each other member its slice of this member's source.
status fabric_group::send_slices(const slice_work &work, size_t count) {
  auto const members = members_.count();
  for (int32_t distance = 1; distance < members; distance++) {
    int32_t const member = members_.next(distance);
    auto const peer_part = slice_of(work.op, count, member, members);
    size_t const size = peer_part.count * work.op.size;
    TND_TRY(put_signal(words_.slices_area + size_t(members_.me) * size,
                       work.source + peer_part.first * work.op.size,
                       size,
                       words_.slices,
                       member));
  }
  return status::ok;
}

status fabric_group::scan(
    const reduction &op, scan_kind kind, void *target, const void *source, size_t count) {
  size_t const block = std::max<size_t>(block_size / op.size, 1);
  slice_work work{
      op, kind, static_cast<std::byte *>(target), static_cast<const std::byte *>(source)};
  for (size_t done = 0; done < count; done += block) {
    TND_TRY(slices_of_block(work, std::min(block, count - done)));
    work.target += block * op.size;
    work.source += block * op.size;
  }
  return status::ok;
}

// Each member works on its slice of the block. Only it reads that slice of the sources and writes
// it in the targets, so source and target may be equal. When all results have arrived, all members
// have read this one's source.
status fabric_group::slices_of_block(const slice_work &work, size_t count) {
  TND_TRY(sync());
  auto const own_part = slice_of(work.op, count, members_.me, members_.count());
  TND_TRY(fetch_slices(work, own_part));
  return work.scan ? spread_prefixes(work, own_part) : spread_reduced(work, own_part);
}

status fabric_group::fetch_slices(const slice_work &work, part own_part) {
  size_t const size = own_part.count * work.op.size;
  if (size_t const total_size = size * size_t(members_.count()); total_size > slices_size_) {
    slices_.reset(new std::byte[total_size]);
    slices_size_ = total_size;
  }
  auto const *const src = work.source + own_part.first * work.op.size;
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    TND_TRY(channel_.context->get_nbi(
        slices_.get() + size_t(member) * size, src, size, members_.pe(member)));
  }
  return channel_.context->quiet();
}

status fabric_group::spread_reduced(const slice_work &work, part own_part) {
  size_t const size = own_part.count * work.op.size;
  TND_ASSERT(size * size_t(members_.count()) <= slices_size_);
  for (int32_t member = 1; member < members_.count(); member++) {
    work.op.combine(slices_.get(), slices_.get() + size_t(member) * size, own_part.count);
  }
  return spread_block(work.target + own_part.first * work.op.size, slices_.get(), size);
}

// Combines each member's slice with those of the members before it.
void fabric_group::combine_prefixes(const reduction &op, size_t count) {
  size_t const size = count * op.size;
  TND_ASSERT(size * size_t(members_.count()) <= slices_size_);
  for (int32_t member = 1; member < members_.count(); member++) {
    op.combine(
        slices_.get() + size_t(member) * size, slices_.get() + size_t(member - 1) * size, count);
  }
}

status fabric_group::spread_prefixes(const slice_work &work, part own_part) {
  size_t const size = own_part.count * work.op.size;
  auto *const target = work.target + own_part.first * work.op.size;
  combine_prefixes(work.op, own_part.count);
  std::unique_ptr<std::byte[]> zeros;
  if (work.scan == scan_kind::exclusive)
    zeros.reset(new std::byte[size]());
  auto const &word = next_bulk();
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    int32_t const last = work.scan == scan_kind::exclusive ? member - 1 : member;
    auto const *const prefix = last < 0 ? zeros.get() : slices_.get() + size_t(last) * size;
    if (member == members_.me) {
      TND_TRY(channel_.context->copy(target, prefix, size));
    } else {
      TND_TRY(put_signal(target, prefix, size, word, member));
    }
  }
  if (size > copied_size_max)
    TND_TRY(channel_.context->quiet());
  return await(word, uint64_t(members_.count() - 1));
}

}  // namespace tanada::shmem
