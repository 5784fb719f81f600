#include "rpc/server.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::rpc {

using simt::system_atomic;

namespace {

using word_pair [[gnu::may_alias]] = u64;  // two sequences, looked at together

u64 pair_at(const uint32_t *pair) {
  return __atomic_load_n(
      static_cast<const word_pair *>(__builtin_assume_aligned(pair, sizeof(word_pair))),
      __ATOMIC_RELAXED);
}

// Two at a time and one branch a share: mostly there is nothing.
template <size_t... Pair>
bool differ(const uint32_t *one, const uint32_t *other, std::index_sequence<Pair...>) {
  return ((pair_at(one + 2 * Pair) ^ pair_at(other + 2 * Pair)) | ...) != 0;
}

constexpr u32 sequence_of(u32 posted) {
  return posted >> 1;
}

constexpr u32 bit_of(u32 slot) {
  return 1u << slot % slots_a_share;
}

}  // namespace

server::server(mailbox &mail) : mail_{mail} {}

inline bool server::has_news(uint32_t share) const {
  uint32_t const first = share * slots_a_share;
  if (differ(&mail_.posted[first], &seen_[first], std::make_index_sequence<slots_a_share / 2>{}))
    return true;
  for (uint32_t left = lent_[share].load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    uint32_t const slot = first + uint32_t(std::countr_zero(left)),
                   sequence = sequence_of(seen_[slot]);
    uint32_t const finished =
        __atomic_load_n(&mail_.finished[slot][sequence & 1], __ATOMIC_RELAXED);
    if (finished >> 1 == sequence)
      return true;
  }
  return false;
}

uint32_t server::next_news(uint32_t share) const {
  while (share < share_count && !has_news(share))
    share++;
  return share;
}

uint32_t server::poll(uint32_t share, handler &to) {
  TND_ASSERT(share < share_count);
  uint32_t news = poll_lent(share, to);
  fetch_early(share);
  for (uint32_t slot = share * slots_a_share; slot < (share + 1) * slots_a_share; slot++) {
    uint32_t const posted = system_atomic<u32>(mail_.posted[slot]).load_acquire();
    if (posted == seen_[slot])
      continue;
    // The request before it is answered and what that lent is back, for the slot was used again;
    // that may be newer than the look above. Where it is not so, the mailbox holds nonsense, and
    // one request at a time it stays.
    if ((asked_[share] & bit_of(slot)) != 0)
      continue;
    if ((lent_[share].load(std::memory_order_relaxed) & bit_of(slot)) != 0) {
      news += poll_lent(share, to);
      if ((lent_[share].load(std::memory_order_relaxed) & bit_of(slot)) != 0)
        continue;
    }
    request asked{};
    if (!take_request(slot, posted, asked))
      continue;
    seen_[slot] = posted;
    asked_[share] |= bit_of(slot);
    const char *text = mail_.texts[slot];
    traced_.seen(slot, asked.op, asked.file, {asked.words[0], asked.words[1]});
    to.on_request(slot, asked, {text, (posted & 1) != 0 ? 0 : strnlen(text, text_size)});
    news++;
  }
  return news;
}

// What kernels have written comes from memory: all of a share's requests together.
inline void server::fetch_early(uint32_t share) const {
  uint32_t const first = share * slots_a_share;
  for (uint32_t slot = first; slot < first + slots_a_share; slot++) {
    uint32_t const posted = __atomic_load_n(&mail_.posted[slot], __ATOMIC_RELAXED);
    if (posted == seen_[slot] || (posted & 1) != 0)
      continue;
    __builtin_prefetch(&mail_.requests[slot]);
    __builtin_prefetch(mail_.texts[slot]);
    __builtin_prefetch(&mail_.answers[slot], 1);
  }
}

// False: it is short, and its words have not come yet.
bool server::take_request(u32 slot, u32 posted, request &asked) const {
  if ((posted & 1) == 0) {
    asked = mail_.requests[slot];
    return true;
  }
  u64 const sequence = sequence_of(posted);
  u64 const first = system_atomic<u64>(mail_.shorts[slot].words[0]).load_relaxed();
  u64 const second = system_atomic<u64>(mail_.shorts[slot].words[1]).load_relaxed();
  if (first >> 32 != sequence || second >> 52 != (sequence & 0xfff))
    return false;
  asked.op = u32(first >> 24 & 0xff);
  asked.file = u32(first & 0xffffff);
  asked.words[0] = second & short_first_max;
  asked.words[1] = second >> 40 & short_second_max;
  return true;
}

uint32_t server::poll_lent(uint32_t share, handler &to) {
  uint32_t news = 0;
  for (uint32_t left = lent_[share].load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    uint32_t const slot = share * slots_a_share + uint32_t(std::countr_zero(left));
    uint32_t const sequence = sequence_of(seen_[slot]);
    uint32_t const finished = system_atomic<u32>(mail_.finished[slot][sequence & 1]).load_acquire();
    if (finished >> 1 != sequence)
      continue;
    lent_[share].store(lent_[share].load(std::memory_order_relaxed) & ~bit_of(slot),
                       std::memory_order_relaxed);
    to.on_finished(slot, (finished & 1) != 0);
    news++;
  }
  return news;
}

void server::reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count,
                   bool lends) {
  answer &to = mail_.answers[slot];
  uint32_t const share = slot / slots_a_share;
  TND_ASSERT(word_count <= 4 && (asked_[share] & bit_of(slot)) != 0);
  traced_.answered(slot, code);
  for (uint32_t i = 0; i < word_count; i++)
    system_atomic<u64>(to.words[i]).store_relaxed(words[i]);
  u64 const sequence = u64(sequence_of(seen_[slot])) << 32;
  if (lends)
    lent_[share].store(lent_[share].load(std::memory_order_relaxed) | bit_of(slot),
                       std::memory_order_relaxed);
  asked_[share] &= ~bit_of(slot);
  system_atomic<u64>(to.head[1]).store_release(sequence | value);
  system_atomic<u64>(to.head[0]).store_release(sequence | u32(int(code)));
}

bool server::is_canceled(u32 slot) const {
  uint32_t const sequence = sequence_of(seen_[slot]);
  return system_atomic<u32>(mail_.finished[slot][sequence & 1]).load_acquire() ==
         (sequence << 1 | 1);
}

}  // namespace tanada::rpc
