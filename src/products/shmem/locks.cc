#include "products/shmem/locks.hpp"

#include <atomic>

namespace tanada::shmem {

using port::fabric_atomic;

// Locks that lie side by side have different homes.
result<pgas::pe_index> lock::home() const {
  auto const place = by_.job->map().locate(word_, sizeof *word_, by_.job->me());
  if (place.where == nullptr)
    return status::range;
  return pgas::pe_index(place.offset / sizeof *word_ % size_t(by_.job->count()));
}

status lock::acquire() {
  auto at = home();
  if (!at.ok())
    return at.error();
  // Nobody looks at a place before it is in the queue.
  __atomic_store_n(place(), waits, __ATOMIC_RELEASE);
  uint32_t before = 0;
  TND_TRY(
      by_.context->update(fabric_atomic::swap, tail(), mine(), uint32_t{0}, &before, at.value()));
  if (before == 0) {
    TND_TRY(by_.context->update<uint32_t>(fabric_atomic::bit_and, place(), ~waits, 0, nullptr,
                                          by_.job->me()));
  } else {
    auto const pe = pgas::pe_index(before - 1);
    TND_TRY(by_.context->update<uint32_t>(fabric_atomic::bit_or, place(), mine(), 0, nullptr, pe));
    auto const is_ours = [&] {
      return (__atomic_load_n(place(), __ATOMIC_ACQUIRE) & waits) == 0;
    };
    TND_TRY(wait_guarded(*by_.job, by_.guard, is_ours, std::as_bytes(std::span{place(), 1})));
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return status::ok;
}

result<bool> lock::try_acquire() {
  auto at = home();
  if (!at.ok())
    return at.error();
  uint32_t before = 0;
  TND_TRY(by_.context->update(fabric_atomic::compare_swap, tail(), mine(), uint32_t{0}, &before,
                              at.value()));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return before == 0;
}

status lock::release() {
  auto at = home();
  if (!at.ok())
    return at.error();
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto const next = [&] {
    return __atomic_load_n(place(), __ATOMIC_ACQUIRE);
  };
  if (next() == 0) {
    uint32_t before = 0;
    TND_TRY(by_.context->update(fabric_atomic::compare_swap, tail(), uint32_t{0}, mine(), &before,
                                at.value()));
    if (before == mine())
      return status::ok;
    if (before == 0)
      return status::bad_state;  // nobody holds it
    TND_TRY(by_.job->wait([&] { return next() != 0; }, std::as_bytes(std::span{place(), 1})));
  }
  // Who is next has linked itself, who was before has gone: nobody else touches our place until we
  // are in the queue again.
  auto const pe = pgas::pe_index(next() - 1);
  __atomic_store_n(place(), 0, __ATOMIC_RELEASE);
  return by_.context->update<uint32_t>(fabric_atomic::bit_and, place(), ~waits, 0, nullptr, pe);
}

}  // namespace tanada::shmem
