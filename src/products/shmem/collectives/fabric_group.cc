// Collective operations through contexts, except reductions and scans.
#include "products/shmem/collectives/fabric_group.hpp"

#include <cstring>

namespace tanada::shmem {
namespace {

// A broadcast is split into pieces: a member forwards one while the next is in flight.
constexpr size_t piece_size = size_t{64} << 10;
// In a broadcast of at least relayed_size_min to more than two members, each member relays a share,
// if shares have at least relayed_share_min bytes.
constexpr size_t relayed_size_min = size_t{256} << 10, relayed_share_min = size_t{16} << 10;
static_assert(relayed_share_min <= relayed_size_min);
// In all: small enough that a gather, which copies them twice, is faster than signals to each.
constexpr size_t gathered_blocks_max = size_t{8} << 10;
// Bytes of a member's source that alltoall_strided fetches at a time.
constexpr size_t span_size_max = size_t{256} << 10;
// A member waits this long for others before it flushes its own signals, which may be stuck on
// their way.
constexpr uint64_t flush_delay_ns = 2'000'000;

}  // namespace

using schedule::round_count;

status fabric_group::await(const counter &signal_counter, uint64_t count) {
  TND_ASSERT(signal_counter.word != nullptr);
  uint64_t wanted = count;
  if (signal_counter.consumed != nullptr) {
    *signal_counter.consumed += count;
    wanted = *signal_counter.consumed;
  }
  auto const has_arrived = [&] {
    return __atomic_load_n(signal_counter.word, __ATOMIC_ACQUIRE) >= wanted;
  };
  auto const word = std::as_bytes(std::span{signal_counter.word, 1});
  if (channel_.is_flowing()) {
    TND_TRY(wait_guarded(*channel_.job, channel_.guard, has_arrived, word));
  } else if (!has_arrived()) {
    status const early =
        channel_.job->wait(has_arrived, word, channel_.job->time().now_ns() + flush_delay_ns);
    if (early == status::timed_out) {
      TND_TRY(channel_.signals->quiet());
      TND_TRY(wait_guarded(*channel_.job, channel_.guard, has_arrived, word));
    } else {
      TND_TRY(early);
    }
  }
  if (signal_counter.consumed != nullptr)
    return status::ok;
  return channel_.context->update<uint64_t>(
      seams::fabric_atomic::add, signal_counter.word, 0 - count, 0, nullptr, channel_.job->me());
}

// When these calls return, the signal and its data have been posted and the source may be reused.
// The exception is a large source, which may be reused after release_source(). The status of a
// signal is not checked: a member that waits for a lost signal detects the failed PE (job::lost).
status fabric_group::put_signal(
    void *target, const void *source, size_t size, const counter &completion, int32_t member) {
  auto const pe = members_.pe(member);
  if (size <= (channel_.is_flowing() ? flowing_size_max : copied_size_max)) {
    return channel_.signals->put_signal(
        target, source, size, completion.word, onesided::signal_kind::add, 1, pe);
  }
  return channel_.context->put_signal_nbi(
      target, source, size, completion.word, onesided::signal_kind::add, 1, pe);
}

status fabric_group::signal(const counter &signal_counter, int32_t member, uint64_t count) {
  return channel_.signals->put_signal(nullptr,
                                      nullptr,
                                      0,
                                      signal_counter.word,
                                      onesided::signal_kind::add,
                                      count,
                                      members_.pe(member));
}

// The same for one piece of a stream to a member, of any size. Pieces arrive in order, and no more
// are posted than the network accepts.
status fabric_group::forward(
    void *target, const void *source, size_t size, const counter &completion, int32_t member) {
  if (!channel_.is_flowing()) {
    channel_.context->fence();
    return put_signal(target, source, size, completion, member);
  }
  return channel_.signals->put_signal(
      target, source, size, completion.word, onesided::signal_kind::add, 1, members_.pe(member));
}

// Waits until sources of `size` bytes may be reused.
status fabric_group::release_source(size_t size) {
  return size > copied_size_max ? channel_.context->quiet() : status::ok;
}

// Dissemination: after round i each member knows, directly or through others, that the 2^(i + 1)
// members before it have entered.
//
// A signal of one operation never counts for another that uses the same words. A member that
// signals in the next but one has finished the next operation. All have entered that one, and so
// have finished this one.
status fabric_group::sync() {
  TND_ASSERT(size_t(round_count(members_.count())) <= round_count_max);
  if (schedule::syncs_by_tree(members_.count(), words_.area_size, load()))
    return sync_by_tree();
  size_t const first = (counts_.sync++ & 1) * round_count_max;
  for (int32_t round = 0; round < round_count(members_.count()); round++) {
    auto const &word = words_.sync[first + size_t(round)];
    TND_TRY(signal(word, members_.next(schedule::distance(round))));
    TND_TRY(await(word, 1));
  }
  return status::ok;
}

// Up the tree of a reduction and down again: fewer messages, but more steps. A member that returns
// knows that all have entered, so words alternate as above.
status fabric_group::sync_by_tree() {
  size_t const first = (counts_.sync++ & 1) * round_count_max;
  auto const place = schedule::place_in_tree(members_.me, members_.count());
  for (int32_t round = 0; round < place.child_count; round++)
    TND_TRY(await(words_.sync[first + size_t(round)], 1));
  if (place.round >= 0) {
    int32_t const parent = members_.prev(schedule::distance(place.round));
    TND_TRY(signal(words_.sync[first + size_t(place.round)], parent));
    TND_TRY(await(words_.tree[size_t(place.round)], 1));
  }
  for (int32_t round = place.child_count - 1; round >= 0; round--)
    TND_TRY(signal(words_.tree[size_t(round)], members_.next(schedule::distance(round))));
  return status::ok;
}

// Each round doubles the blocks that a member has: its own and those of the members after it, in
// their order.
status fabric_group::gather(void *gathered, const void *own_block, size_t size) {
  TND_ASSERT(can_gather(size));
  size_t const parity = counts_.gather++ & 1;
  std::byte *const area = words_.areas[parity];
  auto const members = members_.count();
  TND_TRY(channel_.context->copy(area, own_block, size));
  for (int32_t round = 0; round < round_count(members); round++) {
    auto const step = schedule::gather_round(round, members);
    auto const &word = words_.gather[parity * round_count_max + size_t(round)];
    std::byte *const peer_area = area + size_t(step.distance) * size;
    TND_TRY(channel_.signals->put_signal(peer_area,
                                         area,
                                         size_t(step.block_count) * size,
                                         word.word,
                                         onesided::signal_kind::add,
                                         1,
                                         members_.pe(members_.prev(step.distance))));
    TND_TRY(await(word, 1));
  }
  // The area holds the blocks of members me, me + 1, … with wraparound.
  size_t const ahead = size_t(members - members_.me) * size, wrapped = size_t(members_.me) * size;
  TND_TRY(channel_.context->copy(static_cast<std::byte *>(gathered) + wrapped, area, ahead));
  return channel_.context->copy(gathered, area + ahead, wrapped);
}

status fabric_group::broadcast(
    void *target, const void *source, size_t size, int32_t root, bool to_itself) {
  int32_t const root_distance = members_.prev(root);  // distance of this member from the root
  auto const *const src = static_cast<const std::byte *>(root_distance == 0 ? source : target);
  auto *const dst = static_cast<std::byte *>(target);
  if (size_t const piece_max = relayed_piece(size); piece_max != 0) {
    TND_TRY(broadcast_relayed({dst, src, size, piece_max, root, members_.count() - 1}));
  } else {
    TND_TRY(broadcast_tree(dst, src, size, root_distance));
  }
  return root_distance == 0 && to_itself ? channel_.context->copy(target, source, size)
                                         : status::ok;
}

// A binomial tree: in round i the 2^i members next to the root forward to the next 2^i. Each word
// has one sender, whatever the root is. The fences, or an ordered fabric, keep the pieces in order.
status fabric_group::broadcast_tree(std::byte *dst,
                                    const std::byte *src,
                                    size_t size,
                                    int32_t root_distance) {
  auto const members = members_.count();
  int32_t const arrival = root_distance == 0 ? -1 : round_count(root_distance + 1) - 1;
  size_t const piece_max =
      members == 2 ? size : piece_size;  // without forwarding, pieces gain nothing
  for (size_t done = 0; done < size; done += piece_max) {
    size_t const piece = std::min(piece_max, size - done);
    if (arrival >= 0)
      TND_TRY(await(words_.tree[size_t(arrival)], 1));
    for (int32_t round = arrival + 1;
         round < round_count(members) && root_distance + schedule::distance(round) < members;
         round++) {
      TND_TRY(forward(dst + done,
                      src + done,
                      piece,
                      words_.tree[size_t(round)],
                      members_.next(schedule::distance(round))));
    }
  }
  return release_source(size);
}

// Returns the size of the pieces; 0: the broadcast uses the tree. Each member but the root relays
// the same number of pieces, or one more, and at least one.
size_t fabric_group::relayed_piece(size_t size) const noexcept {
  size_t const relays = size_t(members_.count()) - 1;
  if (relays < 2 || words_.slices_area == nullptr || size < relayed_size_min)
    return 0;
  if (size / relays < std::max(relayed_share_min, relays + 1))
    return 0;  // the extra 1 covers losses by rounding
  size_t const pieces = (size / piece_size / relays + 1) * relays;
  return (size + pieces - 1) / pieces;
}

// A large broadcast leaves the root once, in pieces that go to the other members in turn. Each of
// them relays its pieces to all but the root. So no member sends much more than the data once, and
// none is far from the root.
//
// A member that returns knows that all have entered: the root by their signals, the others because
// each of them has relayed a piece. Two sets of words are therefore enough, as for sync.
status fabric_group::broadcast_relayed(const relayed_broadcast &broadcast) {
  size_t const relay_count = size_t(broadcast.relay_count), pieces = broadcast.piece_count();
  TND_ASSERT(pieces >= relay_count);
  int32_t const root_distance = members_.prev(broadcast.root);
  auto const &arrival = words_.relay[counts_.relay++ & 1];
  auto const &word = next_bulk();
  if (root_distance == 0) {
    TND_TRY(send_pieces(broadcast, arrival));
    TND_TRY(release_source(broadcast.size));
    return await(word, relay_count);
  }
  TND_TRY(signal(word, broadcast.root));
  uint64_t relayed_count = 0;
  for (size_t piece = size_t(root_distance) - 1; piece < pieces; piece += relay_count) {
    TND_TRY(await(arrival, 1));
    TND_TRY(relay_piece(broadcast, piece, word));
    relayed_count++;
  }
  TND_TRY(release_source(broadcast.size));
  return await(word, pieces - relayed_count);
}

// Sends each piece from the root to the member that relays it.
status fabric_group::send_pieces(const relayed_broadcast &broadcast, const counter &arrival) {
  for (size_t piece = 0; piece < broadcast.piece_count(); piece++) {
    size_t const offset = piece * broadcast.piece_max;
    int32_t const relay = broadcast.member(1 + int32_t(piece % size_t(broadcast.relay_count)));
    TND_TRY(forward(broadcast.target + offset,
                    broadcast.source + offset,
                    broadcast.piece_size(piece),
                    arrival,
                    relay));
  }
  return status::ok;
}

// Sends a piece that this member has received to all members but the root.
status fabric_group::relay_piece(const relayed_broadcast &broadcast,
                                 size_t piece,
                                 const counter &completion) {
  int32_t const root_distance = members_.prev(broadcast.root);
  std::byte *const data = broadcast.target + piece * broadcast.piece_max;
  for (int32_t step = 1; step < broadcast.relay_count; step++) {
    int32_t const peer_distance = 1 + (root_distance - 1 + step) % broadcast.relay_count;
    TND_TRY(put_signal(
        data, data, broadcast.piece_size(piece), completion, broadcast.member(peer_distance)));
  }
  return status::ok;
}

status fabric_group::alltoall(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto *const dst = static_cast<std::byte *>(target) + size_t(members_.me) * size;
  auto const *const src = static_cast<const std::byte *>(source);
  auto const &word = next_bulk();
  for (int32_t distance = 1; distance < members; distance++) {
    int32_t const member = members_.next(distance);
    TND_TRY(put_signal(dst, src + size_t(member) * size, size, word, member));
  }
  TND_TRY(channel_.context->copy(dst, src + size_t(members_.me) * size, size));
  TND_TRY(release_source(size));
  return await(word, uint64_t(members - 1));
}

// Sending elements of a few bytes one by one would be slow. Each member fetches the range from the
// first to the last of them and picks its own.
status fabric_group::alltoall_strided(void *target, const void *source, const strides &shape) {
  if (shape.count == 0)
    return status::ok;
  strided_step step{shape, 0, 0, 0, nullptr};
  size_t const source_step = size_t(step.source_step());
  TND_ASSERT(source_step != 0);
  size_t const count_max =
      std::max<size_t>(span_size_max / source_step, 1);  // elements of a member fetched at a time
  step.span_max = (std::min(count_max, shape.count) - 1) * source_step + shape.size;
  std::unique_ptr<std::byte[]> const spans{new std::byte[step.span_max * size_t(members_.count())]};
  step.spans = spans.get();
  auto const *const own_source =
      static_cast<const std::byte *>(source) + source_step * shape.count * size_t(members_.me);
  TND_TRY(sync());
  for (; step.first < shape.count; step.first += count_max) {
    step.count = std::min(count_max, shape.count - step.first);
    TND_TRY(fetch_spans(step, own_source));
    TND_TRY(place_spans(step, static_cast<std::byte *>(target)));
  }
  return sync();  // all have read this member's source
}

status fabric_group::fetch_spans(const strided_step &step, const std::byte *own_source) {
  TND_ASSERT(step.span_size() <= step.span_max);
  auto const *const src = own_source + ptrdiff_t(step.first) * step.source_step();
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    TND_TRY(channel_.context->get_nbi(
        step.spans + size_t(member) * step.span_max, src, step.span_size(), members_.pe(member)));
  }
  return channel_.context->quiet();
}

