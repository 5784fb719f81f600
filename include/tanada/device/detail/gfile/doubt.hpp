// tanada/device/detail/gfile/doubt.hpp: changes whose outcome is unknown: a gftruncate, a gunlink
// or a truncating gopen that timed out before the host answered. The host may carry such a change
// out at any later time, or never.
//
// Each such call raises a doubt. A doubt is a word: the high half counts how often it was raised,
// the low half how many of those are resolved. While a file's node is in doubt, a call that needs
// the file's size or bytes first requests the host's view. While names are in doubt, a gopen that
// the host answers may get a descriptor that no other gopen joins, since the name may come to
// denote another file. An answer resolves a doubt if no change is pending for its file and the host
// had seen every change that was posted. The host does not take requests in the order of their
// posts, so a request that it has not seen may be older than the request it answers.
#pragma once

#include "context.hpp"

namespace tanada::gfile::device {

inline constexpr u64 doubt_raised = u64{1} << 32;

TND_DEVICE inline bool in_doubt(u64 doubt) {
  return u32(doubt >> 32) != u32(doubt);
}

TND_DEVICE inline void raise_doubt(u64 &doubt) {
  (void)simt::device_word<u64>(doubt).fetch_add_release(doubt_raised);
}

// `observed`: the doubt before the answer's changes were compared. A doubt raised since then stays.
TND_DEVICE inline void resolve_doubt(u64 &doubt, u64 observed) {
  (void)simt::device_word<u64>(doubt).compare_exchange_acq_rel(
      observed, observed >> 32 << 32 | observed >> 32);
}

// `changes` comes from an answer. True if no change was pending when the answer was made, and none
// has been posted since. The count of posted changes is read after the doubt, so the change that
// raised the doubt is included.
TND_DEVICE inline bool has_no_pending_changes(device_state &state, u64 changes) {
  return changes ==
         changes_word(simt::device_word<u32>(state.changes_posted).load_acquire(), false);
}

// True if this result of `call()` leaves it unknown whether the host will carry the request out.
TND_DEVICE inline bool is_unanswered(status code, const rpc::reply &reply) {
  return code == status::timed_out && reply.value == rpc::no_answer;
}

// Leader only. If the view is in doubt, replace it with the host's view.
TND_DEVICE inline status refresh_view(device_state &state, u32 number, u64 deadline_ns) {
  node &file_node = state.nodes[number];
  u64 const doubt = simt::device_word<u64>(file_node.doubt).load_acquire();
  u32 const file_key = u32(simt::device_word<u64>(file_node.view).load_relaxed() >> 32);
  u64 const lost = mapping_word(file_key, mapping_lost);
  if (!in_doubt(doubt) && simt::device_word<u64>(file_node.mapping).load_acquire() != lost)
    return status::ok;
  rpc::reply reply{};
  u64 words[4] = {0, 0, 0, 0};
  TND_TRY(call(state, {op::view, number, {0, 0, 0}}, nullptr, deadline_ns, reply, words, 4));
  adopt_view(file_node, {u32(words[0]), u32(words[1]), words[2]});
  if (has_no_pending_changes(state, words[3]))
    resolve_doubt(file_node.doubt, doubt);
  return status::ok;
}

// Leader only, from an answer to gopen. True if a change whose caller timed out may still alter the
// name or the file's contents.
TND_DEVICE_CALL inline bool may_still_change(device_state &state, u64 changes) {
  if ((changes & 1) != 0)
    return true;
  u64 const doubt = simt::device_word<u64>(state.names_doubt).load_acquire();
  if (!in_doubt(doubt))
    return false;
  if (!has_no_pending_changes(state, changes))
    return true;
  resolve_doubt(state.names_doubt, doubt);
  return false;
}

inline constexpr u32 no_descriptor = 0xffffffffu;

TND_DEVICE inline descriptor_bucket &bucket_of(device_state &state, u64 hash) {
  return state.buckets[u32(hash ^ hash >> 32) % state.file_count];
}

// Call `action` with each descriptor of the hash, under the lock of its bucket.
template <class Action>
TND_DEVICE inline void for_each_by_hash(device_state &state, u64 hash, Action action) {
  descriptor_bucket &bucket = bucket_of(state, hash);
  lock(bucket.lock);
  for (u32 number = bucket.first; number != 0; number = state.descriptors[number - 1].next) {
    descriptor &entry = state.descriptors[number - 1];
    if (simt::device_word<u64>(entry.url_hash).load_relaxed() == hash)
      action(entry);
  }
  unlock(bucket.lock);
}

// Leader only. The name with this hash denotes another file now, or may at any time, so gopen must
// go to the host.
TND_DEVICE_CALL inline void detach_from_name(device_state &state, u64 hash) {
  for_each_by_hash(state, hash, [](descriptor &entry) {
    (void)simt::device_word<u64>(entry.word).fetch_or_acq_rel(descriptor_word::unjoinable);
  });
}

// Leader only. A change by name timed out. `truncates`: calls on open descriptors of the file must
// refresh its view from the host.
TND_DEVICE_CALL inline void mark_name_in_doubt(device_state &state, u64 hash, bool truncates) {
  raise_doubt(state.names_doubt);
  for_each_by_hash(state, hash, [&](descriptor &entry) {
    u64 const word =
        simt::device_word<u64>(entry.word).fetch_or_acq_rel(descriptor_word::unjoinable);
    if (truncates && descriptor_word::state(word) == descriptor_state::open)
      raise_doubt(state.nodes[simt::device_word<u32>(entry.node).load_relaxed()].doubt);
  });
}

}  // namespace tanada::gfile::device
