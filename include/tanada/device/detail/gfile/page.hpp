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

// The part of one page in a range of bytes.
struct page_part {
  u64 page;
  u64 offset;  // in the page
  u64 size;
};

// A load over PCIe has a high latency, so a lookup begins as early as possible, and ends when its
// result is needed.
using host_lookup = tier::group_lookup<simt::scope::system>;

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

// A page to a frame and perhaps to a buffer too, or a part of a page to a buffer.
struct copy_plan {
  u8 *frame;   // nullptr: none
  u8 *buffer;  // of the caller; nullptr: none
  u64 offset;  // in the page; 0 with a frame
  u64 size;    // bytes; those of a page with a frame
};

// Where a page's bytes are that the group does not hold itself.
enum class byte_source : u32 {
  mapping,    // the file's own pages
  host_tier,  // a frame that may be replaced during the copy
  loan,       // a frame that the host pins for this request
  window      // the same in the direct window
};

// One page of a call on the long path. It is in memory, and the steps take it by reference: what a
// function keeps in registers across a call adds to the registers of the function that it calls.
struct page_transfer {
  device_state &state;
  any_group group;
  page_request request;
  page_part part;  // the caller's bytes of the page
  u8 *target;      // for these bytes; nullptr: the page is only pinned

  page_location location{status::ok, page_source::retry, tier::no_frame, false};
  u32 round = 0;  // of locate_page()
  tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
  host_lookup lookup{};
  rpc::ticket ticket{rpc::no_slot, 0};                          // leader
  frame_loan loan{status::ok, {rpc::no_slot, 0}, 0, false, 0};  // leader
  tanada::status code = status::ok;

  copy_plan plan{};
  byte_source origin{};
  const u8 *bytes = nullptr;  // the page, in memory that others may be changing
  u64 valid_size = 0;         // how many of the plan's bytes belong to the file
  tier::peek_result host_page{tier::no_frame, 0};
};

TND_DEVICE inline bool is_leader(const page_transfer &t) {
  return t.group.rank() == 0;
}

// The frame of the device tier.
TND_DEVICE inline u8 *frame_bytes(const page_transfer &t) {
  return simt::constant(t.state.device_frames) +
         (u64(t.location.frame) << simt::constant(t.state.page_shift));
}

// Leader only. Pin the page if it is in the device tier.
TND_DEVICE_CALL inline void find_page(page_transfer &t) {
  simt::assume_on_stack(t);
  tier::find_result const result = simt::constant(t.state.device_table).find(t.request.key);
  t.location = {status::ok, page_source::owned, tier::no_frame, false};
  if (result.outcome == tier::find_outcome::absent)
    return;
  bool const is_loading = result.outcome == tier::find_outcome::loading;
  t.location.source = is_loading ? page_source::retry : page_source::device;
  t.location.frame = result.frame;
  if (!is_loading)
    count(&counters::device_hits, t.state, t.request.node);
}

// Leader only. Search the device tier, and request an expected miss from the host at once.
TND_DEVICE_CALL inline void find_or_request(page_transfer &t, u32 round) {
  simt::assume_on_stack(t);
  bool const is_miss_expected = expects_miss(t.state, t.request);
  t.location = {status::ok, page_source::owned, tier::no_frame, false};
  if (round > 0 || t.request.hint == page_hint::unknown)
    find_page(t);
  if (t.location.source == page_source::owned && is_miss_expected)
    t.ticket = request_page(t.state, t.request);
  t.location.is_requested = t.ticket.slot != rpc::no_slot;
}

// Begin the lookup in the host tier.
TND_DEVICE_CALL inline void begin_lookup(page_transfer &t) {
  simt::assume_on_stack(t);
  t.lookup.begin(t.group, simt::constant(t.state.host_table), t.request.key);
}

using device_table = tier::table_ref<simt::scope::device>;

// The lookup of a page in the host tier: each lane loads a way of its set. The loads are in flight
// until find() is called.
class host_page_lookup {
 public:
  TND_DEVICE void begin(device_state &state, u64 key) {
    auto const table = simt::constant(state.host_table);
    first_ = table.set_of(key) * table.shape.ways;
    u32 const lane = simt::whole_warp{}.rank();
    is_way_ = lane < table.shape.ways;
    entry_ =
        simt::load_pair<simt::scope::system>(table.entries[first_ + (is_way_ ? lane : 0)].words);
  }

