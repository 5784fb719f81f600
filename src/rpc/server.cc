// The host's side of the ring: polling of slots, requests, replies and loans.
#include "rpc/server.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::rpc {

using simt::system_atomic;

namespace {

using word_pair [[gnu::may_alias]] = u64;  // two sequence numbers that are compared together

u64 load_pair(const uint32_t *pair) {
  return __atomic_load_n(
      static_cast<const word_pair *>(__builtin_assume_aligned(pair, sizeof(word_pair))),
      __ATOMIC_RELAXED);
}

// Compare two slots at a time with a single branch for each share, because usually nothing has
// changed.
template <size_t... Pair>
bool differ(const uint32_t *first, const uint32_t *second, std::index_sequence<Pair...>) {
  return ((load_pair(first + 2 * Pair) ^ load_pair(second + 2 * Pair)) | ...) != 0;
}

constexpr u32 sequence_of(u32 posted) {
  return posted >> 1;
}

constexpr u32 slot_bit(u32 slot) {
  return 1u << slot % slots_per_share;
}

}  // namespace

server::server(mailbox &mail, bool do_kernels_sleep)
    : mail_{mail}, do_kernels_sleep_{do_kernels_sleep} {}

inline bool server::has_work(uint32_t share) const {
  uint32_t const first = share * slots_per_share;
  if (differ(&mail_.posted[first],
             &dispatched_[first],
             std::make_index_sequence<slots_per_share / 2>{}))
    return true;
  for (uint32_t remaining = loaned_[share].load(std::memory_order_relaxed); remaining != 0;
       remaining &= remaining - 1) {
    uint32_t const slot = first + uint32_t(std::countr_zero(remaining)),
                   sequence = sequence_of(dispatched_[slot]);
    uint32_t const finished =
        __atomic_load_n(&mail_.finished[slot][sequence & 1], __ATOMIC_RELAXED);
    if (finished >> 1 == sequence)
      return true;
  }
  return false;
}

uint32_t server::next_active_share(uint32_t share) const {
  while (share < share_count && !has_work(share))
    share++;
  return share;
}

uint32_t server::poll(uint32_t share, handler &target) {
  TND_ASSERT(share < share_count);
  uint32_t event_count = poll_loans(share, target);
  prefetch(share);
  arrival arrived[slots_per_share];
  uint32_t arrived_count = 0;
  for (uint32_t slot = share * slots_per_share; slot < (share + 1) * slots_per_share; slot++) {
    arrival &next = arrived[arrived_count];
    next.slot = slot;
    next.posted = system_atomic<u32>(mail_.posted[slot]).load_acquire();
    if (next.posted == dispatched_[slot] || !is_ready(slot, target, event_count))
      continue;
    next.body = {};
    if (!take_request(slot, next.posted, next.body))
      continue;
    target.on_arrival(next.body);
    arrived_count++;
  }
  for (uint32_t i = 0; i < arrived_count; i++)
    dispatch(arrived[i], target);
  return event_count + arrived_count;
}

// Whether the slot's previous request is answered and its loan returned. A kernel reuses the slot
// only after that. The return may be newer than the poll of loans at the beginning of poll(), and
// is then handled here. Otherwise the mailbox is corrupt, and the slot keeps one request at a time.
bool server::is_ready(u32 slot, handler &target, uint32_t &event_count) {
  uint32_t const share = slot / slots_per_share;
  if ((pending_[share] & slot_bit(slot)) != 0)
    return false;
  if ((loaned_[share].load(std::memory_order_relaxed) & slot_bit(slot)) == 0)
    return true;
  event_count += poll_loans(share, target);
  return (loaned_[share].load(std::memory_order_relaxed) & slot_bit(slot)) == 0;
}

void server::dispatch(const arrival &next, handler &target) {
  u32 const slot = next.slot;
  dispatched_[slot] = next.posted;
  pending_[slot / slots_per_share] |= slot_bit(slot);
  const char *text = mail_.texts[slot];
  traced_.received(slot, next.body.op, next.body.file, {next.body.words[0], next.body.words[1]});
  target.on_request(slot, next.body, {text, (next.posted & 1) != 0 ? 0 : strnlen(text, text_size)});
}

