#include "products/shmem/collectives/near.hpp"

#include <bit>
#include <cstring>

#include "core/base/log.hpp"

namespace tanada::shmem {

status near_group::reach(const uint64_t &word, uint64_t number) const {
  auto const is_reached = [&] {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE) >= number;
  };
  return wait_guarded(*by_.job, by_.guard, is_reached, std::as_bytes(std::span{mine_, 1}));
}

void near_group::ring_all() const noexcept {
  for (int32_t distance = 1; distance < members_.count(); distance++)
    ring(members_.behind(distance));
}

status near_group::sync() {
  TND_TRY(is_crowded_ ? sync_by_count() : sync_by_rounds());
  met_ = number_;
  return status::ok;
}

// Dissemination: each round is one store and one wait, at the same time in all members.
status near_group::sync_by_rounds() {
  uint64_t const number = ++syncs_;
  auto const members = members_.count();
  for (int32_t round = 0; 1 << round < members; round++) {
    int32_t const next = members_.behind(1 << round);
    __atomic_store_n(&boards_[size_t(next)]->rounds[round].value, number, __ATOMIC_RELEASE);
    ring(next);
    TND_TRY(reach(mine_->rounds[round].value, number));
  }
  return status::ok;
}

// Who comes last lets all others go: each is given a processor twice at most.
status near_group::sync_by_count() {
  uint64_t const number = ++syncs_;
  auto &board = *boards_[0];
  if (__atomic_add_fetch(&board.arrivals.value, 1, __ATOMIC_ACQ_REL) < uint64_t(members_.count())) {
    return reach(board.release.value, number);
  }
  __atomic_store_n(&board.arrivals.value, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&board.release.value, number, __ATOMIC_RELEASE);
  ring_all();
  return status::ok;
}

// An entry is written anew when all have finished the operation of its last use. All members have
// met at the same operations, so all find here that they have to.
result<near_group::entry *> near_group::next_entry() {
  if (number_ == met_ + near_board::entry_count)
    TND_TRY(sync());
  number_++;
  return &mine_->entries[number_ % near_board::entry_count];
}

void near_group::publish() {
  __atomic_store_n(&mine_->entries[number_ % near_board::entry_count].number, number_,
                   __ATOMIC_RELEASE);
}

status near_group::hand_over() {
  publish();
  if (is_crowded_)
    return sync_by_count();
  ring_all();
  return status::ok;
}

result<const near_group::entry *> near_group::entry_of(int32_t member) {
  auto const &found = boards_[size_t(member)]->entries[number_ % near_board::entry_count];
  TND_TRY(reach(found.number, number_));
  return &found;
}

status near_group::broadcast(void *target, const void *source, size_t size, int32_t root,
                             bool to_itself) {
  if (size > near_board::data_size_max)
    return broadcast_pulled(target, source, size, root, to_itself);
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  if (members_.me == root) {
    std::memcpy(next.value()->data, source, size);
    publish();
    ring_all();
    if (to_itself && target != source)
      std::memmove(target, source, size);
    return status::ok;
  }
  auto from = entry_of(root);
  if (!from.ok())
    return from.error();
  std::memcpy(target, from.value()->data, size);
  return status::ok;
}

// Each reads the root's source, which stays as it is until all have.
status near_group::broadcast_pulled(void *target, const void *source, size_t size, int32_t root,
                                    bool to_itself) {
  auto const *const from = there(source, size, root);
  if (from == nullptr)
    return status::range;
  if (auto const next = next_entry(); !next.ok())
    return next.error();
  if (members_.me == root) {
    publish();
    ring_all();
    if (to_itself && target != source)
      std::memmove(target, source, size);
  } else {
    if (auto const ready = entry_of(root); !ready.ok())
      return ready.error();
    std::memcpy(target, from, size);
  }
  return finish_reading(root);
}