  TND_DEVICE tier::peek_result find(u64 key) const {
    u32 const lanes = simt::whole_warp{}.mask();
    bool const is_match = is_way_ && entry_.first == key && tier::word::is_readable(entry_.second);
    u32 const matches = simt::ballot(lanes, is_match);
    if (matches == 0)
      return {tier::no_frame, 0};
    u32 const lane = simt::first_bit(matches);
    return {first_ + lane, simt::shuffle(lanes, tier::word::version(entry_.second), lane)};
  }

 private:
  u32 first_ = 0;  // frame of the set
  bool is_way_ = false;
  simt::word_pair entry_{0, 0};
};

// All lanes of a warp take a frame. The result is equal in all of them. `host_page`: receives the
// result of a lookup in the host tier, which is in flight meanwhile; nullptr: none.
TND_DEVICE_CALL inline tier::begin_result claim_by_warp(device_state &state,
                                                        u64 key,
                                                        tier::peek_result *host_page) {
  using claim = tier::warp_claim<simt::scope::device>;
  host_page_lookup lookup;
  if (host_page != nullptr)
    lookup.begin(state, key);
  tier::begin_result const begun = claim::try_begin(simt::constant(state.device_table), key);
  if (host_page != nullptr)
    *host_page = lookup.find(key);
  if (begun.outcome != tier::begin_outcome::undecided)
    return begun;
  return claim::begin_in_leader(simt::constant(state.device_table), key);
}

// What a call does if all frames of a page's set are in use.
enum class frame_need : u32 {
  may_copy,  // it copies the bytes past the device tier
  must_pin   // it takes a frame of another set, or waits for one
};

// One thread, or as many lanes as help, take a frame. The result is valid in the leader.
template <frame_need Need>
TND_DEVICE_CALL tier::begin_result claim_frame(const page_transfer &t) {
  simt::assume_on_stack(t);
  device_table const table = simt::constant(t.state.device_table);
  constexpr bool must_pin = Need == frame_need::must_pin;
  tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
  if (must_pin || t.group.size() < simt::warp_size || !simt::whole_warp::is_possible()) {
    if (is_leader(t))
      begun = must_pin ? table.begin_anywhere(t.request.key) : table.begin(t.request.key);
  } else if (t.group.rank() < simt::warp_size) {
    begun = claim_by_warp(t.state, t.request.key, nullptr);
  }
  return begun;
}

// Leader only. Where the page's bytes come from after claim_frame().
template <frame_need Need>
TND_DEVICE_CALL void use_claim(page_transfer &t) {
  simt::assume_on_stack(t);
  bool const was_requested = t.location.is_requested;
  bool const is_owner = t.begun.outcome == tier::begin_outcome::owner;
  t.location = {status::ok, page_source::retry, tier::no_frame, false};
  if (is_owner) {
    t.location.source = page_source::owned;
    t.location.frame = t.begun.frame;
    if (t.begun.evicted_key != 0)
      count(&counters::device_evictions, t.state, t.request.node);
  } else if (t.begun.outcome == tier::begin_outcome::full) {
    t.location.is_full = true;
    if (Need == frame_need::may_copy) {
      t.location.source = page_source::no_frame;
      count(&counters::uncached_transfers, t.state, t.request.node);
    }
  }
  t.location.is_requested = was_requested && is_owner;
  if (was_requested && !is_owner) {
    simt::constant(t.state.ring).detach(t.ticket, true);
    t.ticket.slot = rpc::no_slot;
  }
}

// Take a frame for a page that is not in the device tier, while a request or the lookup in the host
// tier is in flight. The result is valid in the leader. It detaches a posted request if another
// group loads the page, or if no frame is free.
template <frame_need Need>
TND_DEVICE inline void begin_page(page_transfer &t) {
  t.begun = claim_frame<Need>(t);
  if (is_leader(t))
    use_claim<Need>(t);
  else
    t.location = {status::ok, page_source::retry, tier::no_frame, false};
}