// Prefetch all requests of a share together, because what kernels have written must come from
// memory.
inline void server::prefetch(uint32_t share) const {
  uint32_t const first = share * slots_per_share;
  for (uint32_t slot = first; slot < first + slots_per_share; slot++) {
    uint32_t const posted = __atomic_load_n(&mail_.posted[slot], __ATOMIC_RELAXED);
    if (posted == dispatched_[slot])
      continue;
    __builtin_prefetch(&mail_.answers[slot], 1);
    if ((posted & 1) != 0) {
      __builtin_prefetch(&mail_.shorts[slot]);
      continue;
    }
    __builtin_prefetch(&mail_.requests[slot]);
    __builtin_prefetch(mail_.texts[slot]);
  }
}

// False: it is a short request whose words have not all arrived.
bool server::take_request(u32 slot, u32 posted, request &new_request) const {
  if ((posted & 1) == 0) {
    new_request = mail_.requests[slot];
    return true;
  }
  u64 const sequence = sequence_of(posted);
  u64 const first = system_atomic<u64>(mail_.shorts[slot].words[0]).load_relaxed();
  u64 const second = system_atomic<u64>(mail_.shorts[slot].words[1]).load_relaxed();
  if (first >> 32 != sequence || second >> 52 != (sequence & 0xfff))
    return false;
  new_request.op = u32(first >> 24 & 0xff);
  new_request.file = u32(first & 0xffffff);
  new_request.words[0] = second & short_first_max;
  new_request.words[1] = second >> 40 & short_second_max;
  return true;
}

uint32_t server::poll_loans(uint32_t share, handler &target) {
  uint32_t event_count = 0;
  for (uint32_t remaining = loaned_[share].load(std::memory_order_relaxed); remaining != 0;
       remaining &= remaining - 1) {
    uint32_t const slot = share * slots_per_share + uint32_t(std::countr_zero(remaining));
    uint32_t const sequence = sequence_of(dispatched_[slot]);
    uint32_t const finished = system_atomic<u32>(mail_.finished[slot][sequence & 1]).load_acquire();
    if (finished >> 1 != sequence)
      continue;
    loaned_[share].store(loaned_[share].load(std::memory_order_relaxed) & ~slot_bit(slot),
                         std::memory_order_relaxed);
    target.on_finished(slot, (finished & 1) != 0);
    event_count++;
  }
  return event_count;
}

void server::reply(
    u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool has_loan) {
  TND_ASSERT(slot < slot_count);
  answer &target = mail_.answers[slot];
  uint32_t const share = slot / slots_per_share;
  TND_ASSERT(word_count <= 4 && (pending_[share] & slot_bit(slot)) != 0);
  TND_ASSERT((loaned_[share].load(std::memory_order_relaxed) & slot_bit(slot)) == 0);
  traced_.answered(slot, code);
  for (uint32_t i = 0; i < word_count; i++)
    system_atomic<u64>(target.words[i]).store_relaxed(words[i]);
  u64 const sequence = u64(sequence_of(dispatched_[slot])) << 32;
  if (has_loan)
    loaned_[share].store(loaned_[share].load(std::memory_order_relaxed) | slot_bit(slot),
                         std::memory_order_relaxed);
  pending_[share] &= ~slot_bit(slot);
  system_atomic<u64>(target.head[1]).store_release(sequence | value);
  system_atomic<u64>(target.head[0]).store_release(sequence | u32(int(code)));
  if (do_kernels_sleep_)
    simt::host::wake_kernels();
}

u64 server::list_word(u32 slot, u32 index) const {
  TND_ASSERT(slot < slot_count && index < text_size / sizeof(u64));
  auto *const words = reinterpret_cast<u64 *>(mail_.texts[slot]);
  return system_atomic<u64>(words[index]).load_relaxed();
}

bool server::is_canceled(u32 slot) const {
  TND_ASSERT(slot < slot_count);
  uint32_t const sequence = sequence_of(dispatched_[slot]);
  return system_atomic<u32>(mail_.finished[slot][sequence & 1]).load_acquire() ==
         (sequence << 1 | 1);
}

}  // namespace tanada::rpc
