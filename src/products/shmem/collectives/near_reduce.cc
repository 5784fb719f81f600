// Reductions and scans by loads and stores.
#include <cstring>

#include "products/shmem/collectives/near.hpp"

namespace tanada::shmem {
namespace {

// A piece of a slice stays in the processor's first cache while it is combined and handed to all.
constexpr size_t near_piece_size = size_t{8} << 10;

struct alignas(cache_line) piece_buffer {
  std::byte bytes[near_piece_size];
};

}  // namespace

status near_group::reduce(const reduction &what, void *target, const void *source, size_t count) {
  size_t const size = count * what.size;
  if (size > near_board::data_size_max) {
    TND_TRY(sync());
    auto const mine =
        part::of(count, std::max<size_t>(cache_line / what.size, 1), members_.me, members_.count());
    TND_TRY(reduce_slice(what, target, source, mine));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(hand_over());
  for (int32_t member = 0; member < members_.count(); member++) {
    auto theirs = entry_of(member);
    if (!theirs.ok())
      return theirs.error();
    auto const *const data = theirs.value()->data;
    if (member == 0) {
      std::memcpy(target, data, size);
    } else {
      what.combine(target, data, count);
    }
  }
  note_all_entered();
  return status::ok;
}

// This member alone reads this slice of all sources and writes that of all targets: source and
// target may be one.
status near_group::reduce_slice(const reduction &what, void *target, const void *source,
                                part mine) {
  size_t const piece_count = near_piece_size / what.size;
  piece_buffer piece;
  for (size_t done = 0; done < mine.count; done += piece_count) {
    size_t const count = std::min(piece_count, mine.count - done), size = count * what.size;
    size_t const offset = (mine.first + done) * what.size;
    for (int32_t member = 0; member < members_.count(); member++) {
      auto const *const from = there(static_cast<const std::byte *>(source) + offset, size, member);
      if (from == nullptr)
        return status::range;
      if (member == 0) {
        std::memcpy(piece.bytes, from, size);
      } else {
        what.combine(piece.bytes, from, count);
      }
    }
    TND_TRY(push_block(static_cast<std::byte *>(target) + offset, piece.bytes, size));
  }
  return status::ok;
}

status near_group::scan(const reduction &what, scan_kind kind, void *target, const void *source,
                        size_t count) {
  size_t const size = count * what.size;
  if (size > near_board::data_size_max) {
    TND_TRY(sync());
    auto const mine =
        part::of(count, std::max<size_t>(cache_line / what.size, 1), members_.me, members_.count());
    TND_TRY(scan_slice(what, kind, target, source, mine));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(hand_over());
  int32_t const end = kind == scan_kind::inclusive ? members_.me + 1 : members_.me;
  if (end == 0)
    std::memset(target, 0, size);
  for (int32_t member = 0; member < end; member++) {
    auto theirs = entry_of(member);
    if (!theirs.ok())
      return theirs.error();
    auto const *const data = theirs.value()->data;
    if (member == 0) {
      std::memcpy(target, data, size);
    } else {
      what.combine(target, data, count);
    }
  }
  return status::ok;
}

// Piece by piece: the prefix grows from member to member; what a member has given is read before
// its target is written.
status near_group::scan_slice(const reduction &what, scan_kind kind, void *target,
                              const void *source, part mine) {
  size_t const piece_count = near_piece_size / what.size;
  piece_buffer prefix, given;
  for (size_t done = 0; done < mine.count; done += piece_count) {
    size_t const count = std::min(piece_count, mine.count - done), size = count * what.size;
    size_t const offset = (mine.first + done) * what.size;
    for (int32_t member = 0; member < members_.count(); member++) {
      auto const *const from = there(static_cast<const std::byte *>(source) + offset, size, member);
      auto *const to = there(static_cast<std::byte *>(target) + offset, size, member);
      if (from == nullptr || to == nullptr)
        return status::range;
      std::memcpy(given.bytes, from, size);
      if (kind == scan_kind::exclusive) {
        if (member == 0)
          std::memset(prefix.bytes, 0, size);
        std::memcpy(to, prefix.bytes, size);
      }
      if (member == 0) {
        std::memcpy(prefix.bytes, given.bytes, size);
      } else {
        what.combine(prefix.bytes, given.bytes, count);
      }
      if (kind == scan_kind::inclusive)
        std::memcpy(to, prefix.bytes, size);
    }
  }
  return status::ok;
}

}  // namespace tanada::shmem