// The root waits until all others have come here; they do not wait.
status near_group::finish_reading(int32_t root) {
  auto &board = *boards_[size_t(root)];
  if (members_.me == root)
    return reach(board.all_have_read.value, number_);
  if (__atomic_add_fetch(&board.readers.value, 1, __ATOMIC_ACQ_REL) <
      uint64_t(members_.count() - 1))
    return status::ok;
  __atomic_store_n(&board.readers.value, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&board.all_have_read.value, number_, __ATOMIC_RELEASE);
  ring(root);
  return status::ok;
}

status near_group::alltoall(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto *const to = static_cast<std::byte *>(target);
  auto const *const from = static_cast<const std::byte *>(source);
  size_t const mine = size_t(members_.me) * size, all = size * size_t(members);
  if (all <= near_board::data_size_max) {
    auto next = next_entry();
    if (!next.ok())
      return next.error();
    std::memcpy(next.value()->data, source, all);
    TND_TRY(hand_over());
    for (int32_t distance = 0; distance < members; distance++) {
      int32_t const member = members_.behind(distance);
      auto theirs = entry_of(member);
      if (!theirs.ok())
        return theirs.error();
      std::memcpy(to + size_t(member) * size, theirs.value()->data + mine, size);
    }
    note_all_entered();
    return status::ok;
  }
  for (int32_t distance = 0; distance < members; distance++) {
    int32_t const member = members_.behind(distance);
    std::byte *const block = there(to + mine, size, member);
    if (block == nullptr)
      return status::range;
    std::memcpy(block, from + size_t(member) * size, size);
  }
  return sync();
}

status near_group::alltoall_strided(void *target, const void *source,
                                    const far_group::strides &shape) {
  auto const stride = [&](ptrdiff_t elements) {
    return elements * ptrdiff_t(shape.size);
  };
  auto *const to = static_cast<std::byte *>(target) +
                   stride(shape.target_stride) * ptrdiff_t(shape.count) * members_.me;
  pgas::strided_shape const block{shape.size, shape.count, stride(shape.target_stride),
                                  stride(shape.source_stride)};
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.behind(distance);
    auto const *const from = static_cast<const std::byte *>(source) +
                             stride(shape.source_stride) * ptrdiff_t(shape.count) * member;
    TND_TRY(by_.context->put_strided(to, from, block, members_.pe(member)));
  }
  return sync();
}

status near_group::push_block(void *target, const void *source, size_t size) {
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    std::byte *const block = there(target, size, members_.behind(distance));
    if (block == nullptr)
      return status::range;
    std::memcpy(block, source, size);
  }
  return status::ok;
}

status near_group::fcollect(void *target, const void *source, size_t size) {
  auto *const to = static_cast<std::byte *>(target);
  if (size > near_board::data_size_max) {
    TND_TRY(push_block(to + size_t(members_.me) * size, source, size));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(hand_over());
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.behind(distance);
    auto theirs = entry_of(member);
    if (!theirs.ok())
      return theirs.error();
    std::memcpy(to + size_t(member) * size, theirs.value()->data, size);
  }
  note_all_entered();
  return status::ok;
}

// Small blocks are handed over with their sizes; if one is larger, whoever has a large one pushes
// it.
status near_group::collect(void *target, const void *source, size_t size) {
  auto *const to = static_cast<std::byte *>(target);
  bool const is_small = size <= near_board::data_size_max;
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  next.value()->size = size;
  if (is_small)
    std::memcpy(next.value()->data, source, size);
  TND_TRY(hand_over());
  size_t offset = 0, mine = 0;
  bool is_anyone_large = false;
  for (int32_t member = 0; member < members_.count(); member++) {
    auto theirs = entry_of(member);
    if (!theirs.ok())
      return theirs.error();
    auto const &block = *theirs.value();
    if (member == members_.me)
      mine = offset;
    if (block.size <= near_board::data_size_max) {
      std::memcpy(to + offset, block.data, block.size);
    } else {
      is_anyone_large = true;
    }
    offset += block.size;
  }
  note_all_entered();
  if (!is_small)
    TND_TRY(push_block(to + mine, source, size));
  return is_anyone_large ? sync() : status::ok;
}

}  // namespace tanada::shmem
