// tanada/device/detail/rpc/ring.hpp: requests from kernels to the host: the layout, and the
// kernels' side.
//
// A slot carries one request at a time. Each word has one writer, since a GPU's read-modify-writes
// on host memory are not atomic with the host's:
//   posted    kernel: sequence << 1 | is short, of the request now in the slot
//   answer    host:   the sequence, then the answer
//   finished  kernel: sequence << 1 | canceled: what the answer lent (a pinned frame) is given
//   back; also said, with
//             canceled, by a kernel that no longer waits. Two words, by the sequence's parity: the
//             host reads the one of a request before it answers the next, so a third cannot
//             overwrite it unread
// A slot is used again once its request is answered and finished. Which slots are in use is kept in
// device memory, where atomics are fast. A kernel that stops waiting leaves its slot detached: the
// next claim that finds it answered takes it. So a stalled request holds one slot and nothing else.
//
// Sequences have 31 bits. A short request is two words that carry the sequence themselves: it needs
// no fence between itself and `posted`, for the host sees by the words whether they have come.
#pragma once

#include "../base/status.hpp"
#include "../simt/copy.hpp"

namespace tanada::rpc {

inline constexpr u32 slot_count = 1024;
inline constexpr u32 text_size = 1024;  // bytes a slot, with the terminating zero

struct alignas(64) request {
  u32 op;
  u32 file;
  u64 words[5];
  u64 reserved[2];
};
static_assert(sizeof(request) == 64);

// sequence:32 | op:8 | file:24, then sequence:12 | second:12 | first:40, of a request with two
// small words.
struct alignas(16) short_request {
  u64 words[2];
};
inline constexpr u64 short_first_max = (u64{1} << 40) - 1, short_second_max = (u64{1} << 12) - 1;

// Both tagged words carry the sequence in the high half, so that whoever sees it in both has the
// whole answer.
struct alignas(64) answer {
  u64 head[2];  // sequence:32 | status, then sequence:32 | a frame, a file
  u64 words[4];
  u64 reserved[2];
};
static_assert(sizeof(answer) == 64);

// Host memory that kernels reach.
struct mailbox {
  alignas(64) u32 posted[slot_count];
  alignas(64) u32 finished[slot_count][2];
  alignas(64) short_request shorts[slot_count];
  alignas(64) request requests[slot_count];
  alignas(64) answer answers[slot_count];
  char texts[slot_count][text_size];
};

// Device memory. A word a slot: sequence:32 | detached | claimed. Whoever claimed the slot owns its
// word.
struct desk {
  u64 slots[slot_count];
};

namespace slot_word {
inline constexpr u64 claimed = 1, detached = 2;
TND_HD inline u32 sequence(u64 w) {
  return u32(w >> 32);
}
}  // namespace slot_word

// A slot and the sequence of the request that it is claimed for.
struct ticket {
  u32 slot;
  u32 sequence;
};

struct reply {
  tanada::status code;
  u32 value;
};

inline constexpr u32 no_slot = 0xffffffffu;
inline constexpr u32 no_answer = 0xffffffffu;  // value of a reply that the host did not give

struct ring_ref {
  mailbox *mail;
  desk *slots;

  // A slot for one request, or no_slot if none came free before the deadline. Called by one thread
  // of a group.
  TND_DEVICE ticket claim(u64 deadline_ns) const {
    // Warps next to one another have slots of their own next to one another, as long as there are
    // enough.
    u32 const warps_a_block = (simt::block_thread_count() + simt::warp_size - 1) / simt::warp_size;
    u32 const thread = simt::thread_rank_in_block();
    u32 const home = u32(simt::block_rank()) * warps_a_block + thread / simt::warp_size +
                     thread % simt::warp_size * 32;
    for (;;) {
      for (u32 i = 0; i < slot_count; i++) {
        ticket const mine = try_claim((home + i) % slot_count);
        if (mine.slot != no_slot)
          return mine;
        if (i % 32 == 31)
          simt::pause(200);
      }
      if (simt::now_ns() >= deadline_ns)
        return {no_slot, 0};
    }
  }

