// gfile/device/page.hpp: bring one page to where a group can read it: device tier, host tier, RPC, in that order.
#pragma once

#include "context.hpp"

namespace tanada::gfile::device {

struct page_request {
  u32 node;
  u32 mapping;      // slot of the file's mapping, 0: none
  u64 key;          // of the page
  u64 page_index;
  u64 pages_wanted; // from this one on, in the same call: a hint for merging
  u64 file_size;    // bytes
  u64 deadline_ns;
};

enum class page_source : u32 {
  device,  // frame of the device tier, pinned
  own,     // frame of the device tier, pinned and loading: the caller fills and publishes it
  none,    // no frame free: the caller reads from the host tier straight to its buffer
  again,   // somebody brings it, or is in the way just now: look again
};

struct page_place {
  tanada::status status;
  page_source source;
  u32 frame;
};

// Pin the page if it is in the device tier. Leader only.
TND_DEVICE_CALL inline page_place find_page(device_state &state, const page_request &wanted) {
  tier::find_result const found = simt::constant(state.device_table).find(wanted.key);
  if (found.outcome == tier::find_outcome::absent) return {status::ok, page_source::own, tier::no_frame};
  if (found.outcome == tier::find_outcome::loading) return {status::ok, page_source::again, found.frame};
  count(&counters::device_hits, state, wanted.node);
  return {status::ok, page_source::device, found.frame};
}

// Take a frame for a page that is not there. Leader only.
TND_DEVICE_CALL inline page_place begin_page(device_state &state, const page_request &wanted) {
  tier::begin_result const begun = simt::constant(state.device_table).begin(wanted.key);
  switch (begun.outcome) {
    case tier::begin_outcome::owner:
      if (begun.evicted_key != 0) count(&counters::device_evictions, state, wanted.node);
      return {status::ok, page_source::own, begun.frame};
    case tier::begin_outcome::full:
      count(&counters::uncached_transfers, state, wanted.node);
      return {status::ok, page_source::none, tier::no_frame};
    default: return {status::ok, page_source::again, tier::no_frame};
  }
}

// What the leader found out, for all; the status is ok or timed_out.
template <class Group>
TND_DEVICE inline page_place share(Group group, page_place mine) {
  u64 const packed = group.broadcast(u64(mine.frame) << 32 | u64(mine.source) << 16 | (mine.status == status::ok ? 0 : 1));
  return {(packed & 1) == 0 ? status::ok : status::timed_out, page_source(packed >> 16 & 0xffff), u32(packed >> 32)};
}

// Between two rounds: while somebody brings the page to `frame`, look at that alone, for many may be waiting. Leader only.
TND_DEVICE_CALL inline status wait_a_round(device_state &state, const page_request &wanted, u32 frame, u32 round) {
  simt::pause(round < 16 ? 50 : 400);
  auto const table = simt::constant(state.device_table);
  for (u32 look = 0; frame != tier::no_frame; look++) {
    if (tier::word::state(table.load_word(frame)) != tier::page_state::loading) break;
    if ((look & 15) == 15 && simt::now_ns() >= wanted.deadline_ns) return status::timed_out;
    simt::pause(look < 16 ? 100 : 400);
  }
  return (round & 7) == 7 && simt::now_ns() >= wanted.deadline_ns ? status::timed_out : status::ok;
}

// A look for a page in the host tier's table: begun early where it can be, since the way over PCIe is long, and finished
// when what it saw is wanted. The result is the leader's (rank 0) at least.
template <class Group>
struct host_look {
  TND_DEVICE void begin(Group, const device_state &, u64) {}
  TND_DEVICE tier::peek_result finish(Group group, const device_state &state, u64 key) const {
    return group.rank() == 0 ? simt::constant(state.host_table).peek(key) : tier::peek_result{tier::no_frame, 0};
  }
};

// The lanes of a warp share the ways.
template <>
struct host_look<this_warp> {
  simt::word_pair mine{0, 0};

