// Collective operations of mapped members, except reductions and scans.
#include "products/shmem/collectives/mapped_group.hpp"

#include <cstring>

#include "core/base/log.hpp"

namespace tanada::shmem {

status mapped_group::wait_for(const uint64_t &word, uint64_t number) const {
  auto const is_reached = [&] {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE) >= number;
  };
  return wait_guarded(
      *channel_.job, channel_.guard, is_reached, std::as_bytes(std::span{own_area_, 1}));
}

void mapped_group::wake_all() const noexcept {
  for (int32_t distance = 1; distance < members_.count(); distance++)
    wake_member(members_.next(distance));
}

status mapped_group::sync() {
  TND_TRY(is_oversubscribed_ ? sync_by_count() : sync_by_rounds());
  finished_ = number_;
  return status::ok;
}

// Dissemination: in each round all members store one word and wait for one, at the same time.
status mapped_group::sync_by_rounds() {
  uint64_t const number = ++syncs_;
  auto const members = members_.count();
  TND_ASSERT(size_t(members) <= size_t{1} << round_count_max);
  for (int32_t round = 0; round < schedule::round_count(members); round++) {
    int32_t const next = members_.next(schedule::distance(round));
    __atomic_store_n(&areas_[size_t(next)]->rounds[round].value, number, __ATOMIC_RELEASE);
    wake_member(next);
    TND_TRY(wait_for(own_area_->rounds[round].value, number));
  }
  return status::ok;
}

// The last member to arrive releases all others, so each member is scheduled at most twice.
status mapped_group::sync_by_count() {
  uint64_t const number = ++syncs_;
  auto &area = *areas_[0];
  if (__atomic_add_fetch(&area.arrivals.value, 1, __ATOMIC_ACQ_REL) < uint64_t(members_.count())) {
    return wait_for(area.release.value, number);
  }
  __atomic_store_n(&area.arrivals.value, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&area.release.value, number, __ATOMIC_RELEASE);
  wake_all();
  return status::ok;
}

// The three parts of sync_around(), which numbers syncs as sync() does.
status mapped_group::arrive() {
  uint64_t const number = ++syncs_;
  auto &area = *areas_[0];
  uint64_t const arrival = __atomic_add_fetch(&area.arrivals.value, 1, __ATOMIC_ACQ_REL);
  if (arrival == uint64_t(members_.count()) - 1)
    wake_member(0);
  TND_TRY(wait_for(area.release.value, number));
  finished_ = number_;
  return status::ok;
}

status mapped_group::await_arrivals() {
  TND_ASSERT(members_.me == 0);
  syncs_++;
  TND_TRY(wait_for(own_area_->arrivals.value, uint64_t(members_.count()) - 1));
  __atomic_store_n(&own_area_->arrivals.value, 0, __ATOMIC_RELAXED);
  return status::ok;
}

void mapped_group::release_all() noexcept {
  TND_ASSERT(members_.me == 0);
  __atomic_store_n(&own_area_->release.value, syncs_, __ATOMIC_RELEASE);
  wake_all();
  finished_ = number_;
}

// An entry is reused when all members have finished the operation of its last use. All members have
// synced at the same operations, so all sync here together.
result<mapped_group::entry *> mapped_group::next_entry() {
  TND_ASSERT(number_ >= finished_ && number_ - finished_ <= mapped_exchange_area::entry_count);
  if (number_ == finished_ + mapped_exchange_area::entry_count)
    TND_TRY(sync());
  number_++;
  return &own_area_->entries[number_ % mapped_exchange_area::entry_count];
}

void mapped_group::publish() {
  __atomic_store_n(&own_area_->entries[number_ % mapped_exchange_area::entry_count].number,
                   number_,
                   __ATOMIC_RELEASE);
}

status mapped_group::exchange_entries() {
  publish();
  if (is_oversubscribed_)
    return sync_by_count();
  wake_all();
  return status::ok;
}

result<const mapped_group::entry *> mapped_group::entry_of(int32_t member) {
  TND_ASSERT(size_t(member) < areas_.size());
  auto const &peer_entry =
      areas_[size_t(member)]->entries[number_ % mapped_exchange_area::entry_count];
  TND_TRY(wait_for(peer_entry.number, number_));
  return &peer_entry;
}

status mapped_group::broadcast(
    void *target, const void *source, size_t size, int32_t root, bool to_itself) {
  if (size > mapped_exchange_area::data_size_max)
    return broadcast_pulled(target, source, size, root, to_itself);
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  if (members_.me == root) {
    std::memcpy(next.value()->data, source, size);
    publish();
    wake_all();
    if (to_itself && target != source)
      std::memmove(target, source, size);
    return status::ok;
  }
  auto root_entry = entry_of(root);
  if (!root_entry.ok())
    return root_entry.error();
  std::memcpy(target, root_entry.value()->data, size);
  return status::ok;
}

