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

  // Hand over what came since the last poll in slots [first, first + count). Returns how much that was.
  uint32_t poll(uint32_t first, uint32_t count, handler &to);

  // Answer the request in `slot`. `lends`: on_finished will follow.
  void reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool lends);

  // The kernel has stopped waiting for the request in `slot`.
  bool is_canceled(u32 slot) const;

 private:
  mailbox &mail_;
  struct per_slot {
    uint32_t seen = 0;               // sequence of the last request handed over
    std::atomic<bool> lent = false;  // its answer lent something not given back
  };
  std::unique_ptr<per_slot[]> slots_;
};

}  // namespace tanada::rpc
