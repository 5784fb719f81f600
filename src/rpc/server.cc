#include "rpc/server.hpp"

#include <cstring>

#include "base/assert.hpp"

namespace tanada::rpc {

using simt::system_atomic;

server::server(mailbox &mail) : mail_{mail}, slots_{std::make_unique<per_slot[]>(slot_count)} {}

uint32_t server::poll(uint32_t first, uint32_t count, handler &to) {
  uint32_t news = 0;
  for (uint32_t slot = first; slot < first + count; slot++) {
    per_slot &mine = slots_[slot];
    uint32_t const posted = system_atomic<u32>(mail_.posted[slot]).load_acquire();
    if (mine.lent.load(std::memory_order_acquire)) {
      uint32_t const finished = system_atomic<u32>(mail_.finished[slot][mine.seen & 1]).load_acquire();
      if (finished >> 1 != (mine.seen & 0x7fffffffu)) continue;
      mine.lent.store(false, std::memory_order_relaxed);
      to.on_finished(slot, (finished & 1) != 0);
      news++;
    }
    if (posted == mine.seen) continue;
    mine.seen = posted;
    const char *text = mail_.texts[slot];
    request const asked = mail_.requests[slot];
    to.on_request(slot, asked, {text, strnlen(text, text_size)});
    news++;
  }
  return news;
}

void server::reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool lends) {
  answer &to = mail_.answers[slot];
  TND_ASSERT(word_count <= 4);
  for (uint32_t i = 0; i < word_count; i++) system_atomic<u64>(to.words[i]).store_relaxed(words[i]);
  u64 const sequence = u64(system_atomic<u32>(mail_.posted[slot]).load_relaxed()) << 32;
  if (lends) slots_[slot].lent.store(true, std::memory_order_release);
  system_atomic<u64>(to.value).store_release(sequence | value);
  system_atomic<u64>(to.code).store_release(sequence | u32(int(code)));
}

bool server::is_canceled(u32 slot) const {
  uint32_t const posted = system_atomic<u32>(mail_.posted[slot]).load_relaxed();
  uint32_t const finished = system_atomic<u32>(mail_.finished[slot][posted & 1]).load_acquire();
  return finished == (posted << 1 | 1);
}

}  // namespace tanada::rpc