  TND_DEVICE void begin(this_warp group, const device_state &state, u64 key) {
    auto const table = simt::constant(state.host_table);
    if (group.rank() < table.shape.ways)
      mine = simt::load_pair<simt::scope::system>(table.entries[table.set_of(key) * table.shape.ways + group.rank()].words);
  }
  TND_DEVICE tier::peek_result finish(this_warp group, const device_state &state, u64 key) const {
    auto const table = simt::constant(state.host_table);
    if (group.size() < table.shape.ways) return group.rank() == 0 ? table.peek(key) : tier::peek_result{tier::no_frame, 0};
    u32 const found = simt::ballot(group.mask(), mine.first == key && tier::word::readable(mine.second));
    if (found == 0) return {tier::no_frame, 0};
    u32 const lane = simt::first_bit(found);
    return {table.set_of(key) * table.shape.ways + lane, simt::shuffle(group.mask(), tier::word::version(mine.second), lane)};
  }
};

struct copy_plan {
  u8 *target;
  u64 offset;         // in the page
  u64 size;           // bytes
  u8 *second_target;  // gets the same bytes; nullptr: none
};

// Copy what the file has of the plan's bytes from `source`, where the page lies in memory that others may be changing, to
// one or two places, and let zeros follow.
template <class Group>
TND_DEVICE inline void copy_page_part(Group group, const page_request &wanted, const device_state &state, const u8 *page, const copy_plan &plan) {
  u64 const begin = (wanted.page_index << simt::constant(state.page_shift)) + plan.offset;
  u64 const rest = wanted.file_size > begin ? wanted.file_size - begin : 0;
  u64 const size = plan.size < rest ? plan.size : rest;
  if (plan.second_target == nullptr) simt::copy_from_host(group, plan.target, page + plan.offset, size);
  else simt::copy_from_host_twice(group, plan.target, plan.second_target, page + plan.offset, size);
  for (u64 i = size + group.rank(); i < plan.size; i += group.size()) {
    plan.target[i] = 0;
    if (plan.second_target != nullptr) plan.second_target[i] = 0;
  }
}

// Bytes from a host frame to one or two places. On the second they may be void if the page turns out to have gone.
template <class Group>
TND_DEVICE inline void copy_frame(Group group, const device_state &state, u32 frame, const copy_plan &plan) {
  const u8 *const source = simt::constant(state.host_frames) + (u64(frame) << simt::constant(state.page_shift)) + plan.offset;
  if (plan.second_target == nullptr) simt::copy_from_host(group, plan.target, source, plan.size);
  else simt::copy_from_host_twice(group, plan.target, plan.second_target, source, plan.size);
}

// Copy from the host tier with no CPU in the path. False: the page is not there, or went while it was copied, and the
// targets' bytes are void.
template <class Group>
TND_DEVICE inline bool copy_from_host_tier(Group group, device_state &state, const page_request &wanted, const copy_plan &plan,
                                            const host_look<Group> &look) {
  tier::peek_result const seen = look.finish(group, state, wanted.key);
  u64 const packed = group.broadcast(u64(seen.frame) << 32 | seen.version);
  u32 const frame = u32(packed >> 32);
  if (frame == tier::no_frame) return false;
  // The key is placed in the device tier; a writer that puts bytes in the host frame after this either finds the key and
  // dooms the page, or its bytes are seen here.
  simt::fence_system();
  copy_frame(group, state, frame, plan);
  group.sync();
  bool same = false;
  if (group.rank() == 0) {
    simt::fence_loads();
    same = simt::constant(state.host_table).unchanged(frame, wanted.key, u32(packed));
    if (same) count(&counters::host_hits, state, wanted.node);
  }
  return group.broadcast(u32(same ? 1 : 0)) != 0;
}

struct loan {
  status code;
  u32 slot;   // no_slot: nothing to give back
  u32 frame;  // pinned by the host until the slot is finished
};

// Leader only.
TND_DEVICE_CALL inline loan borrow_frame(device_state &state, const page_request &wanted) {
  count(&counters::misses, state, wanted.node);
  u64 const start_ns = simt::now_ns();
  rpc::ring_ref const ring = simt::constant(state.ring);
  u32 const slot = ring.claim(wanted.deadline_ns);
  if (slot == rpc::no_slot) return {status::timed_out, rpc::no_slot, 0};
  rpc::request &body = ring.body(slot);
  body.op = u32(op::read);
  body.file = wanted.node;
  body.words[0] = wanted.page_index;
  body.words[1] = wanted.pages_wanted;
  ring.post(slot);
  rpc::reply const reply = ring.wait(slot, wanted.deadline_ns);
  if (reply.value == rpc::no_answer) return {reply.code, rpc::no_slot, 0};
  count_wait(state, simt::now_ns() - start_ns);
  if (reply.code != status::ok) {
    ring.finish(slot, false);
    return {reply.code, rpc::no_slot, 0};
  }
  return {status::ok, slot, reply.value};
}

// Copy from the file's own pages in host memory, with no CPU in the path.
template <class Group>
TND_DEVICE inline void copy_from_mapping(Group group, device_state &state, const page_request &wanted, const copy_plan &plan) {
  u64 const start = simt::device_atomic<u64>(simt::constant(state.mapped)[wanted.mapping - 1].addr).load_relaxed();
  const u8 *const page = reinterpret_cast<const u8 *>(start) + (wanted.page_index << simt::constant(state.page_shift));
  copy_page_part(group, wanted, state, page, plan);
  group.sync();
  if (group.rank() == 0) count(&counters::mapped_copies, state, wanted.node);
}

// Ask the host for the page and copy it from the frame that the host pins for us. The post is the fence that
// copy_from_host_tier() has.
template <class Group>
TND_DEVICE inline status copy_by_rpc(Group group, device_state &state, const page_request &wanted, const copy_plan &plan) {
  loan lent{status::ok, rpc::no_slot, 0};
  if (group.rank() == 0) lent = borrow_frame(state, wanted);
  u64 const packed = group.broadcast(u64(lent.frame) << 32 | u32(int(lent.code)));
  status const code = status(int(u32(packed)));
  if (code != status::ok) return code;
  u32 const frame = u32(packed >> 32), host_frames = simt::constant(state.host_table).shape.frame_count();
  if (frame < host_frames) {
    copy_frame(group, state, frame, plan);
  } else {  // of the direct window, where nobody has put zeros behind the end of the file
    const u8 *const page = simt::constant(state.window_frames) + (u64(frame - host_frames) << simt::constant(state.page_shift));
    copy_page_part(group, wanted, state, page, plan);
    if (group.rank() == 0) count(&counters::direct_copies, state, wanted.node);
  }
  group.sync();
  if (group.rank() == 0) simt::constant(state.ring).finish(lent.slot, false);
  return code;
}

template <class Group>
TND_DEVICE inline status copy_past_device(Group group, device_state &state, const page_request &wanted, const copy_plan &plan,
                                         const host_look<Group> &look) {
  if (wanted.mapping != 0) {
    copy_from_mapping(group, state, wanted, plan);
    return status::ok;
  }
  if (copy_from_host_tier(group, state, wanted, plan, look)) return status::ok;
  return copy_by_rpc(group, state, wanted, plan);
}

struct page_view {
  tanada::status status;
  u32 frame;        // pinned until release_page(); no_frame: the device tier has no room
  const u8 *bytes;  // the frame
  bool delivered;   // the bytes are in `whole_target` too
};

// Pin the page in the device tier, bringing it there first if need be. `whole_target`: where the caller wants the whole
// page, or nullptr.
template <class Group>
TND_DEVICE inline page_view acquire_page(Group group, device_state &state, const page_request &wanted, u8 *whole_target) {
  host_look<Group> look;
  page_place place{status::ok, page_source::again, tier::no_frame};
  for (u32 round = 0; place.source == page_source::again; round++) {
    if (group.rank() == 0) place = find_page(state, wanted);
    place = share(group, place);
    if (place.source == page_source::device) break;
    if (place.source == page_source::own) {
      if (wanted.mapping == 0) look.begin(group, state, wanted.key);
      if (group.rank() == 0) place = begin_page(state, wanted);
    }
    if (group.rank() == 0 && place.source == page_source::again) place.status = wait_a_round(state, wanted, place.frame, round);
    place = share(group, place);
    if (place.status != status::ok) return {place.status, tier::no_frame, nullptr, false};
  }
  if (place.source == page_source::none) return {status::ok, tier::no_frame, nullptr, false};
  u32 const frame = place.frame;
  u8 *const bytes = simt::constant(state.device_frames) + (u64(frame) << simt::constant(state.page_shift));
  if (place.source == page_source::device) return {status::ok, frame, bytes, false};
  status const code = copy_past_device(group, state, wanted, {bytes, 0, simt::constant(state.page_size), whole_target}, look);
  if (group.rank() == 0) {
    auto const table = simt::constant(state.device_table);
    if (code == status::ok) table.publish(frame, tier::page_state::ready);
    else table.abandon(frame);
  }
  return {code, code == status::ok ? frame : tier::no_frame, bytes, whole_target != nullptr};
}

// Every thread of the group is done with the bytes.
template <class Group>
TND_DEVICE inline void release_page(Group group, device_state &state, u32 frame) {
  group.sync();
  if (group.rank() == 0) simt::constant(state.device_table).release(frame);
}

}  // namespace tanada::gfile::device
