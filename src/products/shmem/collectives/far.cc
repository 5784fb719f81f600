#include "products/shmem/collectives/far.hpp"

#include <bit>
#include <cstring>

namespace tanada::shmem {
namespace {

// A broadcast goes on piece by piece: a member hands on what it has while the rest is on its way.
constexpr size_t piece_size = size_t{64} << 10;
// In a larger one of more than two members each hands on a part, if that is of so many bytes.
constexpr size_t relayed_size_min = size_t{256} << 10, relayed_share_min = size_t{16} << 10;
// Of a member, fetched at a time to pick elements from.
constexpr size_t span_size_max = size_t{256} << 10;
// How long a member waits for others before it makes sure that nothing of its own is stuck on the
// way to them.
constexpr uint64_t patience_ns = 2'000'000;

int32_t round_count(int32_t members) {
  return std::bit_width(uint32_t(members - 1));
}

}  // namespace

status far_group::await(const counter &which, uint64_t count) {
  uint64_t wanted = count;
  if (which.taken != nullptr) {
    *which.taken += count;
    wanted = *which.taken;
  }
  auto const is_there = [&] {
    return __atomic_load_n(which.word, __ATOMIC_ACQUIRE) >= wanted;
  };
  auto const word = std::as_bytes(std::span{which.word, 1});
  if (by_.is_flowing()) {
    TND_TRY(wait_guarded(*by_.job, by_.guard, is_there, word));
  } else if (!is_there()) {
    status const early = by_.job->wait(is_there, word, by_.job->time().now_ns() + patience_ns);
    if (early == status::timed_out) {
      TND_TRY(by_.signals->quiet());
      TND_TRY(wait_guarded(*by_.job, by_.guard, is_there, word));
    } else {
      TND_TRY(early);
    }
  }
  if (which.taken != nullptr)
    return status::ok;
  return by_.context->update<uint64_t>(port::fabric_atomic::add, which.word, 0 - count, 0, nullptr,
                                       by_.job->me());
}

// A signal, and what it follows, is on its way when these return, and the source is the caller's
// again; but for large ones, whose source is until leave(). What has become of a signal nobody
// asks: who waits in vain hears of what was lost (job::lost).
status far_group::put_signal(void *target, const void *source, size_t size, const counter &then,
                             int32_t member) {
  auto const pe = members_.pe(member);
  if (size <= (by_.is_flowing() ? flowing_size_max : copied_size_max)) {
    return by_.signals->put_signal(target, source, size, then.word, pgas::signal_kind::add, 1, pe);
  }
  return by_.context->put_signal_nbi(target, source, size, then.word, pgas::signal_kind::add, 1,
                                     pe);
}

status far_group::signal(const counter &which, int32_t member, uint64_t count) {
  return by_.signals->put_signal(nullptr, nullptr, 0, which.word, pgas::signal_kind::add, count,
                                 members_.pe(member));
}

// The same for a piece of a stream to one member, of any size: in order, and no more than the
// network takes.
status far_group::hand_on(void *target, const void *source, size_t size, const counter &then,
                          int32_t member) {
  if (!by_.is_flowing()) {
    by_.context->fence();
    return put_signal(target, source, size, then, member);
  }
  return by_.signals->put_signal(target, source, size, then.word, pgas::signal_kind::add, 1,
                                 members_.pe(member));
}

// Of sources of `size` bytes.
status far_group::leave(size_t size) {
  return size > copied_size_max ? by_.context->quiet() : status::ok;
}

// Dissemination: after round i each member has heard, by others, of 2^(i + 1) before it.
//
// A signal of an operation never counts for another: who sends in the next but one has finished the
// next one, for which all have come, and so have finished this one.
status far_group::sync() {
  size_t const first = (counts_.sync++ & 1) * round_count_max;
  for (int32_t round = 0; round < round_count(members_.count()); round++) {
    auto const &word = words_.sync[first + size_t(round)];
    TND_TRY(signal(word, members_.behind(1 << round)));
    TND_TRY(await(word, 1));
  }
  return status::ok;
}

// Each round doubles what a member has: its own block and those of members behind it, in their
// order.
status far_group::gather(void *all, const void *mine, size_t size) {
  size_t const parity = counts_.gather++ & 1;
  std::byte *const area = words_.areas[parity];
  auto const members = members_.count();
  TND_TRY(by_.context->copy(area, mine, size));
  for (int32_t round = 0; round < round_count(members); round++) {
    int32_t const reach = 1 << round;
    size_t const blocks = size_t(std::min(reach, members - reach));
    auto const &word = words_.gather[parity * round_count_max + size_t(round)];
    std::byte *const there = area + size_t(reach) * size;
    TND_TRY(by_.signals->put_signal(there, area, blocks * size, word.word, pgas::signal_kind::add,
                                    1, members_.pe(members_.before(reach))));
    TND_TRY(await(word, 1));
  }
  // area: me, me + 1, … around the end.
  size_t const ahead = size_t(members - members_.me) * size, wrapped = size_t(members_.me) * size;
  TND_TRY(by_.context->copy(static_cast<std::byte *>(all) + wrapped, area, ahead));
  return by_.context->copy(all, area + ahead, wrapped);
}

status far_group::broadcast(void *target, const void *source, size_t size, int32_t root,
                            bool to_itself) {
  int32_t const place = members_.before(root);  // members from the root to here
  auto const *const from = static_cast<const std::byte *>(place == 0 ? source : target);
  auto *const to = static_cast<std::byte *>(target);
  if (relayed_piece(size) != 0) {
    TND_TRY(broadcast_relayed(to, from, size, root));
  } else {
    TND_TRY(broadcast_tree(to, from, size, place));
  }
  return place == 0 && to_itself ? by_.context->copy(target, source, size) : status::ok;
}

// A binomial tree: in round i the 2^i members next to the root hand on to those 2^i further. A word
// has one sender, whatever the root is; pieces come in order because of the fences, or of the
// fabric.
status far_group::broadcast_tree(std::byte *to, const std::byte *from, size_t size, int32_t place) {
  auto const members = members_.count();
  int32_t const arrival = place == 0 ? -1 : std::bit_width(uint32_t(place)) - 1;
  size_t const piece_max =
      members == 2 ? size : piece_size;  // where nobody hands on there is nothing to gain
  for (size_t done = 0; done < size; done += piece_max) {
    size_t const piece = std::min(piece_max, size - done);
    if (arrival >= 0)
      TND_TRY(await(words_.tree[size_t(arrival)], 1));
    for (int32_t round = arrival + 1;
         round < round_count(members) && place + (1 << round) < members; round++) {
      TND_TRY(hand_on(to + done, from + done, piece, words_.tree[size_t(round)],
                      members_.behind(1 << round)));
    }
  }
  return leave(size);
}

// 0: it goes by the tree. Each member but the root has the same number of pieces to hand on, or one
// more, and at least one.
size_t far_group::relayed_piece(size_t size) const noexcept {
  size_t const relays = size_t(members_.count()) - 1;
  if (relays < 2 || words_.slices_area == nullptr || size < relayed_size_min)
    return 0;
  if (size / relays < std::max(relayed_share_min, relays + 1))
    return 0;  // one more: no piece is lost by rounding
  size_t const pieces = (size / piece_size / relays + 1) * relays;
  return (size + pieces - 1) / pieces;
}

// Large ones leave the root once: piece by piece, to the others in turn, each of whom hands its
// pieces on to all but the root. So nobody sends more than once and a bit what he has, and nobody
// is far from the root.
//
// Whoever leaves knows that all have come: the root, because they told it so; the others, because
// each of them has handed on a piece. So words of two sets are enough, as for sync.
status far_group::broadcast_relayed(std::byte *to, const std::byte *from, size_t size,
                                    int32_t root) {
  int32_t const relays = members_.count() - 1, place = members_.before(root);
  size_t const piece_max = relayed_piece(size);
  size_t const parity = counts_.relay++ & 1, pieces = (size + piece_max - 1) / piece_max;
  auto const &word = next_bulk();
  auto const member_at = [&](int32_t from_root) {
    return (root + from_root) % members_.count();
  };
  auto const size_at = [&](size_t piece) {
    return std::min(piece_max, size - piece * piece_max);
  };
  if (place == 0) {
    for (size_t piece = 0; piece < pieces; piece++) {
      size_t const at = piece * piece_max;
      int32_t const relay = member_at(1 + int32_t(piece % size_t(relays)));
      TND_TRY(hand_on(to + at, from + at, size_at(piece), words_.relay[parity], relay));
    }
    TND_TRY(leave(size));
    return await(word, uint64_t(relays));
  }
  TND_TRY(signal(word, root));
  uint64_t mine = 0;
  for (size_t piece = size_t(place) - 1; piece < pieces; piece += size_t(relays), mine++) {
    size_t const at = piece * piece_max;
    TND_TRY(await(words_.relay[parity], 1));
    for (int32_t other = 1; other < relays; other++) {
      int32_t const there = 1 + (place - 1 + other) % relays;
      TND_TRY(put_signal(to + at, to + at, size_at(piece), word, member_at(there)));
    }
  }
  TND_TRY(leave(size));
  return await(word, pieces - mine);
}

status far_group::alltoall(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto *const to = static_cast<std::byte *>(target) + size_t(members_.me) * size;
  auto const *const from = static_cast<const std::byte *>(source);
  auto const &word = next_bulk();
  for (int32_t distance = 1; distance < members; distance++) {
    int32_t const member = members_.behind(distance);
    TND_TRY(put_signal(to, from + size_t(member) * size, size, word, member));
  }
  TND_TRY(by_.context->copy(to, from + size_t(members_.me) * size, size));
  TND_TRY(leave(size));
  return await(word, uint64_t(members - 1));
}

// Elements of a few bytes, one by one, would take a network ages: each member fetches what lies
// between the first and the last of them, and picks its own.
status far_group::alltoall_strided(void *target, const void *source, const strides &shape) {
  if (shape.count == 0)
    return status::ok;
  auto const members = members_.count();
  size_t const target_step = size_t(shape.target_stride) * shape.size,
               source_step = size_t(shape.source_stride) * shape.size;
  size_t const count_max =
      std::max<size_t>(span_size_max / source_step, 1);  // elements of a member fetched at a time
  size_t const span_max = (std::min(count_max, shape.count) - 1) * source_step + shape.size;
  std::unique_ptr<std::byte[]> const spans{new std::byte[span_max * size_t(members)]};
  auto const *const mine =
      static_cast<const std::byte *>(source) + source_step * shape.count * size_t(members_.me);
  TND_TRY(sync());
  for (size_t done = 0; done < shape.count; done += count_max) {
    size_t const count = std::min(count_max, shape.count - done),
                 span = (count - 1) * source_step + shape.size;
    for (int32_t distance = 0; distance < members; distance++) {
      int32_t const member = members_.behind(distance);
      TND_TRY(by_.context->get_nbi(spans.get() + size_t(member) * span_max,
                                   mine + done * source_step, span, members_.pe(member)));
    }
    TND_TRY(by_.context->quiet());
    for (size_t member = 0; member < size_t(members); member++) {
      auto const *from = spans.get() + member * span_max;
      auto *to = static_cast<std::byte *>(target) + (member * shape.count + done) * target_step;
      if (by_.context->is_device_memory(to)) {
        pgas::strided_shape const rows{shape.size, count, ptrdiff_t(target_step),
                                       ptrdiff_t(source_step)};
        TND_TRY(by_.context->put_strided(to, from, rows, by_.job->me()));
        continue;
      }
      for (size_t i = 0; i < count; i++, to += target_step, from += source_step)
        std::memcpy(to, from, shape.size);
    }
  }
  return sync();  // all have what they need of this one's source
}

// This member's block goes to the same place in all.
status far_group::spread_block(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto const &word = next_bulk();
  for (int32_t distance = 1; distance < members; distance++) {
    TND_TRY(put_signal(target, source, size, word, members_.behind(distance)));
  }
  TND_TRY(by_.context->copy(target, source, size));
  TND_TRY(leave(size));
  return await(word, uint64_t(members - 1));
}

status far_group::fcollect(void *target, const void *source, size_t size) {
  if (can_gather(size))
    return gather(target, source, size);
  return spread_block(static_cast<std::byte *>(target) + size_t(members_.me) * size, source, size);
}

// Without memory for a gather: each looks at all others' words.
status far_group::pull_sizes(std::vector<uint64_t> &sizes, uint64_t mine) {
  __atomic_store_n(words_.scratch, mine, __ATOMIC_RELEASE);
  TND_TRY(sync());
  for (int32_t member = 0; member < members_.count(); member++) {
    TND_TRY(by_.context->get_nbi(&sizes[size_t(member)], words_.scratch, sizeof mine,
                                 members_.pe(member)));
  }
  TND_TRY(by_.context->quiet());
  TND_TRY(sync());
  __atomic_store_n(words_.scratch, 0, __ATOMIC_RELEASE);
  return status::ok;
}

status far_group::collect(void *target, const void *source, size_t size) {
  std::vector<uint64_t> sizes(size_t(members_.count()));
  uint64_t const mine = size;
  if (can_gather(sizeof mine)) {
    TND_TRY(gather(sizes.data(), &mine, sizeof mine));
  } else {
    TND_TRY(pull_sizes(sizes, mine));
  }
  size_t offset = 0;
  for (int32_t member = 0; member < members_.me; member++)
    offset += sizes[size_t(member)];
  return spread_block(static_cast<std::byte *>(target) + offset, source, size);
}

}  // namespace tanada::shmem
