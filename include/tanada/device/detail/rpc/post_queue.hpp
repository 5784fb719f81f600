// tanada/device/detail/rpc/post_queue.hpp: requests from kernels that need no answer: the layout,
// and the kernels' side.
//
// A kernel takes a ticket, fills the entry of that ticket and goes on. The host takes the entries
// in the order of their tickets, so requests of one thread, and of threads that synchronize, are
// taken in the order in which they were posted. An entry whose thread has its ticket and has not
// posted yet holds up those after it. A thread that posts and then sends a request through the ring
// sends limit() with it: the host takes all entries before that ticket first.
//
// Each word of host memory has one writer: `posted` the kernel that has the ticket, `taken_count`
// the host.
#pragma once

#include "ring.hpp"

namespace tanada::rpc {

inline constexpr u32 post_count = 512;       // entries
inline constexpr u32 post_text_size = 4096;  // bytes

struct alignas(64) post_entry {
  request body;
  char text[post_text_size];
  u64 posted;  // ticket + 1 of the request now in the entry
};

// Host memory that kernels access.
struct post_box {
  post_entry entries[post_count];
  alignas(64) u64 taken_count;  // all tickets below have been taken
};

// Device memory.
struct post_state {
  u64 next;         // the next ticket
  u64 taken_count;  // a value that `taken_count` of the box has had
};

inline constexpr u64 no_ticket = ~u64{0};

struct post_queue_ref {
  post_box *box;
  post_state *state;

  // Claim an entry. Returns no_ticket if none came free before the deadline. One thread.
  TND_DEVICE u64 claim(u64 deadline_ns) const {
    simt::device_word<u64> const next(state->next), taken_count(state->taken_count);
    u64 ticket = next.load_relaxed();
    for (u32 round = 0;;) {
      // Acquire: the host has read the entry's previous request.
      if (ticket - taken_count.load_acquire() < post_count) {
        if (next.compare_exchange_relaxed(ticket, ticket + 1))
          return ticket;
        continue;
      }
      u64 const current = simt::system_word<u64>(box->taken_count).load_acquire();
      if (ticket - current >= post_count) {
        if ((round & 15) == 15 && simt::now_ns() >= deadline_ns)
          return no_ticket;
        simt::pause_for_host(round++, 64, 500);
      }
      // Another thread may replace it with an older value, which is as true.
      taken_count.store_release(current);
      ticket = next.load_relaxed();
    }
  }

  TND_DEVICE post_entry &entry(u64 ticket) const {
    return box->entries[ticket % post_count];
  }

  // Publish the entry, which the caller has filled. Also a simt::fence_system().
  TND_DEVICE void post(u64 ticket) const {
    simt::fence_system();
    simt::system_word<u64>(entry(ticket).posted).store_release_after_fence(ticket + 1);
    simt::wake_host();
  }

  // All entries of this thread have lower tickets, and those of threads that synchronized with it.
  TND_DEVICE u64 limit() const {
    return simt::device_word<u64>(state->next).load_relaxed();
  }
};

}  // namespace tanada::rpc
