// rpc/server.hpp: the host's side of the ring.
//
// Slots are polled in shares of `slots_per_share`.
//
// Locking: the caller holds its own lock around every call except next_active_share(), which one
// thread may call without it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "observe/trace/trace.hpp"
#include <tanada/device/detail/base/status.hpp>
#include <tanada/device/detail/rpc/ring.hpp>

namespace tanada::rpc {

inline constexpr u32 slots_per_share = 16;
inline constexpr u32 share_count = slot_count / slots_per_share;
static_assert(slot_count % slots_per_share == 0);
// has_work() compares two slots at a time, and a share has one bit for each slot in a word.
static_assert(slots_per_share % 2 == 0 && slots_per_share <= 32);

class server {
 public:
  // Receives requests and returned loans in poll().
  struct handler {
    // A request that on_request() will soon receive: memory that it needs may be fetched meanwhile.
    virtual void on_arrival(const request &) {}
    // A new request, which must be answered exactly once, now or later. `text` ends before the
    // first zero byte and has at most text_size bytes. A kernel may overwrite its memory, so read
    // it only once.
    virtual void on_request(u32 slot, const request &new_request, std::string_view text) = 0;
    // The kernel has returned the loan of a reply. `canceled`: it stopped waiting before it saw the
    // reply.
    virtual void on_finished(u32 slot, bool canceled) = 0;

   protected:
    ~handler() = default;
  };

  // `mail` is zeroed host memory that kernels can access; it outlives the server.
  // `do_kernels_sleep`: replies wake them, as on the host executor. Kernels of a GPU poll.
  explicit server(mailbox &mail, bool do_kernels_sleep = true);

  // The first share, from `share` on, in which a poll would most likely find work; `share_count`:
  // none. This is the only work done for an idle share.
  uint32_t next_active_share(uint32_t share) const;

  // Dispatch what has arrived in the share since its last poll: for each slot, the returned loan
  // before the new request. Returns the number of both.
  uint32_t poll(uint32_t share, handler &target);

  // Answer the request in `slot`. `has_loan`: on_finished() will follow.
  void reply(
      u32 slot, status code, u32 value, const u64 *words, uint32_t word_count, bool has_loan);

  // A word of the list that came with the request in `slot`. A kernel may change it at any time.
  u64 list_word(u32 slot, u32 index) const;

  // Whether the kernel has stopped waiting for the request in `slot`.
  bool is_canceled(u32 slot) const;

 private:
  // A request that was taken from its slot, and the value of `posted` that announced it.
  struct arrival {
    u32 slot;
    u32 posted;
    request body;
  };

  bool has_work(uint32_t share) const;
  bool is_ready(u32 slot, handler &target, uint32_t &event_count);
  void dispatch(const arrival &next, handler &target);
  uint32_t poll_loans(uint32_t share, handler &target);
  void prefetch(uint32_t share) const;
  bool take_request(u32 slot, u32 posted, request &new_request) const;

  mailbox &mail_;
  bool do_kernels_sleep_;
  observe::trace::requests traced_{slot_count};
  // The value of `posted` for the last request dispatched from each slot.
  alignas(64) uint32_t dispatched_[slot_count] = {};
  uint32_t pending_[share_count] = {};  // one bit for each slot: its request is not answered yet
  // One bit for each slot: the loan of its reply has not been returned. Atomic only because of
  // next_active_share().
  std::atomic<uint32_t> loaned_[share_count] = {};
};

}  // namespace tanada::rpc
