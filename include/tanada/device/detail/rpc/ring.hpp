// tanada/device/detail/rpc/ring.hpp: requests from kernels to the host: the layout, and the
// kernels' side.
//
// A slot carries one request at a time. Each word has one writer, since a GPU's read-modify-writes
// on host memory are not atomic with respect to the host's:
//   posted    written by the kernel: sequence << 1 | is_short of the request now in the slot
//   answer    written by the host: the sequence, then the answer
//   finished  written by the kernel: sequence << 1 | canceled. The kernel returns what the answer
//             lent (a pinned frame), or no longer waits (with canceled set).
// There are two finished words, selected by the sequence's parity. The host reads a request's word
// before it answers the next request, so a third request cannot overwrite it unread.
//
// A slot is reused once its request is answered and finished. Device memory, where atomics are
// fast, records which slots are in use. A kernel that stops waiting leaves its slot detached; the
// next claim that finds it answered takes it. So a stalled request holds one slot and nothing else.
//
// Sequences have 31 bits. A short request is two words that carry the sequence themselves. It needs
// no fence before `posted`, because the host sees from the words whether they have arrived.
#pragma once

#include "../base/status.hpp"
#include "../simt/copy.hpp"

namespace tanada::rpc {

inline constexpr u32 slot_count = 1024;
inline constexpr u32 text_size = 1024;  // bytes of a slot, including the terminating zero

struct alignas(64) request {
  u32 op;
  u32 file;
  u64 words[5];
  u64 extra[2];
};
static_assert(sizeof(request) == 64);

// sequence:32 | op:8 | file:24, then sequence:12 | second:12 | first:40: a request with two small
// words.
struct alignas(16) short_request {
  u64 words[2];
};
inline constexpr u64 short_first_max = (u64{1} << 40) - 1, short_second_max = (u64{1} << 12) - 1;

// Both tagged words carry the sequence in the high half, so that a reader that sees it in both has
// the whole answer.
struct alignas(64) answer {
  u64 head[2];  // sequence:32 | status, then sequence:32 | a frame, a file
  u64 words[4];
  u64 reserved[2];
};
static_assert(sizeof(answer) == 64);

// Host memory that kernels access.
struct mailbox {
  alignas(64) u32 posted[slot_count];
  alignas(64) u32 finished[slot_count][2];
  alignas(64) short_request shorts[slot_count];
  alignas(64) request requests[slot_count];
  alignas(64) answer answers[slot_count];
  alignas(64) char texts[slot_count][text_size];  // a URL, or a list of words
};

// Device memory, one word for each slot: sequence:32 | detached | claimed. The thread that claimed
// the slot owns its word.
struct slot_table {
  u64 slots[slot_count];
};

namespace slot_word {
inline constexpr u64 claimed = 1, detached = 2;
TND_HD inline u32 sequence(u64 w) {
  return u32(w >> 32);
}
}  // namespace slot_word

// A slot, and the sequence of the request for which it is claimed.
struct ticket {
  u32 slot;
  u32 sequence;
};

struct reply {
  tanada::status code;
  u32 value;
};

inline constexpr u32 no_slot = 0xffffffffu;
inline constexpr u32 no_answer = 0xffffffffu;  // value of a reply that did not come from the host

struct ring_ref {
  mailbox *mail;
  slot_table *slots;

  // Claim a slot for one request. Returns no_slot if none came free before the deadline. Called by
  // one thread of a group.
  TND_DEVICE_CALL ticket claim(u64 deadline_ns) const {
    u32 const home = home_slot();
    for (;;) {
      TND_NO_UNROLL
      for (u32 i = 0; i < slot_count; i++) {
        ticket const claimed = try_claim((home + i) % slot_count, i == 0);
        if (claimed.slot != no_slot)
          return claimed;
        if (i % 32 == 31)
          simt::pause(200);
      }
      if (simt::now_ns() >= deadline_ns)
        return {no_slot, 0};
    }
  }

  // As claim(), but only try the slot at which this thread starts.
  TND_DEVICE ticket try_claim_home() const {
    return try_claim(home_slot() % slot_count, true);
  }

  TND_DEVICE request &body(ticket claimed) const {
    return mail->requests[claimed.slot];
  }
  TND_DEVICE char *text(ticket claimed) const {
    return mail->texts[claimed.slot];
  }
  // The memory of text() as words.
  TND_DEVICE u64 *list(ticket claimed) const {
    return reinterpret_cast<u64 *>(mail->texts[claimed.slot]);
  }

  // Publish body() and text(), which the caller has filled. This is also a simt::fence_system():
  // the caller's earlier stores are visible to any thread that stores first and then loads.
  TND_DEVICE void post(ticket claimed) const {
    simt::fence_system();
    simt::system_word<u32>(mail->posted[claimed.slot])
        .store_release_after_fence(claimed.sequence << 1);
    simt::wake_host();
  }

