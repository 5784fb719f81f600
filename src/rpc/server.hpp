// rpc/server.hpp: the host's side of the ring.
//
// The slots are polled in shares of slots_a_share.
//
// Lock: the caller's, around everything but next_news(), which one thread may call without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "observe/trace/trace.hpp"
#include <tanada/device/detail/base/status.hpp>
#include <tanada/device/detail/rpc/ring.hpp>

namespace tanada::rpc {

inline constexpr u32 slots_a_share = 16;
inline constexpr u32 share_count = slot_count / slots_a_share;

class server {
 public:
  // Who is told, in poll().
  struct handler {
    // A new request; it must be answered exactly once, now or later. `text` ends before the first
    // zero, bounded by text_size, and lies in memory that a kernel may overwrite: read it once.
    virtual void on_request(u32 slot, const request &asked, std::string_view text) = 0;
    // What an answer with lends = true lent is given back.
    virtual void on_finished(u32 slot, bool canceled) = 0;

   protected:
    ~handler() = default;
  };

  // `mail` is zeroed host memory that kernels reach; it outlives the server.
  explicit server(mailbox &mail);

  // The first share from `share` on of which a poll would find something, most likely; share_count:
  // none. All that is done to a share where nothing happens.
  uint32_t next_news(uint32_t share) const;

  // Hand over what came since the last poll of the share, of each slot what was given back before
  // what is asked. Returns how much that was.
  uint32_t poll(uint32_t share, handler &to);

  // Answer the request in `slot`. `lends`: on_finished will follow.
  void reply(u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool lends);

  // The kernel has stopped waiting for the request in `slot`.
  bool is_canceled(u32 slot) const;

 private:
  bool has_news(uint32_t share) const;
  uint32_t poll_lent(uint32_t share, handler &to);
  void fetch_early(uint32_t share) const;
  bool take_request(u32 slot, u32 posted, request &asked) const;

  mailbox &mail_;
  port::trace::requests traced_{slot_count};
  // What `posted` was for the last request handed over.
  alignas(64) uint32_t seen_[slot_count] = {};
  uint32_t asked_[share_count] = {};  // a bit a slot: its request is not answered yet
  // A bit a slot: its answer lent something not given back. Atomic for next_news() alone.
  std::atomic<uint32_t> lent_[share_count] = {};
};

}  // namespace tanada::rpc
