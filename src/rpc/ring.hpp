// rpc/ring.hpp: requests from kernels to the host: the layout, and the kernels' side.
//
// A slot carries one request at a time. Each word has one writer, since a GPU's read-modify-writes on host memory are
// not atomic with the host's:
//   posted    kernel: sequence of the request now in the slot
//   answer    host:   the sequence, then the answer
//   finished  kernel: sequence << 1 | canceled: what the answer lent (a pinned frame) is given back; also said, with
//             canceled, by a kernel that no longer waits. Two words, by the sequence's parity: the host reads the one
//             of a request before it answers the next, so a third cannot overwrite it unread
// A slot is used again once its request is answered and finished. Which slots are in use is kept in device memory,
// where atomics are fast. A kernel that stops waiting leaves its slot detached: the next claim that finds it answered
// takes it. So a stalled request holds one slot and nothing else.
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

// Both tagged words carry the sequence in the high half, so that whoever sees it in both has the whole answer.
struct alignas(64) answer {
  u64 code;    // sequence:32 | status
  u64 value;   // sequence:32 | a frame, a file
  u64 words[4];
  u64 reserved[2];
};
static_assert(sizeof(answer) == 64);

// Host memory that kernels reach.
struct mailbox {
  alignas(64) u32 posted[slot_count];
  alignas(64) u32 finished[slot_count][2];
  alignas(64) request requests[slot_count];
  alignas(64) answer answers[slot_count];
  char texts[slot_count][text_size];
};

// Device memory.
struct desk {
  u32 claimed[slot_count / 32];
  u32 detached[slot_count / 32];
  u32 sequence[slot_count];  // of the last request; owned by whoever claimed the slot
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

  // A slot for one request, or no_slot if none came free before the deadline. Called by one thread of a group.
  TND_DEVICE u32 claim(u64 deadline_ns) const {
    u32 const words = slot_count / 32;
    u32 const start = u32(simt::block_rank() * 7 + simt::thread_rank_in_block() / simt::warp_size);
    for (;;) {
      for (u32 i = 0; i < words; i++) {
        u32 const slot = claim_in((start + i) % words);
        if (slot != no_slot) return slot;
      }
      if (simt::now_ns() >= deadline_ns) return no_slot;
      simt::pause(256);
    }
  }

  TND_DEVICE request &body(u32 slot) const { return mail->requests[slot]; }
  TND_DEVICE char *text(u32 slot) const { return mail->texts[slot]; }

  // Hand over body(slot) and text(slot), which the caller has filled. Also a simt::fence_system(): what the caller
  // stored before is seen by whoever stores first and looks then.
  TND_DEVICE void post(u32 slot) const {
    u32 const sequence = ++slots->sequence[slot];
    simt::fence_system();
    simt::system_atomic<u32>(mail->posted[slot]).store_release_after_fence(sequence);
  }

  // Wait for the answer. timed_out and value no_answer at the deadline: the request is canceled and the slot no longer
  // the caller's.
  // Otherwise the caller owes finish(), and may read words(slot) until then.
  TND_DEVICE reply wait(u32 slot, u64 deadline_ns) const {
    u32 const sequence = slots->sequence[slot];
    answer &from_host = mail->answers[slot];
    for (u32 round = 0;; round++) {
      u64 const value = simt::system_atomic<u64>(from_host.value).load_relaxed();
      u64 const code = simt::system_atomic<u64>(from_host.code).load_acquire();
      if (u32(code >> 32) == sequence && u32(value >> 32) == sequence)
        return {tanada::status(int(u32(code))), u32(value)};
      if ((round & 15) == 15 && simt::now_ns() >= deadline_ns) {
        detach(slot, true);
        return {tanada::status::timed_out, no_answer};
      }
      simt::pause(round < 64 ? 0 : 500);
    }
  }

  TND_DEVICE const u64 *words(u32 slot) const { return mail->answers[slot].words; }

  // Give back what the answer lent, and the slot. `canceled`: the lent frame was not written.
  TND_DEVICE void finish(u32 slot, bool canceled) const {
    mark_finished(slot, canceled);
    (void)simt::device_atomic<u32>(slots->claimed[slot / 32]).fetch_and_release(~(1u << slot % 32));
  }

  // Do not wait for the answer: the slot comes back by itself once the host has answered.
  TND_DEVICE void detach(u32 slot, bool canceled) const {
    mark_finished(slot, canceled);
    (void)simt::device_atomic<u32>(slots->detached[slot / 32]).fetch_or_acq_rel(1u << slot % 32);
  }

 private:
  TND_DEVICE void mark_finished(u32 slot, bool canceled) const {
    u32 const sequence = slots->sequence[slot];
    simt::system_atomic<u32>(mail->finished[slot][sequence & 1]).store_release(sequence << 1 | (canceled ? 1 : 0));
  }

  TND_DEVICE u32 claim_in(u32 word) const {
    simt::device_atomic<u32> const claimed(slots->claimed[word]);
    for (u32 taken = claimed.load_relaxed(); taken != 0xffffffffu;) {
      u32 const bit = 1u << simt::first_bit(~taken);
      u32 const before = claimed.fetch_or_acq_rel(bit);
      if ((before & bit) == 0) return word * 32 + simt::first_bit(bit);
      taken = before | bit;
    }
    return reclaim_in(word);
  }

  // A detached slot whose answer has come stays claimed and becomes the caller's.
  TND_DEVICE u32 reclaim_in(u32 word) const {
    simt::device_atomic<u32> const detached(slots->detached[word]);
    for (u32 left = detached.load_acquire(); left != 0; left &= left - 1) {
      u32 const bit = left & (~left + 1), slot = word * 32 + simt::first_bit(bit);
      u64 const code = simt::system_atomic<u64>(mail->answers[slot].code).load_acquire();
      if (u32(code >> 32) != simt::device_atomic<u32>(slots->sequence[slot]).load_relaxed()) continue;
      if ((detached.fetch_and_acq_rel(~bit) & bit) == 0) continue;
      // Ours now, unless it was taken, used and left again between the look and the exchange.
      u64 const still = simt::system_atomic<u64>(mail->answers[slot].code).load_acquire();
      if (u32(still >> 32) == simt::device_atomic<u32>(slots->sequence[slot]).load_relaxed()) return slot;
      (void)detached.fetch_or_acq_rel(bit);
    }
    return no_slot;
  }
};

}  // namespace tanada::rpc
