// tanada/device/detail/gfile/page.hpp: bring one page to where a group can read it: device tier,
// host tier, RPC, in that order.
#pragma once

#include "context.hpp"

namespace tanada::gfile::device {

struct page_request {
  u32 node;
  u32 mapping;  // slot of the file's mapping, 0: none
  u64 key;      // of the page
  u64 page_index;
  u64 pages_wanted;  // from this one on, in the same call: a hint for merging
  u64 file_size;     // bytes
  u32 epoch;         // of key and size: the low bits at least
  u64 deadline_ns;
  bool must_pin = false;  // a frame of the device tier, also if that means to wait for one
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
  bool asked;            // the host has been asked for the page already
  bool is_full = false;  // again: no frame is free
};

// Pin the page if it is in the device tier. Leader only.
TND_DEVICE_CALL inline page_place find_page(device_state &state, const page_request &wanted) {
  tier::find_result const found = simt::constant(state.device_table).find(wanted.key);
  if (found.outcome == tier::find_outcome::absent)
    return {status::ok, page_source::own, tier::no_frame, false};
  if (found.outcome == tier::find_outcome::loading)
    return {status::ok, page_source::again, found.frame, false};
  count(&counters::device_hits, state, wanted.node);
  return {status::ok, page_source::device, found.frame, false};
}

// Take a frame for a page that is not there. Leader only.
TND_DEVICE_CALL inline page_place begin_page(device_state &state, const page_request &wanted) {
  auto const table = simt::constant(state.device_table);
  tier::begin_result const begun =
      wanted.must_pin ? table.begin_anywhere(wanted.key) : table.begin(wanted.key);
  switch (begun.outcome) {
    case tier::begin_outcome::owner:
      if (begun.evicted_key != 0)
        count(&counters::device_evictions, state, wanted.node);
      return {status::ok, page_source::own, begun.frame, false};
    case tier::begin_outcome::full:
      if (wanted.must_pin)
        return {status::ok, page_source::again, tier::no_frame, false, true};
      count(&counters::uncached_transfers, state, wanted.node);
      return {status::ok, page_source::none, tier::no_frame, false};
    default: return {status::ok, page_source::again, tier::no_frame, false};
  }
}

// What the leader found out, for all; the status is ok, timed_out or busy.
template <class Group>
TND_DEVICE inline page_place share(Group group, page_place mine) {
  u64 const code = mine.status == status::ok ? 0 : mine.status == status::busy ? 4 : 1;
  u64 const flags = code | (mine.asked ? 2 : 0);
  u64 const packed = group.broadcast(u64(mine.frame) << 32 | u64(mine.source) << 16 | flags);
  status const seen = (packed & 4) != 0   ? status::busy
                      : (packed & 1) != 0 ? status::timed_out
                                          : status::ok;
  return {seen, page_source(packed >> 16 & 0xffff), u32(packed >> 32), (packed & 2) != 0};
}

// Between two rounds: while somebody brings the page to `frame`, look at that alone, for many may
// be waiting. Leader only.
TND_DEVICE_CALL inline status wait_a_round(device_state &state, const page_request &wanted,
                                           u32 frame, u32 round) {
  simt::pause(round < 16 ? 50 : 400);
  auto const table = simt::constant(state.device_table);
  for (u32 look = 0; frame != tier::no_frame; look++) {
    if (tier::word::state(table.load_word(frame)) != tier::page_state::loading)
      break;
    if ((look & 15) == 15 && simt::now_ns() >= wanted.deadline_ns)
      return status::timed_out;
    simt::pause(look < 16 ? 100 : 400);
  }
  return (round & 7) == 7 && simt::now_ns() >= wanted.deadline_ns ? status::timed_out : status::ok;
}

// A look for a page in the host tier's table: begun early where it can be, since the way over PCIe
// is long, and finished when what it saw is wanted. The result is the leader's (rank 0) at least.
template <class Group>
struct host_look {
  TND_DEVICE void begin(Group, const device_state &, u64) {}
  TND_DEVICE tier::peek_result finish(Group group, const device_state &state, u64 key) const {
    return group.rank() == 0 ? simt::constant(state.host_table).peek(key)
                             : tier::peek_result{tier::no_frame, 0};
  }
};

// The lanes of a warp share the ways.
template <>
struct host_look<this_warp> {
  simt::word_pair mine{0, 0};

