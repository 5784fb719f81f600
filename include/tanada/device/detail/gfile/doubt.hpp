// tanada/device/detail/gfile/doubt.hpp: changes that nobody waited for: a gftruncate, a gunlink or
// a gopen that truncates, whose time was up before the host answered. The host may carry them out
// at any time from then on, or never.
//
// Such a call leaves a doubt, a word: how often it was raised in the high half, how much of that is
// settled in the low one. While a file's node is in doubt, who wants to know the file's size or
// bytes asks the host for its view first; while names are in doubt, a gopen that the host answers
// may get a descriptor that no other gopen joins, since the name may go to another file. An answer
// settles a doubt if nothing is to come for its file and the host had seen every change that was
// posted: the host does not take requests in the order of their posts, so one that it has not seen
// may be older than the question.
#pragma once

#include "context.hpp"

namespace tanada::gfile::device {

inline constexpr u64 doubt_raised = u64{1} << 32;

TND_DEVICE inline bool in_doubt(u64 doubt) {
  return u32(doubt >> 32) != u32(doubt);
}

TND_DEVICE inline void raise_doubt(u64 &doubt) {
  (void)simt::device_atomic<u64>(doubt).fetch_add_release(doubt_raised);
}

// `seen`: the doubt before the answer's changes were compared. One that was raised since stays.
TND_DEVICE inline void settle_doubt(u64 &doubt, u64 seen) {
  (void)simt::device_atomic<u64>(doubt).compare_exchange_acq_rel(seen,
                                                                 seen >> 32 << 32 | seen >> 32);
}

// Of an answer's changes: nothing was to come when it was made, nor was anything posted since. What
// was posted is read after the doubt, so that the change that raised it is counted.
TND_DEVICE inline bool nothing_to_come(device_state &state, u64 changes) {
  return changes ==
         changes_word(simt::device_atomic<u32>(state.changes_posted).load_acquire(), false);
}

// Did this answer of call() leave it open whether the request will be carried out?
TND_DEVICE inline bool is_unanswered(status code, const rpc::reply &reply) {
  return code == status::timed_out && reply.value == rpc::no_answer;
}

// Leader only. Take over what the host says of the file, if there is a doubt.
TND_DEVICE_CALL inline status renew_view(device_state &state, u32 number, u64 deadline_ns) {
  node &of = state.nodes[number];
  u64 const doubt = simt::device_atomic<u64>(of.doubt).load_acquire();
  u32 const file_key = u32(simt::device_atomic<u64>(of.view).load_relaxed() >> 32);
  u64 const lost = mapping_word(file_key, mapping_lost);
  if (!in_doubt(doubt) && simt::device_atomic<u64>(of.mapping).load_acquire() != lost)
    return status::ok;
  rpc::reply reply{};
  u64 words[4] = {0, 0, 0, 0};
  TND_TRY(call(state, {op::view, number, {0, 0, 0}}, nullptr, deadline_ns, reply, words, 4));
  adopt(of, {u32(words[0]), u32(words[1]), words[2]});
  if (nothing_to_come(state, words[3]))
    settle_doubt(of.doubt, doubt);
  return status::ok;
}

// Leader only. From an answer to gopen: may the name, or what the file holds, still change by what
// nobody waited for?
TND_DEVICE_CALL inline bool may_change_late(device_state &state, u64 changes) {
  if ((changes & 1) != 0)
    return true;
  u64 const doubt = simt::device_atomic<u64>(state.names_doubt).load_acquire();
  if (!in_doubt(doubt))
    return false;
  if (!nothing_to_come(state, changes))
    return true;
  settle_doubt(state.names_doubt, doubt);
  return false;
}

inline constexpr u32 no_descriptor = 0xffffffffu;

TND_DEVICE inline descriptor_bucket &bucket_of(device_state &state, u64 hash) {
  return state.buckets[u32(hash ^ hash >> 32) % state.file_count];
}

// Call `action` with the descriptors of the hash, under the lock of its bucket.
template <class Action>
TND_DEVICE inline void for_each_of_name(device_state &state, u64 hash, Action action) {
  descriptor_bucket &bucket = bucket_of(state, hash);
  lock(bucket.lock);
  for (u32 number = bucket.first; number != 0; number = state.descriptors[number - 1].next) {
    descriptor &at = state.descriptors[number - 1];
    if (simt::device_atomic<u64>(at.url_hash).load_relaxed() == hash)
      action(at);
  }
  unlock(bucket.lock);
}

// Leader only. The name with this hash stands for another file now, or may at any time: gopen asks
// the host.
TND_DEVICE_CALL inline void part_from_name(device_state &state, u64 hash) {
  for_each_of_name(state, hash, [](descriptor &at) {
    (void)simt::device_atomic<u64>(at.word).fetch_or_acq_rel(descriptor_word::unjoinable);
  });
}

// Leader only. A change by name went unanswered. `truncates`: who has the file open asks the host
// for its view.
TND_DEVICE_CALL inline void doubt_name(device_state &state, u64 hash, bool truncates) {
  raise_doubt(state.names_doubt);
  for_each_of_name(state, hash, [&](descriptor &at) {
    u64 const word =
        simt::device_atomic<u64>(at.word).fetch_or_acq_rel(descriptor_word::unjoinable);
    if (truncates && descriptor_word::state(word) == descriptor_state::open)
      raise_doubt(state.nodes[simt::device_atomic<u32>(at.node).load_relaxed()].doubt);
  });
}

}  // namespace tanada::gfile::device
