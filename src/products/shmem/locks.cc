// The queue lock of Mellor-Crummey and Scott.
#include "products/shmem/locks.hpp"

#include <atomic>

namespace tanada::shmem {

using seams::fabric_atomic;

// Adjacent locks have different homes.
result<onesided::pe_index> lock::home() const {
  auto const location = channel_.job->map().locate(word_, sizeof *word_, channel_.job->me());
  if (location.segment_ptr == nullptr)
    return status::range;
  return onesided::pe_index(location.offset / sizeof *word_ % size_t(channel_.job->count()));
}

status lock::acquire() {
  auto home_pe = home();
  if (!home_pe.ok())
    return home_pe.error();
  // No other PE accesses the queue word before this PE is in the queue.
  __atomic_store_n(queue_word(), waiting_flag, __ATOMIC_RELEASE);
  uint32_t before = 0;
  TND_TRY(channel_.context->update(
      fabric_atomic::swap, tail(), own_tag(), uint32_t{0}, &before, home_pe.value()));
  if (before == 0) {
    TND_TRY(channel_.context->update<uint32_t>(
        fabric_atomic::bit_and, queue_word(), ~waiting_flag, 0, nullptr, channel_.job->me()));
  } else {
    auto const pe = onesided::pe_index(before - 1);
    TND_TRY(channel_.context->update<uint32_t>(
        fabric_atomic::bit_or, queue_word(), own_tag(), 0, nullptr, pe));
    auto const has_lock = [&] {
      return (__atomic_load_n(queue_word(), __ATOMIC_ACQUIRE) & waiting_flag) == 0;
    };
    TND_TRY(wait_guarded(
        *channel_.job, channel_.guard, has_lock, std::as_bytes(std::span{queue_word(), 1})));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

result<bool> lock::try_acquire() {
  auto home_pe = home();
  if (!home_pe.ok())
    return home_pe.error();
  uint32_t before = 0;
  TND_TRY(channel_.context->update(
      fabric_atomic::compare_swap, tail(), own_tag(), uint32_t{0}, &before, home_pe.value()));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return before == 0;
}

status lock::release() {
  auto home_pe = home();
  if (!home_pe.ok())
    return home_pe.error();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto const next = [&] {
    return __atomic_load_n(queue_word(), __ATOMIC_ACQUIRE);
  };
  if (next() == 0) {
    uint32_t before = 0;
    TND_TRY(channel_.context->update(
        fabric_atomic::compare_swap, tail(), uint32_t{0}, own_tag(), &before, home_pe.value()));
    if (before == own_tag())
      return status::ok;
    if (before == 0)
      return status::bad_state;  // no PE holds the lock
    TND_TRY(
        channel_.job->wait([&] { return next() != 0; }, std::as_bytes(std::span{queue_word(), 1})));
  }
  // The successor has linked itself and the predecessor is done, so no other PE accesses this queue
  // word until this PE is queued again.
  auto const pe = onesided::pe_index(next() - 1);
  __atomic_store_n(queue_word(), 0, __ATOMIC_RELEASE);
  return channel_.context->update<uint32_t>(
      fabric_atomic::bit_and, queue_word(), ~waiting_flag, 0, nullptr, pe);
}

}  // namespace tanada::shmem