  TND_DEVICE request &body(ticket mine) const {
    return mail->requests[mine.slot];
  }
  TND_DEVICE char *text(ticket mine) const {
    return mail->texts[mine.slot];
  }

  // Hand over body() and text(), which the caller has filled. Also a simt::fence_system(): what the
  // caller stored before is seen by whoever stores first and looks then.
  TND_DEVICE void post(ticket mine) const {
    simt::fence_system();
    simt::system_atomic<u32>(mail->posted[mine.slot]).store_release_after_fence(mine.sequence << 1);
  }

  // Hand over a request whose words are at most short_first_max and short_second_max. No fence.
  TND_DEVICE void post_short(ticket mine, u32 op, u32 file, u64 first, u64 second) const {
    u64 const tag = u64(mine.sequence);
    simt::store_pair(mail->shorts[mine.slot].words,
                     {tag << 32 | u64(op) << 24 | file, tag << 52 | second << 40 | first});
    simt::system_atomic<u32>(mail->posted[mine.slot]).store_relaxed(mine.sequence << 1 | 1);
  }

  // Wait for the answer. timed_out and value no_answer at the deadline: the request is canceled and
  // the slot no longer the caller's. Otherwise the caller owes finish(), and may read words() until
  // then.
  TND_DEVICE reply wait(ticket mine, u64 deadline_ns) const {
    for (u32 round = 0;; round++) {
      simt::word_pair const head = simt::load_pair_acquire(mail->answers[mine.slot].head);
      if (u32(head.first >> 32) == mine.sequence && u32(head.second >> 32) == mine.sequence)
        return {tanada::status(int(u32(head.first))), u32(head.second)};
      if ((round & 15) == 15 && simt::now_ns() >= deadline_ns) {
        detach(mine, true);
        return {tanada::status::timed_out, no_answer};
      }
      simt::pause(round < 64 ? 0 : 500);
    }
  }

  TND_DEVICE const u64 *words(ticket mine) const {
    return mail->answers[mine.slot].words;
  }

  // Give back what the answer lent, and the slot. `canceled`: the lent frame was not written.
  TND_DEVICE void finish(ticket mine, bool canceled) const {
    simt::fence_system();
    finish_after_fence(mine, canceled);
  }
  TND_DEVICE void finish_after_fence(ticket mine, bool canceled) const {
    simt::system_atomic<u32>(mail->finished[mine.slot][mine.sequence & 1])
        .store_release_after_fence(mine.sequence << 1 | (canceled ? 1 : 0));
    simt::device_atomic<u64>(slots->slots[mine.slot])
        .store_release_after_fence(u64(mine.sequence) << 32);
  }

  // Do not wait for the answer: the slot comes back by itself once the host has answered.
  TND_DEVICE void detach(ticket mine, bool canceled) const {
    simt::system_atomic<u32>(mail->finished[mine.slot][mine.sequence & 1])
        .store_release(mine.sequence << 1 | (canceled ? 1 : 0));
    simt::device_atomic<u64>(slots->slots[mine.slot])
        .store_release(u64(mine.sequence) << 32 | slot_word::detached | slot_word::claimed);
  }

 private:
  TND_DEVICE static ticket next_of(u32 slot, u64 word) {
    return {slot, (slot_word::sequence(word) + 1) & 0x7fffffffu};
  }

  TND_DEVICE ticket try_claim(u32 slot) const {
    simt::device_atomic<u64> const word(slots->slots[slot]);
    u64 seen = word.load_relaxed();
    if ((seen & slot_word::claimed) != 0) {
      // A detached slot whose answer has come is the first taker's.
      if ((seen & slot_word::detached) == 0)
        return {no_slot, 0};
      u64 const code = simt::system_atomic<u64>(mail->answers[slot].head[0]).load_acquire();
      if (u32(code >> 32) != slot_word::sequence(seen))
        return {no_slot, 0};
    }
    u64 const taken = (seen & ~slot_word::detached) | slot_word::claimed;
    if (!word.compare_exchange_acq_rel(seen, taken))
      return {no_slot, 0};
    return next_of(slot, seen);
  }
};

}  // namespace tanada::rpc