status fabric_group::place_spans(const strided_step &step, std::byte *target) {
  auto const &shape = step.shape;
  onesided::strided_shape const rows{
      shape.size, step.count, step.target_step(), step.source_step()};
  for (size_t member = 0; member < size_t(members_.count()); member++) {
    auto const *src = step.spans + member * step.span_max;
    auto *dst = target + ptrdiff_t(member * shape.count + step.first) * step.target_step();
    if (channel_.context->is_device_memory(dst)) {
      TND_TRY(channel_.context->put_strided(dst, src, rows, channel_.job->me()));
      continue;
    }
    for (size_t i = 0; i < step.count; i++) {
      std::memcpy(dst, src, shape.size);
      dst += step.target_step();
      src += step.source_step();
    }
  }
  return status::ok;
}

// Copies this member's block to the same address in all members.
status fabric_group::spread_block(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto const &word = next_bulk();
  for (int32_t distance = 1; distance < members; distance++) {
    TND_TRY(put_signal(target, source, size, word, members_.next(distance)));
  }
  TND_TRY(channel_.context->copy(target, source, size));
  TND_TRY(release_source(size));
  return await(word, uint64_t(members - 1));
}

status fabric_group::fcollect(void *target, const void *source, size_t size) {
  if (can_gather(size) && size * size_t(members_.count()) <= gathered_blocks_max)
    return gather(target, source, size);
  return spread_block(static_cast<std::byte *>(target) + size_t(members_.me) * size, source, size);
}

