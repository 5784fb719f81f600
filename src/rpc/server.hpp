// rpc/server.hpp: the host's side of the ring.
//
// Each slot is polled by one service thread (its share); answers may come from any thread, once a request.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.hpp"
#include "rpc/ring.hpp"

namespace tanada::rpc {

class server {
 public:
  // Who is told. Called by the polling thread.
  struct handler {
    // A new request; it must be answered exactly once, now or later. `text` ends before the first zero, bounded by
    // text_size; both are copies' sources in memory that a kernel may overwrite: read each field once.
    virtual void on_request(u32 slot, const request &asked, std::string_view text) = 0;
    // What an answer with lends = true lent is given back.
    virtual void on_finished(u32 slot, bool canceled) = 0;

   protected:
    ~handler() = default;
  };

  // `mail` is zeroed host memory that kernels reach; it outlives the server.
  explicit server(mailbox &mail);

  // Hand over what came since the last poll in slots [first, first + count), both multiples of slots_a_share. Returns
  // how much that was.
  static constexpr uint32_t slots_a_share = 16;
  uint32_t poll(uint32_t first, uint32_t count, handler &to);

  // Answer the request in `slot`. `lends`: on_finished will follow.
  void reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool lends);

  // The kernel has stopped waiting for the request in `slot`.
  bool is_canceled(u32 slot) const;

 private:
  uint32_t poll_lent(uint32_t first, uint32_t count, handler &to);

  mailbox &mail_;
  // Sequence of the last request handed over. Written by the polling thread of the slot while the slot is not asked_.
  alignas(64) uint32_t seen_[slot_count] = {};
  // A bit a slot: its request is not answered yet. Set by the polling thread, cleared by whoever answers.
  std::atomic<uint32_t> asked_[slot_count / 32] = {};
  // A bit a slot: its answer lent something not given back. Set by whoever answers, cleared by the polling thread.
  std::atomic<uint32_t> lent_[slot_count / 32] = {};
};

}  // namespace tanada::rpc