// Broadcast the leader's location; its status is ok, timed_out or busy.
TND_DEVICE_CALL inline void share_location(page_transfer &t) {
  simt::assume_on_stack(t);
  page_location &location = t.location;
  u64 const code = location.status == status::ok ? 0 : location.status == status::busy ? 4 : 1;
  u64 const flags = code | (location.is_requested ? 2 : 0);
  u64 const packed =
      t.group.broadcast(u64(location.frame) << 32 | u64(location.source) << 16 | flags);
  location.status = (packed & 4) != 0   ? status::busy
                    : (packed & 1) != 0 ? status::timed_out
                                        : status::ok;
  location.source = page_source(packed >> 16 & 0xffff);
  location.frame = u32(packed >> 32);
  location.is_requested = (packed & 2) != 0;
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

// Find the page in the device tier, or allocate a frame that this group must fill. If most pages of
// the file are not in the host tier, the page is requested from the host at once.
template <frame_need Need>
TND_DEVICE inline void locate_page(page_transfer &t) {
  for (u32 &round = t.round; t.location.source == page_source::retry; round++) {
    if (is_leader(t))
      find_or_request(t, round);
    share_location(t);
    t.location.is_full = false;
    if (t.location.source == page_source::owned) {
      if (t.request.mapping == 0 && !t.location.is_requested)
        begin_lookup(t);
      begin_page<Need>(t);
      share_location(t);
    }
    if (t.location.source != page_source::retry)
      return;
    if (is_leader(t)) {
      t.location.status = wait_one_round(t.state, t.request, t.location.frame, round);
      if (t.location.status == status::timed_out && t.location.is_full)
        t.location.status = status::busy;
    }
    share_location(t);
    if (t.location.status != status::ok)
      return;
  }
}

// How many of the plan's bytes lie within a file of `file_size` bytes.
TND_DEVICE inline u64 size_in_file(const page_transfer &t, u64 file_size) {
  u64 const begin = (t.request.page_index << simt::constant(t.state.page_shift)) + t.plan.offset;
  u64 const rest = file_size > begin ? file_size - begin : 0;
  return rest < t.plan.size ? rest : t.plan.size;
}

// The file's own pages in host memory, which are read without the CPU.
TND_DEVICE_CALL inline void find_mapped_bytes(page_transfer &t) {
  simt::assume_on_stack(t);
  mapped_range &range = simt::constant(t.state.mapped_ranges)[t.request.mapping - 1];
  u64 const start = simt::device_word<u64>(range.addr).load_relaxed(),
            mapped_size = simt::device_word<u64>(range.size).load_relaxed();
  t.origin = byte_source::mapping;
  t.bytes = reinterpret_cast<const u8 *>(start) +
            (t.request.page_index << simt::constant(t.state.page_shift));
  t.valid_size =
      size_in_file(t, t.request.file_size < mapped_size ? t.request.file_size : mapped_size);
}

// The bytes of a host frame. Those after the end of the file are zero and need not be transferred.
// The size is loaded after the fence that orders a writer against a reader that places the page,
// provided that the file's view is still the same.
TND_DEVICE_CALL inline void find_frame_bytes(page_transfer &t, u32 frame) {
  simt::assume_on_stack(t);
  page_request const &request = t.request;
  t.bytes =
      simt::constant(t.state.host_frames) + (u64(frame) << simt::constant(t.state.page_shift));
  t.valid_size = size_in_file(t, request.file_size);
  if (t.valid_size == t.plan.size)
    return;
  u64 latest_size = 0;
  if (is_leader(t))
    latest_size =
        simt::device_word<u64>(simt::constant(t.state.nodes)[request.node].size).load_relaxed();
  latest_size = t.group.broadcast(latest_size);
  if (is_size_of(latest_size, request.epoch) && size_of_word(latest_size) > request.file_size)
    t.valid_size = size_in_file(t, size_of_word(latest_size));
}

// A frame of the direct window, which the host has filled for the request: bytes of other files
// follow those that the store placed.
TND_DEVICE_CALL inline void find_window_bytes(page_transfer &t, u32 window_frame) {
  simt::assume_on_stack(t);
  u64 valid = 0;
  if (is_leader(t)) {
    valid =
        simt::system_word<u64>(const_cast<u64 &>(simt::constant(t.state.ring).words(t.ticket)[0]))
            .load_relaxed();
    count(&counters::direct_copies, t.state, t.request.node);
  }
  valid = t.group.broadcast(valid);
  t.origin = byte_source::window;
  t.bytes = simt::constant(t.state.window_frames) +
            (u64(window_frame) << simt::constant(t.state.page_shift));
  t.valid_size = valid > t.plan.offset ? valid - t.plan.offset : 0;
}

// Search the host tier, which takes no CPU. Returns false if the page is not there.
TND_DEVICE_CALL inline bool find_in_host_tier(page_transfer &t) {
  simt::assume_on_stack(t);
  tier::peek_result const result =
      t.lookup.finish(t.group, simt::constant(t.state.host_table), t.request.key);
  u64 const packed = t.group.broadcast(u64(result.frame) << 32 | result.version);
  t.host_page = {u32(packed >> 32), u32(packed)};
  if (t.host_page.frame == tier::no_frame)
    return false;
  t.origin = byte_source::host_tier;
  find_frame_bytes(t, t.host_page.frame);
  return true;
}

// The page is not in the host tier.
TND_DEVICE_CALL inline void request_absent(page_transfer &t) {
  simt::assume_on_stack(t);
  t.location.is_requested = true;
  if (!is_leader(t))
    return;
  t.ticket = request_page(t.state, t.request);
  expect_miss(t.state, t.request.node);
}

// Wait for the host's answer to the request, and find the bytes of the frame that it lends.
TND_DEVICE_CALL inline void borrow_bytes(page_transfer &t) {
  simt::assume_on_stack(t);
  if (is_leader(t)) {
    t.loan = borrow_frame(t.state, t.request, t.ticket);
    t.ticket = t.loan.ticket;
  }
  u64 const packed = t.group.broadcast(u64(t.loan.frame) << 32 | u32(int(t.loan.code)));
  t.code = status(int(u32(packed)));
  if (t.code != status::ok) {
    if (is_leader(t))
      count_loan(t.state, t.request, t.loan);
    return;
  }
  u32 const frame = u32(packed >> 32),
            host_frames = simt::constant(t.state.host_table).shape.frame_count();
  t.origin = byte_source::loan;
  if (frame < host_frames)
    find_frame_bytes(t, frame);
  else
    find_window_bytes(t, frame - host_frames);
}

// Find the page in the tier or mapping that has it. A page that the group does not hold can be
// replaced during the copy: see check_copy().
TND_DEVICE_CALL inline void find_bytes(page_transfer &t) {
  simt::assume_on_stack(t);
  if (t.request.mapping != 0)
    return find_mapped_bytes(t);
  if (!t.location.is_requested) {
    if (find_in_host_tier(t))
      return;
    request_absent(t);
  }
  borrow_bytes(t);
}

// Copy the plan's bytes, and fill the rest with zeros.
TND_DEVICE_CALL inline void copy_planned(const page_transfer &t) {
  simt::assume_on_stack(t);
  u64 const size = t.valid_size < t.plan.size ? t.valid_size : t.plan.size;
  if (t.plan.frame != nullptr)
    return simt::fill_frame(t.group, {t.plan.frame, t.plan.buffer, t.bytes, size, t.plan.size});
  simt::copy_ragged(t.group, t.plan.buffer, t.bytes + t.plan.offset, size);
  if (size < t.plan.size)
    simt::fill_zero(t.group, t.plan.buffer + size, t.plan.size - size);
}

// After the copy: returns false if the page was replaced meanwhile. The targets' bytes are then
// void, and the page has been requested from the host.
TND_DEVICE_CALL inline bool check_copy(page_transfer &t) {
  simt::assume_on_stack(t);
  t.group.sync();
  bool is_valid = true;
  if (is_leader(t)) {
    if (t.origin == byte_source::mapping) {
      count(&counters::mapped_copies, t.state, t.request.node);
    } else if (t.origin == byte_source::host_tier) {
      simt::fence_loads();
      is_valid = simt::constant(t.state.host_table)
                     .is_unchanged(t.host_page.frame, t.request.key, t.host_page.version);
      if (is_valid)
        count(&counters::host_hits, t.state, t.request.node);
    } else {
      count_loan(t.state, t.request, t.loan);
    }
  }
  if (t.origin == byte_source::host_tier)
    is_valid = t.group.broadcast(u32(is_valid ? 1 : 0)) != 0;
  if (!is_valid)
    request_absent(t);
  return is_valid;
}

// Publish the owned frame if the copy succeeded, otherwise abandon it. Return the host's frame.
// Leader only.
TND_DEVICE_CALL inline void end_page(page_transfer &t) {
  simt::assume_on_stack(t);
  auto const table = simt::constant(t.state.device_table);
  bool const has_loan = t.ticket.slot != rpc::no_slot;
  u32 const frame = t.location.frame;
  if (t.plan.frame != nullptr || has_loan)
    simt::fence_system();
  if (t.plan.frame != nullptr && t.code != status::ok)
    table.abandon(frame);
  else if (t.plan.frame != nullptr && t.plan.buffer == nullptr)
    table.publish_after_fence(frame, tier::page_state::ready);
  else if (t.plan.frame != nullptr)
    table.publish_and_release_after_fence(frame, tier::page_state::ready);
  if (has_loan)
    simt::constant(t.state.ring).finish_after_fence(t.ticket, false);
}

// Plan what is copied of a page that is not in the device tier: the page to its frame, and also to
// the caller's memory if it wants the whole page; or a part to the caller's memory, if no frame is
// free.
TND_DEVICE_CALL inline void plan_copy(page_transfer &t) {
  simt::assume_on_stack(t);
  u64 const page_size = simt::constant(t.state.page_size);
  if (t.location.source == page_source::no_frame) {
    t.plan = {nullptr, t.target, t.part.offset, t.part.size};
    if (t.request.mapping == 0)
      begin_lookup(t);
    return;
  }
  bool const is_whole = t.part.size == page_size && (reinterpret_cast<u64>(t.target) & 15) == 0;
  t.plan = {frame_bytes(t), is_whole ? t.target : nullptr, 0, page_size};
  // Two reasons for this fence in every thread. The key is placed: a writer that changes the host's
  // frame after this fence finds the key and dooms the page, and bytes written before it are
  // visible in the copy. And the frame's version has been raised: a thread that still reads the
  // frame's old page, and loads one of the bytes stored from here on, finds the new version.
  simt::fence_system();
}

// Copy what plan_copy() has planned, from the tier or mapping that has the page.
TND_DEVICE inline void fetch_page(page_transfer &t) {
  do {
    find_bytes(t);
    if (t.code != status::ok)
      break;
    copy_planned(t);
  } while (!check_copy(t));
  if (is_leader(t))
    end_page(t);
}

// Copy the part from the pinned frame.
TND_DEVICE_CALL inline void copy_pinned(const page_transfer &t) {
  simt::assume_on_stack(t);
  simt::copy_ragged(t.group, t.target, frame_bytes(t) + t.part.offset, t.part.size);
}

// Unpin the page once every thread of the group has finished with its bytes.
TND_DEVICE_CALL inline void release_page(const page_transfer &t) {
  simt::assume_on_stack(t);
  t.group.sync();
  if (is_leader(t))
    simt::constant(t.state.device_table).release(t.location.frame);
}

// Copy the part of the page to the target. Without a target the page stays pinned in the device
// tier.
template <frame_need Need>
TND_DEVICE inline status transfer_page(page_transfer &t) {
  locate_page<Need>(t);
  if (t.location.status != status::ok)
    return t.location.status;
  if (t.location.source != page_source::device) {
    plan_copy(t);
    fetch_page(t);
    if (t.code != status::ok || t.plan.buffer != nullptr)
      return t.code;
  }
  t.group.sync();
  if (t.target != nullptr) {
    copy_pinned(t);
    release_page(t);
  }
  return status::ok;
}

}  // namespace tanada::gfile::device