// Where a gather has no room for the sizes, each member reads all others' words.
status fabric_group::pull_sizes(std::vector<uint64_t> &sizes, uint64_t own_size) {
  TND_ASSERT(words_.scratch != nullptr && sizes.size() == members_.pes.size());
  __atomic_store_n(words_.scratch, own_size, __ATOMIC_RELEASE);
  TND_TRY(sync());
  for (int32_t member = 0; member < members_.count(); member++) {
    TND_TRY(channel_.context->get_nbi(
        &sizes[size_t(member)], words_.scratch, sizeof own_size, members_.pe(member)));
  }
  TND_TRY(channel_.context->quiet());
  TND_TRY(sync());
  __atomic_store_n(words_.scratch, 0, __ATOMIC_RELEASE);
  return status::ok;
}

status fabric_group::collect(void *target, const void *source, size_t size) {
  std::vector<uint64_t> sizes(size_t(members_.count()));
  uint64_t const own_size = size;
  if (can_gather(sizeof own_size)) {
    TND_TRY(gather(sizes.data(), &own_size, sizeof own_size));
  } else {
    TND_TRY(pull_sizes(sizes, own_size));
  }
  size_t offset = 0;
  for (int32_t member = 0; member < members_.me; member++)
    offset += sizes[size_t(member)];
  return spread_block(static_cast<std::byte *>(target) + offset, source, size);
}

}  // namespace tanada::shmem