  // Publish a request whose words are at most short_first_max and short_second_max. No fence.
  TND_DEVICE void post_short(ticket claimed, u32 op, u32 file, u64 first, u64 second) const {
    u64 const tag = u64(claimed.sequence);
    simt::store_pair(mail->shorts[claimed.slot].words,
                     {tag << 32 | u64(op) << 24 | file, tag << 52 | second << 40 | first});
    simt::system_word<u32>(mail->posted[claimed.slot]).store_relaxed(claimed.sequence << 1 | 1);
    simt::wake_host();
  }

  // Wait for the answer. At the deadline, return timed_out with value no_answer: the request is
  // canceled and the caller no longer owns the slot. Otherwise the caller must call finish(), and
  // may read words() until then.
  TND_DEVICE_CALL reply wait(ticket claimed, u64 deadline_ns) const {
    for (u32 round = 0;; round++) {
      simt::word_pair const head =
          simt::load_pair<simt::scope::system>(mail->answers[claimed.slot].head);
      if (u32(head.first >> 32) == claimed.sequence && u32(head.second >> 32) == claimed.sequence) {
        // Acquire: what the host wrote before the answer, such as a frame, is visible now.
        simt::fence_loads();
        return {tanada::status(int(u32(head.first))), u32(head.second)};
      }
      if ((round & 15) == 15 && simt::now_ns() >= deadline_ns) {
        detach(claimed, true);
        return {tanada::status::timed_out, no_answer};
      }
      simt::pause_for_host(round, 64, 500);
    }
  }

  TND_DEVICE const u64 *words(ticket claimed) const {
    return mail->answers[claimed.slot].words;
  }

  // Return what the answer lent, and release the slot. `canceled`: the lent frame was not written.
  TND_DEVICE void finish(ticket claimed, bool canceled) const {
    simt::fence_system();
    finish_after_fence(claimed, canceled);
  }
  TND_DEVICE void finish_after_fence(ticket claimed, bool canceled) const {
    simt::system_word<u32>(mail->finished[claimed.slot][claimed.sequence & 1])
        .store_release_after_fence(claimed.sequence << 1 | (canceled ? 1 : 0));
    simt::device_word<u64>(slots->slots[claimed.slot])
        .store_release_after_fence(u64(claimed.sequence) << 32);
    simt::wake_host();
  }

  // Do not wait for the answer. The slot becomes free once the host has answered.
  TND_DEVICE void detach(ticket claimed, bool canceled) const {
    simt::system_word<u32>(mail->finished[claimed.slot][claimed.sequence & 1])
        .store_release(claimed.sequence << 1 | (canceled ? 1 : 0));
    simt::device_word<u64>(slots->slots[claimed.slot])
        .store_release(u64(claimed.sequence) << 32 | slot_word::detached | slot_word::claimed);
    simt::wake_host();
  }

 private:
  // Neighboring warps start at neighboring slots, each at its own, as long as there are enough.
  TND_DEVICE static u32 home_slot() {
    u32 const warps_a_block = (simt::block_thread_count() + simt::warp_size - 1) / simt::warp_size;
    u32 const thread = simt::thread_rank_in_block();
    return u32(simt::block_rank()) * warps_a_block + thread / simt::warp_size +
           thread % simt::warp_size * 32;
  }

  TND_DEVICE static ticket next_of(u32 slot, u64 word) {
    return {slot, (slot_word::sequence(word) + 1) & 0x7fffffffu};
  }

  // `is_home`: the slot is probably free, so that its word need not be loaded first.
  TND_DEVICE ticket try_claim(u32 slot, bool is_home) const {
    simt::device_word<u64> const word(slots->slots[slot]);
    if (!is_home &&
        (word.load_relaxed() & (slot_word::claimed | slot_word::detached)) == slot_word::claimed)
      return {no_slot, 0};
    // Acquire: the previous owner's accesses to the slot happen before this one's.
    u64 observed = word.fetch_or_acquire(slot_word::claimed);
    if ((observed & slot_word::claimed) == 0)
      return next_of(slot, observed);
    // A detached slot whose answer has arrived goes to the first thread that claims it.
    if ((observed & slot_word::detached) == 0)
      return {no_slot, 0};
    u64 const code = simt::system_word<u64>(mail->answers[slot].head[0]).load_acquire();
    if (u32(code >> 32) != slot_word::sequence(observed) ||
        !word.compare_exchange_acq_rel(observed, observed & ~slot_word::detached))
      return {no_slot, 0};
    return next_of(slot, observed);
  }
};

}  // namespace tanada::rpc
