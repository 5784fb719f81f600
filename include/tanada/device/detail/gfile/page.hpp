// tanada/device/detail/gfile/page.hpp: make one page readable by a group: from the device tier, the
// host tier or by RPC, in that order.
#pragma once

#include "../tier/claim.hpp"
#include "../tier/lookup.hpp"
#include "context.hpp"

namespace tanada::gfile::device {

// What the caller knows of a page: nothing, that it is not in the device tier, or also that it is
// expected to be missing in the host tier.
enum class page_hint : u32 { unknown, absent, missing };

struct page_request {
  u32 node;
  u32 mapping;  // slot of the file's mapping, 0: none
  u64 key;      // of the page
  u64 page_index;
  u64 pages_wanted;  // from this one on, in the same call: a hint for merging
  u64 file_size;     // bytes
  u32 epoch;         // of key and size: at least the low bits
  u64 deadline_ns;
  bool must_pin = false;  // needs a frame of the device tier, even if the call must wait for one
  page_hint hint = page_hint::unknown;
};

enum class page_source : u32 {
  device,    // frame of the device tier, pinned
  owned,     // frame of the device tier, pinned and loading: the caller fills and publishes it
  no_frame,  // no frame is free: the caller copies from the host tier to its own buffer
  retry,     // another group is loading the page, or the set is locked: try again
};

struct page_location {
  tanada::status status;
  page_source source;
  u32 frame;
  bool is_requested;     // the page has already been requested from the host
  bool is_full = false;  // retry: no frame is free
};

// Pin the page if it is in the device tier. Leader only.
TND_DEVICE_CALL inline page_location find_page(device_state &state, const page_request &request) {
  tier::find_result const result = simt::constant(state.device_table).find(request.key);
  if (result.outcome == tier::find_outcome::absent)
    return {status::ok, page_source::owned, tier::no_frame, false};
  if (result.outcome == tier::find_outcome::loading)
    return {status::ok, page_source::retry, result.frame, false};
  count(&counters::device_hits, state, request.node);
  return {status::ok, page_source::device, result.frame, false};
}

using device_table = tier::table_ref<simt::scope::device>;

// One thread, or as many lanes as help, take a frame. The result is valid in the leader.
template <class Group>
TND_DEVICE inline tier::begin_result claim_frame(Group group,
                                                 const device_table &table,
                                                 const page_request &request) {
  if (request.must_pin || group.size() < simt::warp_size || !simt::whole_warp::is_possible()) {
    tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
    if (group.rank() == 0)
      begun = request.must_pin ? table.begin_anywhere(request.key) : table.begin(request.key);
    return begun;
  }
  if (group.rank() >= simt::warp_size)
    return {tier::begin_outcome::contended, tier::no_frame, 0};
  return tier::warp_claim<simt::scope::device>::begin(table, request.key);
}

// Take a frame for a page that is not in the device tier. The result is valid in the leader.
template <class Group>
TND_DEVICE inline page_location begin_page(Group group,
                                           device_state &state,
                                           const page_request &request) {
  device_table const table = simt::constant(state.device_table);
  tier::begin_result const begun = claim_frame(group, table, request);
  if (group.rank() != 0)
    return {status::ok, page_source::retry, tier::no_frame, false};
  switch (begun.outcome) {
    case tier::begin_outcome::owner:
      if (begun.evicted_key != 0)
        count(&counters::device_evictions, state, request.node);
      return {status::ok, page_source::owned, begun.frame, false};
    case tier::begin_outcome::full:
      if (request.must_pin)
        return {status::ok, page_source::retry, tier::no_frame, false, true};
      count(&counters::uncached_transfers, state, request.node);
      return {status::ok, page_source::no_frame, tier::no_frame, false};
    default:
      return {status::ok, page_source::retry, tier::no_frame, false};
  }
}

// Broadcast the leader's result; its status is ok, timed_out or busy.
template <class Group>
TND_DEVICE inline page_location share(Group group, page_location location) {
  u64 const code = location.status == status::ok ? 0 : location.status == status::busy ? 4 : 1;
  u64 const flags = code | (location.is_requested ? 2 : 0);
  u64 const packed =
      group.broadcast(u64(location.frame) << 32 | u64(location.source) << 16 | flags);
  status const shared_status = (packed & 4) != 0   ? status::busy
                               : (packed & 1) != 0 ? status::timed_out
                                                   : status::ok;
  return {shared_status, page_source(packed >> 16 & 0xffff), u32(packed >> 32), (packed & 2) != 0};
}

// Wait between two rounds. While another group loads the page into `frame`, poll only that frame's
// word, because many groups may be waiting. Leader only.
TND_DEVICE_CALL inline status wait_one_round(device_state &state,
                                             const page_request &request,
                                             u32 frame,
                                             u32 round) {
  simt::pause(round < 16 ? 50 : 400);
  auto const table = simt::constant(state.device_table);
  for (u32 poll = 0; frame != tier::no_frame; poll++) {
    if (tier::word::state(table.load_word(frame)) != tier::page_state::loading)
      break;
    if ((poll & 15) == 15 && simt::now_ns() >= request.deadline_ns)
      return status::timed_out;
    simt::pause(poll < 16 ? 100 : 400);
  }
  return (round & 7) == 7 && simt::now_ns() >= request.deadline_ns ? status::timed_out : status::ok;
}

// A load over PCIe has a high latency, so a lookup begins as early as possible, and ends when its
// result is needed.
template <class Group>
using host_lookup = tier::group_lookup<Group, simt::scope::system>;

// A page to a frame and perhaps to a buffer too, or a part of a page to a buffer.
struct copy_plan {
  u8 *frame;   // nullptr: none
  u8 *buffer;  // of the caller; nullptr: none
  u64 offset;  // in the page; 0 with a frame
  u64 size;    // bytes; those of a page with a frame
};

// Copy the first `size` of the plan's bytes, and fill the rest with zeros. `page` is in memory that
// others may be changing.
template <class Group>
TND_DEVICE inline void copy_page_part(Group group,
                                      const u8 *page,
                                      const copy_plan &plan,
                                      u64 size) {
  if (size > plan.size)
    size = plan.size;
  if (plan.frame != nullptr)
    return simt::fill_frame(group, {plan.frame, plan.buffer, page, size, plan.size});
  simt::copy_from_host(group, plan.buffer, page + plan.offset, size);
  if (size < plan.size)
    simt::fill_zero(group, plan.buffer + size, plan.size - size);
}

// How many of the plan's bytes lie within a file of `file_size` bytes.
TND_DEVICE inline u64 size_in_file(const device_state &state,
                                   const page_request &request,
                                   const copy_plan &plan,
                                   u64 file_size) {
  u64 const begin = (request.page_index << simt::constant(state.page_shift)) + plan.offset;
  u64 const rest = file_size > begin ? file_size - begin : 0;
  return rest < plan.size ? rest : plan.size;
}

// Copy bytes from a host frame. The targets' bytes are void if the page turns out to have been
// replaced. Bytes after the end of the file are zero and need not be
// transferred. The size is loaded after the fence that orders a writer against a reader that places
// the page, provided that the file's view is still the same.
template <class Group>
TND_DEVICE inline void copy_frame(Group group,
                                  device_state &state,
                                  const page_request &request,
                                  u32 frame,
                                  const copy_plan &plan) {
  const u8 *const page =
      simt::constant(state.host_frames) + (u64(frame) << simt::constant(state.page_shift));
  u64 size = size_in_file(state, request, plan, request.file_size);
  if (size < plan.size) {
    u64 latest_size = 0;
    if (group.rank() == 0)
      latest_size =
          simt::device_word<u64>(simt::constant(state.nodes)[request.node].size).load_relaxed();
    latest_size = group.broadcast(latest_size);
    if (is_size_of(latest_size, request.epoch) && size_of_word(latest_size) > request.file_size)
      size = size_in_file(state, request, plan, size_of_word(latest_size));
  }
  copy_page_part(group, page, plan, size);
}

// Copy from the host tier without the CPU. Returns false if the page is not there, or was replaced
// during the copy; the targets' bytes are then void.
template <class Group>
TND_DEVICE inline bool copy_from_host_tier(Group group,
                                           device_state &state,
                                           const page_request &request,
                                           const copy_plan &plan,
                                           const host_lookup<Group> &lookup) {
  tier::peek_result const result =
      lookup.finish(group, simt::constant(state.host_table), request.key);
  u64 const packed = group.broadcast(u64(result.frame) << 32 | result.version);
  u32 const frame = u32(packed >> 32);
  if (frame == tier::no_frame)
    return false;
  copy_frame(group, state, request, frame, plan);
  group.sync();
  bool is_unchanged = false;
  if (group.rank() == 0) {
    simt::fence_loads();
    is_unchanged = simt::constant(state.host_table).is_unchanged(frame, request.key, u32(packed));
    if (is_unchanged)
      count(&counters::host_hits, state, request.node);
  }
  return group.broadcast(u32(is_unchanged ? 1 : 0)) != 0;
}

TND_DEVICE inline miss_expectation miss_expectation_of(device_state &state, u32 node) {
  return miss_expectation(
      simt::device_word<u32>(simt::constant(state.nodes)[node].missing).load_relaxed());
}
TND_DEVICE inline void expect(device_state &state, u32 node, miss_expectation expected) {
  simt::device_word<u32>(simt::constant(state.nodes)[node].missing).store_relaxed(u32(expected));
}

// Leader only. True if a miss on a page of this file is expected to be a miss in the host tier too,
// so that the page is requested from the host without a lookup.
TND_DEVICE inline bool expects_miss(device_state &state, const page_request &request) {
  if (request.mapping != 0)
    return false;
  if (request.hint != page_hint::unknown)
    return request.hint == page_hint::missing;
  return miss_expectation_of(state, request.node) == miss_expectation::miss;
}
// Leader only. A page of the file was not in the host tier.
TND_DEVICE inline void expect_miss(device_state &state, u32 node) {
  if (miss_expectation_of(state, node) == miss_expectation::hit)
    expect(state, node, miss_expectation::miss);
}

// Request a page from the host. `ticket.slot` is no_slot if no slot came free before the deadline.
// No fence. Leader only.
TND_DEVICE_CALL inline rpc::ticket request_page(device_state &state, const page_request &request) {
  rpc::ring_ref const ring = simt::constant(state.ring);
  rpc::ticket const ticket = ring.claim(request.deadline_ns);
  u64 const page_count =
      request.pages_wanted < rpc::short_second_max ? request.pages_wanted : rpc::short_second_max;
  if (ticket.slot != rpc::no_slot)
    ring.post_short(ticket, u32(op::read), request.node, request.page_index, page_count);
  return ticket;
}

struct frame_loan {
  status code;
  rpc::ticket ticket;  // slot is no_slot: nothing to return
  u32 frame;           // pinned by the host until the ticket is finished
  bool at_once;        // the page was in the frame when the request arrived
  u64 wait_ns;         // 0: there was no answer
};

// Wait for the requested frame. Leader only.
TND_DEVICE_CALL inline frame_loan borrow_frame(device_state &state,
                                               const page_request &request,
                                               rpc::ticket ticket) {
  rpc::ticket const no_ticket{rpc::no_slot, 0};
  if (ticket.slot == rpc::no_slot)
    return {status::timed_out, no_ticket, 0, false, 0};
  u64 const start_ns = simt::now_ns();
  rpc::ring_ref const ring = simt::constant(state.ring);
  rpc::reply const reply = ring.wait(ticket, request.deadline_ns);
  if (reply.value == rpc::no_answer)
    return {reply.code, no_ticket, 0, false, 0};
  u64 const wait_ns = simt::now_ns() - start_ns + 1;
  if (reply.code != status::ok) {
    ring.finish(ticket, false);
    return {reply.code, no_ticket, 0, false, wait_ns};
  }
  bool const at_once = (reply.value & granted_at_once) != 0;
  return {status::ok, ticket, reply.value & ~granted_at_once, at_once, wait_ns};
}

// Leader only. After the copy, which does not wait for it.
TND_DEVICE_CALL inline void count_loan(device_state &state,
                                       const page_request &request,
                                       const frame_loan &loan) {
  count(loan.at_once ? &counters::host_hits : &counters::misses, state, request.node);
  bool const is_windowed =
      loan.code == status::ok && loan.frame >= simt::constant(state.host_table).shape.frame_count();
  if (is_windowed || loan.at_once)
    expect(state, request.node, is_windowed ? miss_expectation::windowed : miss_expectation::hit);
  if (!loan.at_once && loan.wait_ns != 0)
    count_wait(state, loan.wait_ns);
}

// Copy from the file's own pages in host memory, without the CPU.
template <class Group>
TND_DEVICE inline void copy_from_mapping(Group group,
                                         device_state &state,
                                         const page_request &request,
                                         const copy_plan &plan) {
  mapped_range &range = simt::constant(state.mapped_ranges)[request.mapping - 1];
  u64 const start = simt::device_word<u64>(range.addr).load_relaxed(),
            mapped_size = simt::device_word<u64>(range.size).load_relaxed();
  const u8 *const page = reinterpret_cast<const u8 *>(start) +
                         (request.page_index << simt::constant(state.page_shift));
  copy_page_part(
      group,
      page,
      plan,
      size_in_file(
          state, request, plan, request.file_size < mapped_size ? request.file_size : mapped_size));
  group.sync();
  if (group.rank() == 0)
    count(&counters::mapped_copies, state, request.node);
}

// The result of a copy. The leader must finish `ticket` once no thread reads the frame.
struct copy_result {
  status code;
  rpc::ticket ticket;  // slot is no_slot: nothing
};

// Copy from a frame of the direct window, which the host has filled for the request of `ticket`.
template <class Group>
TND_DEVICE inline void copy_from_window(Group group,
                                        device_state &state,
                                        const page_request &request,
                                        u32 window_frame,
                                        const copy_plan &plan,
                                        rpc::ticket ticket) {
  u64 valid = 0;
  if (group.rank() == 0)
    valid = simt::system_word<u64>(const_cast<u64 &>(simt::constant(state.ring).words(ticket)[0]))
                .load_relaxed();
  valid = group.broadcast(valid);
  u64 const size = valid > plan.offset ? valid - plan.offset : 0;
  const u8 *const page =
      simt::constant(state.window_frames) + (u64(window_frame) << simt::constant(state.page_shift));
  copy_page_part(group, page, plan, size);
  if (group.rank() == 0)
    count(&counters::direct_copies, state, request.node);
}

// Copy the page from the frame that the host pins for this request.
template <class Group>
TND_DEVICE inline copy_result copy_by_rpc(Group group,
                                          device_state &state,
                                          const page_request &request,
                                          const copy_plan &plan,
                                          rpc::ticket ticket) {
  frame_loan loan{status::ok, {rpc::no_slot, 0}, 0, false, 0};
  if (group.rank() == 0)
    loan = borrow_frame(state, request, ticket);
  u64 const packed = group.broadcast(u64(loan.frame) << 32 | u32(int(loan.code)));
  status const code = status(int(u32(packed)));
  if (code != status::ok) {
    if (group.rank() == 0)
      count_loan(state, request, loan);
    return {code, loan.ticket};
  }
  u32 const frame = u32(packed >> 32),
            host_frames = simt::constant(state.host_table).shape.frame_count();
  if (frame < host_frames) {
    copy_frame(group, state, request, frame, plan);
  } else {  // a frame of the direct window: bytes of other files follow those that the store placed
    copy_from_window(group, state, request, frame - host_frames, plan, loan.ticket);
  }
  group.sync();
  if (group.rank() == 0)
    count_loan(state, request, loan);
  return {code, loan.ticket};
}

// Copy the page from the tier or mapping that holds it. `is_requested`: the leader has already
// requested it with `ticket`.
template <class Group>
TND_DEVICE_CALL copy_result fetch_page(Group group,
                                       device_state &state,
                                       const page_request &request,
                                       const copy_plan &plan,
                                       const host_lookup<Group> &lookup,
                                       bool is_requested,
                                       rpc::ticket ticket) {
  if (request.mapping != 0) {
    copy_from_mapping(group, state, request, plan);
    return {status::ok, {rpc::no_slot, 0}};
  }
  if (!is_requested) {
    if (copy_from_host_tier(group, state, request, plan, lookup))
      return {status::ok, {rpc::no_slot, 0}};
    if (group.rank() == 0) {
      ticket = request_page(state, request);
      expect_miss(state, request.node);
    }
  }
  return copy_by_rpc(group, state, request, plan, ticket);
}

// Copy only to the caller's memory, because the device tier has no free frame.
template <class Group>
TND_DEVICE inline status read_bypassing_tier(Group group,
                                             device_state &state,
                                             const page_request &request,
                                             const copy_plan &plan) {
  host_lookup<Group> lookup;
  if (request.mapping == 0)
    lookup.begin(group, simt::constant(state.host_table), request.key);
  copy_result const result =
      fetch_page(group, state, request, simt::in_memory(plan), lookup, false, {rpc::no_slot, 0});
  if (group.rank() == 0 && result.ticket.slot != rpc::no_slot)
    simt::constant(state.ring).finish(result.ticket, false);
  return result.code;
}

struct page_view {
  tanada::status status;
  u32 frame;  // pinned until release_page(), unless `delivered`; no_frame: the device tier has no
              // free frame
  const u8 *bytes;  // the frame
  bool delivered;   // the bytes are in `whole_target`, and the page is not pinned
};

// Publish the owned frame if the copy succeeded, otherwise abandon it. Leader only.
TND_DEVICE_CALL inline void end_page(device_state &state,
                                     u32 frame,
                                     const copy_result &result,
                                     bool keep) {
  auto const table = simt::constant(state.device_table);
  simt::fence_system();
  if (result.code != status::ok)
    table.abandon(frame);
  else if (keep)
    table.publish_after_fence(frame, tier::page_state::ready);
  else
    table.publish_and_release_after_fence(frame, tier::page_state::ready);
  if (result.ticket.slot != rpc::no_slot)
    simt::constant(state.ring).finish_after_fence(result.ticket, false);
}

// Leader only. Search the device tier, and request an expected miss from the host at once.
TND_DEVICE inline page_location find_or_request(device_state &state,
                                                const page_request &request,
                                                u32 round,
                                                rpc::ticket &ticket) {
  bool const is_miss_expected = expects_miss(state, request);
  page_location location{status::ok, page_source::owned, tier::no_frame, false};
  if (round > 0 || request.hint == page_hint::unknown)
    location = find_page(state, request);
  if (location.source == page_source::owned && is_miss_expected)
    ticket = request_page(state, request);
  location.is_requested = ticket.slot != rpc::no_slot;
  return location;
}

// Allocate a frame, while a request or the lookup in the host tier is in flight. Detach a posted
// request if another group loads the page, or if no frame is free. Valid in the leader.
template <class Group>
TND_DEVICE inline page_location begin_located_page(Group group,
                                                   device_state &state,
                                                   const page_request &request,
                                                   bool was_requested,
                                                   rpc::ticket &ticket) {
  page_location location = begin_page(group, state, request);
  if (group.rank() != 0 || !was_requested)
    return location;
  location.is_requested = location.source == page_source::owned;
  if (!location.is_requested) {
    simt::constant(state.ring).detach(ticket, true);
    ticket.slot = rpc::no_slot;
  }
  return location;
}

// Find the page in the device tier, or allocate a frame that this group must fill. If most pages of
// the file are not in the host tier, the page is requested from the host at once.
template <class Group>
TND_DEVICE inline page_location locate_page(Group group,
                                            device_state &state,
                                            const page_request &request,
                                            host_lookup<Group> &lookup,
                                            rpc::ticket &ticket) {
  page_location location{status::ok, page_source::retry, tier::no_frame, false};
  for (u32 round = 0; location.source == page_source::retry; round++) {
    if (group.rank() == 0)
      location = find_or_request(state, request, round, ticket);
    location = share(group, location);
    bool is_full = false;  // in the leader
    if (location.source == page_source::owned) {
      if (request.mapping == 0 && !location.is_requested)
        lookup.begin(group, simt::constant(state.host_table), request.key);
      location = begin_located_page(group, state, request, location.is_requested, ticket);
      is_full = location.is_full;
      location = share(group, location);
    }
    if (location.source != page_source::retry)
      break;
    if (group.rank() == 0) {
      location.status = wait_one_round(state, request, location.frame, round);
      if (location.status == status::timed_out && is_full)
        location.status = status::busy;
    }
    location = share(group, location);
    if (location.status != status::ok)
      break;
  }
  return location;
}

// Pin the page in the device tier, loading it first if necessary. `whole_target`: the caller's
// memory for the whole page, or nullptr.
template <class Group>
TND_DEVICE inline page_view acquire_page(Group group,
                                         device_state &state,
                                         const page_request &request,
                                         u8 *whole_target) {
  host_lookup<Group> lookup;
  rpc::ticket ticket{rpc::no_slot, 0};
  page_location const location = locate_page(group, state, request, lookup, ticket);
  if (location.status != status::ok)
    return {location.status, tier::no_frame, nullptr, false};
  if (location.source == page_source::no_frame)
    return {status::ok, tier::no_frame, nullptr, false};
  u32 const frame = location.frame;
  u8 *const bytes =
      simt::constant(state.device_frames) + (u64(frame) << simt::constant(state.page_shift));
  if (location.source == page_source::device)
    return {status::ok, frame, bytes, false};
  // Two reasons for this fence in every thread. The key is placed: a writer that changes the host's
  // frame after this fence finds the key and dooms the page, and bytes written before it are
  // visible in the copy. And the frame's version has been raised: a thread that still reads the
  // frame's old page, and loads one of the bytes stored from here on, finds the new version.
  simt::fence_system();
  copy_plan const plan{bytes, whole_target, 0, simt::constant(state.page_size)};
  copy_result const result = fetch_page(
      group, state, request, simt::in_memory(plan), lookup, location.is_requested, ticket);
  if (group.rank() == 0)
    end_page(state, frame, result, whole_target == nullptr);
  return {result.code,
          result.code == status::ok ? frame : tier::no_frame,
          bytes,
          result.code == status::ok && whole_target != nullptr};
}

// Unpin the page once every thread of the group has finished with its bytes.
template <class Group>
TND_DEVICE inline void release_page(Group group, device_state &state, u32 frame) {
  group.sync();
  if (group.rank() == 0)
    simt::constant(state.device_table).release(frame);
}

}  // namespace tanada::gfile::device
