#include "rpc/server.hpp"

#include <bit>
#include <cstring>

#include "base/assert.hpp"

namespace tanada::rpc {

using simt::system_atomic;

namespace {
using word_pair [[gnu::may_alias]] = u64;  // two sequences, looked at together
}

server::server(mailbox &mail) : mail_{mail} {}

uint32_t server::poll(uint32_t first, uint32_t count, handler &to) {
  TND_ASSERT(first % slots_a_share == 0 && count % slots_a_share == 0);
  uint32_t news = poll_lent(first, count, to);
  for (uint32_t pair = first; pair < first + count; pair += 2) {
    // Two at a time: mostly there is nothing.
    const void *const both = __builtin_assume_aligned(&mail_.posted[pair], sizeof(word_pair));
    u64 const posted = __atomic_load_n(static_cast<const word_pair *>(both), __ATOMIC_RELAXED);
    u64 seen;
    std::memcpy(&seen, &seen_[pair], sizeof seen);
    if (posted == seen) continue;
    for (uint32_t slot = pair; slot < pair + 2; slot++) {
      uint32_t const sequence = system_atomic<u32>(mail_.posted[slot]).load_acquire();
      if (sequence == seen_[slot]) continue;
      // The request before it is answered and what that lent is back, for the slot was used again; the bits may be newer
      // than the look above. Where they are not, the mailbox holds nonsense, and one request at a time it stays.
      uint32_t const bit = 1u << slot % 32;
      if ((asked_[slot / 32].load(std::memory_order_acquire) & bit) != 0) continue;
      news += poll_lent(slot / slots_a_share * slots_a_share, slots_a_share, to);
      if ((lent_[slot / 32].load(std::memory_order_relaxed) & bit) != 0) continue;
      seen_[slot] = sequence;
      asked_[slot / 32].fetch_or(bit, std::memory_order_relaxed);
      const char *text = mail_.texts[slot];
      request const asked = mail_.requests[slot];
      to.on_request(slot, asked, {text, strnlen(text, text_size)});
      news++;
    }
  }
  return news;
}

uint32_t server::poll_lent(uint32_t first, uint32_t count, handler &to) {
  uint32_t news = 0;
  for (uint32_t base = first; base < first + count; base += slots_a_share) {
    uint32_t const bits = lent_[base / 32].load(std::memory_order_acquire) >> base % 32 & 0xffff;
    for (uint32_t left = bits; left != 0; left &= left - 1) {
      uint32_t const slot = base + uint32_t(std::countr_zero(left));
      uint32_t const finished = system_atomic<u32>(mail_.finished[slot][seen_[slot] & 1]).load_acquire();
      if (finished >> 1 != (seen_[slot] & 0x7fffffffu)) continue;
      lent_[slot / 32].fetch_and(~(1u << slot % 32), std::memory_order_relaxed);
      to.on_finished(slot, (finished & 1) != 0);
      news++;
    }
  }
  return news;
}

void server::reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool lends) {
  answer &to = mail_.answers[slot];
  uint32_t const bit = 1u << slot % 32;
  TND_ASSERT(word_count <= 4 && (asked_[slot / 32].load(std::memory_order_relaxed) & bit) != 0);
  for (uint32_t i = 0; i < word_count; i++) system_atomic<u64>(to.words[i]).store_relaxed(words[i]);
  u64 const sequence = u64(seen_[slot]) << 32;
  if (lends) lent_[slot / 32].fetch_or(bit, std::memory_order_release);
  asked_[slot / 32].fetch_and(~bit, std::memory_order_release);
  system_atomic<u64>(to.value).store_release(sequence | value);
  system_atomic<u64>(to.code).store_release(sequence | u32(int(code)));
}

bool server::is_canceled(u32 slot) const {
  uint32_t const finished = system_atomic<u32>(mail_.finished[slot][seen_[slot] & 1]).load_acquire();
  return finished == (seen_[slot] << 1 | 1);
}

}  // namespace tanada::rpc