// Each member reads the root's source, which must not change until all have read it.
status mapped_group::broadcast_pulled(
    void *target, const void *source, size_t size, int32_t root, bool to_itself) {
  auto const *const root_source = mapped_address(source, size, root);
  if (root_source == nullptr)
    return status::range;
  if (auto const next = next_entry(); !next.ok())
    return next.error();
  if (members_.me == root) {
    publish();
    wake_all();
    if (to_itself && target != source)
      std::memmove(target, source, size);
  } else {
    if (auto const ready = entry_of(root); !ready.ok())
      return ready.error();
    std::memcpy(target, root_source, size);
  }
  return finish_reading(root);
}

// The root waits until all others have called this; they do not wait.
status mapped_group::finish_reading(int32_t root) {
  TND_ASSERT(uint32_t(root) < uint32_t(members_.count()));
  auto &area = *areas_[size_t(root)];
  if (members_.me == root)
    return wait_for(area.all_have_read.value, number_);
  if (__atomic_add_fetch(&area.readers.value, 1, __ATOMIC_ACQ_REL) < uint64_t(members_.count() - 1))
    return status::ok;
  __atomic_store_n(&area.readers.value, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&area.all_have_read.value, number_, __ATOMIC_RELEASE);
  wake_member(root);
  return status::ok;
}

status mapped_group::alltoall_by_entries(std::byte *target, const void *source, size_t size) {
  size_t const own_offset = size_t(members_.me) * size;
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size * size_t(members_.count()));
  TND_TRY(exchange_entries());
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    auto peer_entry = entry_of(member);
    if (!peer_entry.ok())
      return peer_entry.error();
    std::memcpy(target + size_t(member) * size, peer_entry.value()->data + own_offset, size);
  }
  note_all_entered();
  return status::ok;
}

status mapped_group::alltoall(void *target, const void *source, size_t size) {
  auto const members = members_.count();
  auto *const dst = static_cast<std::byte *>(target);
  auto const *const src = static_cast<const std::byte *>(source);
  size_t const own_offset = size_t(members_.me) * size;
  if (size * size_t(members) <= mapped_exchange_area::data_size_max)
    return alltoall_by_entries(dst, source, size);
  for (int32_t distance = 0; distance < members; distance++) {
    int32_t const member = members_.next(distance);
    std::byte *const block = mapped_address(dst + own_offset, size, member);
    if (block == nullptr)
      return status::range;
    std::memcpy(block, src + size_t(member) * size, size);
  }
  return sync();
}

status mapped_group::alltoall_strided(void *target,
                                      const void *source,
                                      const fabric_group::strides &shape) {
  auto const stride = [&](ptrdiff_t elements) {
    return elements * ptrdiff_t(shape.size);
  };
  auto *const dst = static_cast<std::byte *>(target) +
                    stride(shape.target_stride) * ptrdiff_t(shape.count) * members_.me;
  onesided::strided_shape const block{
      shape.size, shape.count, stride(shape.target_stride), stride(shape.source_stride)};
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    auto const *const src = static_cast<const std::byte *>(source) +
                            stride(shape.source_stride) * ptrdiff_t(shape.count) * member;
    TND_TRY(channel_.context->put_strided(dst, src, block, members_.pe(member)));
  }
  return sync();
}

status mapped_group::push_block(void *target, const void *source, size_t size) {
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    std::byte *const block = mapped_address(target, size, members_.next(distance));
    if (block == nullptr)
      return status::range;
    std::memcpy(block, source, size);
  }
  return status::ok;
}

status mapped_group::fcollect(void *target, const void *source, size_t size) {
  auto *const dst = static_cast<std::byte *>(target);
  if (size > mapped_exchange_area::data_size_max) {
    TND_TRY(push_block(dst + size_t(members_.me) * size, source, size));
    return sync();
  }
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  std::memcpy(next.value()->data, source, size);
  TND_TRY(exchange_entries());
  for (int32_t distance = 0; distance < members_.count(); distance++) {
    int32_t const member = members_.next(distance);
    auto peer_entry = entry_of(member);
    if (!peer_entry.ok())
      return peer_entry.error();
    std::memcpy(dst + size_t(member) * size, peer_entry.value()->data, size);
  }
  note_all_entered();
  return status::ok;
}

// Small blocks go through the entries, with their sizes. If any block is large, its owner pushes it
// and all sync.
status mapped_group::collect(void *target, const void *source, size_t size) {
  auto *const dst = static_cast<std::byte *>(target);
  bool const is_small = size <= mapped_exchange_area::data_size_max;
  auto next = next_entry();
  if (!next.ok())
    return next.error();
  next.value()->size = size;
  if (is_small)
    std::memcpy(next.value()->data, source, size);
  TND_TRY(exchange_entries());
  size_t offset = 0, own_offset = 0;
  bool is_anyone_large = false;
  for (int32_t member = 0; member < members_.count(); member++) {
    auto peer_entry = entry_of(member);
    if (!peer_entry.ok())
      return peer_entry.error();
    auto const &block = *peer_entry.value();
    if (member == members_.me)
      own_offset = offset;
    if (block.size <= mapped_exchange_area::data_size_max) {
      std::memcpy(dst + offset, block.data, block.size);
    } else {
      is_anyone_large = true;
    }
    offset += block.size;
  }
  note_all_entered();
  if (!is_small)
    TND_TRY(push_block(dst + own_offset, source, size));
  return is_anyone_large ? sync() : status::ok;
}

}  // namespace tanada::shmem
