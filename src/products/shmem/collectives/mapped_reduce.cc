// Reductions and scans of mapped members.
#include <cstring>

#include "products/shmem/collectives/mapped_group.hpp"

namespace tanada::shmem {
namespace {

// A block of a slice stays in the first-level cache while it is combined and stored to all members.
constexpr size_t cached_piece_size = size_t{8} << 10;
static_assert(cached_piece_size % cache_line == 0);

struct alignas(cache_line) piece_buffer {
  std::byte bytes[cached_piece_size];
};

}  // namespace

status mapped_group::reduce(const reduction &op, void *target, const void *source, size_t count) {
  size_t const size = count * op.size;
  if (size > mapped_exchange_area::data_size_max) {
    TND_TRY(sync());
    auto const own_part = part::for_member(
        count, std::max<size_t>(cache_line / op.size, 1), members_.me, members_.count());
    TND_TRY(reduce_slice(op, target, source, own_part));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(exchange_entries());
  for (int32_t member = 0; member < members_.count(); member++) {
    auto peer_entry = entry_of(member);
    if (!peer_entry.ok())
      return peer_entry.error();
    auto const *const data = peer_entry.value()->data;
    if (member == 0) {
      std::memcpy(target, data, size);
    } else {
      op.combine(target, data, count);
    }
  }
  note_all_entered();
  return status::ok;
}

// Only this member reads this slice of the sources and writes it in the targets, so source and
// target may be equal.
status mapped_group::reduce_slice(const reduction &op,
                                  void *target,
                                  const void *source,
                                  part own_part) {
  TND_ASSERT(op.size <= cached_piece_size);
  size_t const piece_count = cached_piece_size / op.size;
  piece_buffer piece;
  for (size_t done = 0; done < own_part.count; done += piece_count) {
    size_t const count = std::min(piece_count, own_part.count - done), size = count * op.size;
    size_t const offset = (own_part.first + done) * op.size;
    for (int32_t member = 0; member < members_.count(); member++) {
      auto const *const src =
          mapped_address(static_cast<const std::byte *>(source) + offset, size, member);
      if (src == nullptr)
        return status::range;
      if (member == 0) {
        std::memcpy(piece.bytes, src, size);
      } else {
        op.combine(piece.bytes, src, count);
      }
    }
    TND_TRY(push_block(static_cast<std::byte *>(target) + offset, piece.bytes, size));
  }
  return status::ok;
}

status mapped_group::scan(
    const reduction &op, scan_kind kind, void *target, const void *source, size_t count) {
  size_t const size = count * op.size;
  if (size > mapped_exchange_area::data_size_max) {
    TND_TRY(sync());
    auto const own_part = part::for_member(
        count, std::max<size_t>(cache_line / op.size, 1), members_.me, members_.count());
    TND_TRY(scan_slice(op, kind, target, source, own_part));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(exchange_entries());
  int32_t const end = kind == scan_kind::inclusive ? members_.me + 1 : members_.me;
  if (end == 0)
    std::memset(target, 0, size);
  for (int32_t member = 0; member < end; member++) {
    auto peer_entry = entry_of(member);
    if (!peer_entry.ok())
      return peer_entry.error();
    auto const *const data = peer_entry.value()->data;
    if (member == 0) {
      std::memcpy(target, data, size);
    } else {
      op.combine(target, data, count);
    }
  }
  return status::ok;
}

// Works block by block.
status mapped_group::scan_slice(
    const reduction &op, scan_kind kind, void *target, const void *source, part own_part) {
  TND_ASSERT(op.size <= cached_piece_size);
  size_t const piece_count = cached_piece_size / op.size;
  for (size_t done = 0; done < own_part.count; done += piece_count) {
    size_t const offset = (own_part.first + done) * op.size;
    TND_TRY(scan_piece(op,
                       kind,
                       static_cast<std::byte *>(target) + offset,
                       static_cast<const std::byte *>(source) + offset,
                       std::min(piece_count, own_part.count - done)));
  }
  return status::ok;
}

// The prefix grows from member to member. A member's source is read before its target is written,
// because they may be equal.
status mapped_group::scan_piece(
    const reduction &op, scan_kind kind, std::byte *target, const std::byte *source, size_t count) {
  size_t const size = count * op.size;
  TND_ASSERT(size <= cached_piece_size);
  piece_buffer prefix, contribution;
  for (int32_t member = 0; member < members_.count(); member++) {
    auto const *const src = mapped_address(source, size, member);
    auto *const dst = mapped_address(target, size, member);
    if (src == nullptr || dst == nullptr)
      return status::range;
    std::memcpy(contribution.bytes, src, size);
    if (kind == scan_kind::exclusive) {
      if (member == 0)
        std::memset(prefix.bytes, 0, size);
      std::memcpy(dst, prefix.bytes, size);
    }
    if (member == 0) {
      std::memcpy(prefix.bytes, contribution.bytes, size);
    } else {
      op.combine(prefix.bytes, contribution.bytes, count);
    }
    if (kind == scan_kind::inclusive)
      std::memcpy(dst, prefix.bytes, size);
  }
  return status::ok;
}

}  // namespace tanada::shmem