  TND_DEVICE void begin(this_warp group, const device_state &state, u64 key) {
    auto const table = simt::constant(state.host_table);
    if (group.rank() < table.shape.ways)
      mine = simt::load_pair<simt::scope::system>(
          table.entries[table.set_of(key) * table.shape.ways + group.rank()].words);
  }
  TND_DEVICE tier::peek_result finish(this_warp group, const device_state &state, u64 key) const {
    auto const table = simt::constant(state.host_table);
    if (group.size() < table.shape.ways)
      return group.rank() == 0 ? table.peek(key) : tier::peek_result{tier::no_frame, 0};
    u32 const found =
        simt::ballot(group.mask(), mine.first == key && tier::word::readable(mine.second));
    if (found == 0)
      return {tier::no_frame, 0};
    u32 const lane = simt::first_bit(found);
    return {table.set_of(key) * table.shape.ways + lane,
            simt::shuffle(group.mask(), tier::word::version(mine.second), lane)};
  }
};

struct copy_plan {
  u8 *target;
  u64 offset;         // in the page
  u64 size;           // bytes
  u8 *second_target;  // gets the same bytes; nullptr: none
};

// Copy the first `size` of the plan's bytes from `page`, in memory that others may be changing, to
// one or two places, and let zeros follow.
template <class Group>
TND_DEVICE inline void copy_page_part(Group group, const u8 *page, const copy_plan &plan,
                                      u64 size) {
  if (size > plan.size)
    size = plan.size;
  if (plan.second_target == nullptr)
    simt::copy_from_host(group, plan.target, page + plan.offset, size);
  else
    simt::copy_from_host_twice(group, plan.target, plan.second_target, page + plan.offset, size);
  if (size == plan.size)
    return;
  simt::fill_zero(group, plan.target + size, plan.size - size);
  if (plan.second_target != nullptr)
    simt::fill_zero(group, plan.second_target + size, plan.size - size);
}

// How many of the plan's bytes a file of `file_size` bytes has.
TND_DEVICE inline u64 size_in_file(const device_state &state, const page_request &wanted,
                                   const copy_plan &plan, u64 file_size) {
  u64 const begin = (wanted.page_index << simt::constant(state.page_shift)) + plan.offset;
  u64 const rest = file_size > begin ? file_size - begin : 0;
  return rest < plan.size ? rest : plan.size;
}

// Bytes from a host frame to one or two places; on the second they may be void if the page turns
// out to have gone. What lies behind the end of the file is zero and need not come so far. The size
// is that after the fence by which a writer and a reader that places the page see one another, as
// long as the file has the same view.
template <class Group>
TND_DEVICE inline void copy_frame(Group group, device_state &state, const page_request &wanted,
                                  u32 frame, const copy_plan &plan) {
  const u8 *const page =
      simt::constant(state.host_frames) + (u64(frame) << simt::constant(state.page_shift));
  u64 size = size_in_file(state, wanted, plan, wanted.file_size);
  if (size < plan.size) {
    u64 now = 0;
    if (group.rank() == 0)
      now = simt::device_atomic<u64>(simt::constant(state.nodes)[wanted.node].size).load_relaxed();
    now = group.broadcast(now);
    if (is_size_of(now, wanted.epoch) && size_of_word(now) > wanted.file_size)
      size = size_in_file(state, wanted, plan, size_of_word(now));
  }
  copy_page_part(group, page, plan, size);
}

// Copy from the host tier with no CPU in the path. False: the page is not there, or went while it
// was copied, and the targets' bytes are void.
template <class Group>
TND_DEVICE inline bool copy_from_host_tier(Group group, device_state &state,
                                           const page_request &wanted, const copy_plan &plan,
                                           const host_look<Group> &look) {
  tier::peek_result const seen = look.finish(group, state, wanted.key);
  u64 const packed = group.broadcast(u64(seen.frame) << 32 | seen.version);
  u32 const frame = u32(packed >> 32);
  if (frame == tier::no_frame)
    return false;
  // The key is placed in the device tier; a writer that puts bytes in the host frame after this
  // either finds the key and dooms the page, or its bytes are seen here.
  simt::fence_system();
  copy_frame(group, state, wanted, frame, plan);
  group.sync();
  bool same = false;
  if (group.rank() == 0) {
    simt::fence_loads();
    same = simt::constant(state.host_table).unchanged(frame, wanted.key, u32(packed));
    if (same)
      count(&counters::host_hits, state, wanted.node);
  }
  return group.broadcast(u32(same ? 1 : 0)) != 0;
}

// Whether whoever misses a page of this file asks the host without a look of its own at the host
// tier. Leader only. Not beside a direct window: a writer puts nothing in its frames, and would not
// find the key of a page that is asked for before the key is placed.
TND_DEVICE inline bool expects_miss(device_state &state, const page_request &wanted) {
  if (wanted.mapping != 0 || simt::constant(state.window_frames) != nullptr)
    return false;
  return simt::device_atomic<u32>(simt::constant(state.nodes)[wanted.node].missing)
             .load_relaxed() != 0;
}
TND_DEVICE inline void expect_miss(device_state &state, const page_request &wanted, bool missing) {
  simt::device_atomic<u32>(simt::constant(state.nodes)[wanted.node].missing)
      .store_relaxed(missing ? 1 : 0);
}

// The request for a page; ticket.slot is no_slot where there was none before the deadline. No
// fence. Leader only.
TND_DEVICE_CALL inline rpc::ticket ask_for_page(device_state &state, const page_request &wanted) {
  rpc::ring_ref const ring = simt::constant(state.ring);
  rpc::ticket const mine = ring.claim(wanted.deadline_ns);
  u64 const more =
      wanted.pages_wanted < rpc::short_second_max ? wanted.pages_wanted : rpc::short_second_max;
  if (mine.slot != rpc::no_slot)
    ring.post_short(mine, u32(op::read), wanted.node, wanted.page_index, more);
  return mine;
}

struct loan {
  status code;
  rpc::ticket held;  // slot no_slot: nothing to give back
  u32 frame;         // pinned by the host until the ticket is finished
};

// Wait for the frame that was asked for. Leader only.
TND_DEVICE_CALL inline loan borrow_frame(device_state &state, const page_request &wanted,
                                         rpc::ticket asked) {
  rpc::ticket const none{rpc::no_slot, 0};
  if (asked.slot == rpc::no_slot) {
    count(&counters::misses, state, wanted.node);
    return {status::timed_out, none, 0};
  }
  u64 const start_ns = simt::now_ns();
  rpc::ring_ref const ring = simt::constant(state.ring);
  // The key is placed in the device tier; a writer that puts bytes in the frame after this either
  // finds the key and dooms the page, or its bytes are seen in the copy.
  simt::fence_system();
  rpc::reply const reply = ring.wait(asked, wanted.deadline_ns);
  bool const at_once = reply.code == status::ok && (reply.value & lent_at_once) != 0;
  count(at_once ? &counters::host_hits : &counters::misses, state, wanted.node);
  if (at_once)
    expect_miss(state, wanted, false);
  if (reply.value == rpc::no_answer)
    return {reply.code, none, 0};
  if (!at_once)
    count_wait(state, simt::now_ns() - start_ns);
  if (reply.code != status::ok) {
    ring.finish(asked, false);
    return {reply.code, none, 0};
  }
  return {status::ok, asked, reply.value & ~lent_at_once};
}

// Copy from the file's own pages in host memory, with no CPU in the path.
template <class Group>
TND_DEVICE inline void copy_from_mapping(Group group, device_state &state,
                                         const page_request &wanted, const copy_plan &plan) {
  mapped_range &range = simt::constant(state.mapped)[wanted.mapping - 1];
  u64 const start = simt::device_atomic<u64>(range.addr).load_relaxed(),
            mapped_size = simt::device_atomic<u64>(range.size).load_relaxed();
  const u8 *const page =
      reinterpret_cast<const u8 *>(start) + (wanted.page_index << simt::constant(state.page_shift));
  copy_page_part(group, page, plan,
                 size_in_file(state, wanted, plan,
                              wanted.file_size < mapped_size ? wanted.file_size : mapped_size));
  group.sync();
  if (group.rank() == 0)
    count(&counters::mapped_copies, state, wanted.node);
}

// What came of a copy: for the leader, also what it must give back once nobody reads the frame.
struct fetched {
  status code;
  rpc::ticket lent;  // slot no_slot: nothing
};

// Copy the page from the frame that the host pins for us, as was asked with `asked`.
template <class Group>
TND_DEVICE inline fetched copy_by_rpc(Group group, device_state &state, const page_request &wanted,
                                      const copy_plan &plan, rpc::ticket asked) {
  loan lent{status::ok, {rpc::no_slot, 0}, 0};
  if (group.rank() == 0)
    lent = borrow_frame(state, wanted, asked);
  u64 const packed = group.broadcast(u64(lent.frame) << 32 | u32(int(lent.code)));
  status const code = status(int(u32(packed)));
  if (code != status::ok)
    return {code, lent.held};
  u32 const frame = u32(packed >> 32),
            host_frames = simt::constant(state.host_table).shape.frame_count();
  if (frame < host_frames) {
    copy_frame(group, state, wanted, frame, plan);
  } else {  // of the direct window, where behind what came from the store lie other bytes
    u64 valid = 0;
    if (group.rank() == 0)
      valid = simt::system_atomic<u64>(
                  const_cast<u64 &>(simt::constant(state.ring).words(lent.held)[0]))
                  .load_relaxed();
    valid = group.broadcast(valid);
    u64 const size = valid > plan.offset ? valid - plan.offset : 0;
    const u8 *const page = simt::constant(state.window_frames) +
                           (u64(frame - host_frames) << simt::constant(state.page_shift));
    copy_page_part(group, page, plan, size);
    if (group.rank() == 0)
      count(&counters::direct_copies, state, wanted.node);
  }
  group.sync();
  return {code, lent.held};
}

// Copy from where the page lies. The leader has asked the host already where `asked` is a ticket.
template <class Group>
TND_DEVICE inline fetched copy_past_device(Group group, device_state &state,
                                           const page_request &wanted, const copy_plan &plan,
                                           const host_look<Group> &look, bool has_asked,
                                           rpc::ticket asked) {
  if (wanted.mapping != 0) {
    copy_from_mapping(group, state, wanted, plan);
    return {status::ok, {rpc::no_slot, 0}};
  }
  if (has_asked)
    return copy_by_rpc(group, state, wanted, plan, asked);
  if (copy_from_host_tier(group, state, wanted, plan, look))
    return {status::ok, {rpc::no_slot, 0}};
  if (group.rank() == 0) {
    expect_miss(state, wanted, true);
    asked = ask_for_page(state, wanted);
  }
  return copy_by_rpc(group, state, wanted, plan, asked);
}

// To the caller's memory alone, where the device tier has no room.
template <class Group>
TND_DEVICE inline status read_past_device(Group group, device_state &state,
                                          const page_request &wanted, const copy_plan &plan) {
  host_look<Group> look;
  if (wanted.mapping == 0)
    look.begin(group, state, wanted.key);
  fetched const came = copy_past_device(group, state, wanted, plan, look, false, {rpc::no_slot, 0});
  if (group.rank() == 0 && came.lent.slot != rpc::no_slot)
    simt::constant(state.ring).finish(came.lent, false);
  return came.code;
}

struct page_view {
  tanada::status status;
  u32 frame;  // pinned until release_page(), unless `delivered`; no_frame: the device tier has no
              // room
  const u8 *bytes;  // the frame
  bool delivered;   // the bytes are in `whole_target`, and the page is not pinned
};

// The page has come, or not, to the frame that is ours: let others have it. Leader only.
TND_DEVICE_CALL inline void end_page(device_state &state, u32 frame, const fetched &came,
                                     bool keep) {
  auto const table = simt::constant(state.device_table);
  simt::fence_system();
  if (came.code != status::ok)
    table.abandon(frame);
  else if (keep)
    table.publish_after_fence(frame, tier::page_state::ready);
  else
    table.publish_and_release_after_fence(frame, tier::page_state::ready);
  if (came.lent.slot != rpc::no_slot)
    simt::constant(state.ring).finish_after_fence(came.lent, false);
}

// Pin the page in the device tier, bringing it there first if need be. `whole_target`: where the
// caller wants the whole page, or nullptr. Of a file whose pages are mostly not in the host tier
// the host is asked at once, and the frame taken and the tables looked through while the answer is
// on its way.
template <class Group>
TND_DEVICE inline page_view acquire_page(Group group, device_state &state,
                                         const page_request &wanted, u8 *whole_target) {
  host_look<Group> look;
  rpc::ticket asked{rpc::no_slot, 0};
  page_place place{status::ok, page_source::again, tier::no_frame, false};
  for (u32 round = 0; place.source == page_source::again; round++) {
    if (group.rank() == 0) {
      bool const expects = expects_miss(state, wanted);
      place = find_page(state, wanted);
      if (place.source == page_source::own && expects)
        asked = ask_for_page(state, wanted);
      place.asked = asked.slot != rpc::no_slot;
    }
    place = share(group, place);
    if (place.source == page_source::device)
      break;
    if (place.source == page_source::own) {
      if (wanted.mapping == 0 && !place.asked)
        look.begin(group, state, wanted.key);
      if (group.rank() == 0) {
        bool const has_asked = place.asked;
        place = begin_page(state, wanted);
        place.asked = has_asked && place.source == page_source::own;
        if (has_asked && !place.asked)
          simt::constant(state.ring).detach(asked, true);  // somebody else brings it, or nobody can
        if (!place.asked)
          asked.slot = rpc::no_slot;
      }
    }
    if (group.rank() == 0 && place.source == page_source::again) {
      place.status = wait_a_round(state, wanted, place.frame, round);
      if (place.status == status::timed_out && place.is_full)
        place.status = status::busy;
    }
    place = share(group, place);
    if (place.status != status::ok)
      return {place.status, tier::no_frame, nullptr, false};
  }
  if (place.source == page_source::none)
    return {status::ok, tier::no_frame, nullptr, false};
  u32 const frame = place.frame;
  u8 *const bytes =
      simt::constant(state.device_frames) + (u64(frame) << simt::constant(state.page_shift));
  if (place.source == page_source::device)
    return {status::ok, frame, bytes, false};
  copy_plan const plan{bytes, 0, simt::constant(state.page_size), whole_target};
  fetched const came = copy_past_device(group, state, wanted, plan, look, place.asked, asked);
  if (group.rank() == 0)
    end_page(state, frame, came, whole_target == nullptr);
  return {came.code, came.code == status::ok ? frame : tier::no_frame, bytes,
          came.code == status::ok && whole_target != nullptr};
}

// Every thread of the group is done with the bytes.
template <class Group>
TND_DEVICE inline void release_page(Group group, device_state &state, u32 frame) {
  group.sync();
  if (group.rank() == 0)
    simt::constant(state.device_table).release(frame);
}

}  // namespace tanada::gfile::device
