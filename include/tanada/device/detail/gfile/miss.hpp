// tanada/device/detail/gfile/miss.hpp: the short path of a warp that reads a whole page which is
// not in the device tier.
//
// The time of a miss is that of its instructions as much as that of its waits, so this path has few
// of them. If the file's last miss was one of the host tier too, it posts the request first.
// Otherwise it begins with the lookup in the host tier. While the answer is on its way it takes a
// frame. Whatever it does not expect it leaves to the long path.
#pragma once

#include "page.hpp"
#include "resident.hpp"

namespace tanada::gfile::device {

struct read_call {
  int fd;
  void *buffer;
  u64 offset, size;
};

struct miss_outcome {
  bool is_done;  // false: nothing has happened, the long path is needed
  tanada::status status;
};

// What the leader learns from the host.
struct miss_answer {
  rpc::reply reply;
  u64 wait_ns;
};

// Leader only. End a request whose page is not copied, and give up the frame.
TND_DEVICE_CALL inline void abandon_miss(device_state &state,
                                         u32 frame,
                                         rpc::ticket ticket,
                                         rpc::reply reply) {
  simt::constant(state.device_table).abandon(frame);
  if (reply.value != rpc::no_answer)
    simt::constant(state.ring).finish(ticket, false);
}

// Leader only, after the copy: publish the frame, and count.
TND_DEVICE inline counters &end_copy(device_state &state,
                                     u32 node,
                                     const tier::begin_result &begun) {
  simt::fence_system();  // the bytes that all lanes have stored come before the word
  simt::constant(state.device_table)
      .publish_and_release_after_fence(begun.frame, tier::page_state::ready);
  counters &sums = counters_of(state, node);
  (void)simt::device_word<u64>(sums.read_size).fetch_add_relaxed(simt::constant(state.page_size));
  if (begun.evicted_key != 0)
    (void)simt::device_word<u64>(sums.device_evictions).fetch_add_relaxed(1);
  return sums;
}

// Leader only, after the copy: publish the frame, return the host's, and count.
TND_DEVICE inline void end_miss(device_state &state,
                                u32 node,
                                const tier::begin_result &begun,
                                rpc::ticket ticket,
                                const miss_answer &answer) {
  counters &sums = end_copy(state, node, begun);
  simt::constant(state.ring).finish_after_fence(ticket, false);
  bool const at_once = (answer.reply.value & granted_at_once) != 0;
  (void)simt::device_word<u64>(at_once ? sums.host_hits : sums.misses).fetch_add_relaxed(1);
  if (at_once)
    expect(state, node, miss_expectation::hit);
  else
    count_wait(state, answer.wait_ns);
}

// Leader only.
TND_DEVICE inline miss_answer wait_for_answer(device_state &state,
                                              rpc::ticket ticket,
                                              u64 timeout_ns) {
  u64 const start_ns = simt::now_ns();
  rpc::reply const reply = simt::constant(state.ring).wait(ticket, deadline_of(timeout_ns));
  return {reply, simt::now_ns() - start_ns};
}

TND_DEVICE inline void copy_missing_page(device_state &state,
                                         u32 frame,
                                         u64 host_frame,
                                         u8 *buffer) {
  u32 const shift = simt::constant(state.page_shift);
  u8 *const target = simt::constant(state.device_frames) + (u64(frame) << shift);
  const u8 *const source = simt::constant(state.host_frames) + (host_frame << shift);
  u64 const page_size = simt::constant(state.page_size);
  simt::fill_frame(simt::whole_warp{}, {target, buffer, source, page_size, page_size});
}

// Wait for the answer to the request of `ticket`, and copy the page to the frame and the buffer.
TND_DEVICE inline miss_outcome finish_miss(device_state &state,
                                           u32 node,
                                           const tier::begin_result &begun,
                                           rpc::ticket ticket,
                                           u8 *buffer,
                                           u64 timeout_ns) {
  simt::whole_warp const warp{};
  miss_answer answer{{status::ok, 0}, 0};
  if (warp.rank() == 0)
    answer = wait_for_answer(state, ticket, timeout_ns);
  status const code = status(int(warp.broadcast(u32(int(answer.reply.code)))));
  u64 const frame = warp.broadcast(answer.reply.value) & ~granted_at_once;
  if (code != status::ok || frame >= simt::constant(state.host_table).shape.frame_count()) {
    if (warp.rank() == 0)
      abandon_miss(state, begun.frame, ticket, answer.reply);
    if (code == status::ok && warp.rank() == 0)
      expect(state, node, miss_expectation::windowed);
    return {code != status::ok, code};
  }
  copy_missing_page(state, begun.frame, frame, buffer);
  warp.sync();
  if (warp.rank() == 0)
    end_miss(state, node, begun, ticket, answer);
  return {true, status::ok};
}

// Only warps take this path.
template <class Group>
TND_DEVICE inline miss_outcome read_missing_page(
    Group, device_state &, const read_call &, const read_view &, u64) {
  return {false, status::ok};
}

TND_DEVICE inline bool is_short_miss(device_state &state,
                                     const read_call &call,
                                     const read_view &view) {
  u64 const page_size = simt::constant(state.page_size), file_size = view.file_size();
  bool const is_staged = view.is_known() && !view.is_windowed() && simt::whole_warp::is_possible();
  u64 const skew = (call.offset & (page_size - 1)) | (reinterpret_cast<u64>(call.buffer) & 15);
  return is_staged && call.size == page_size && skew == 0 && file_size >= page_size &&
         call.offset <= file_size - page_size;
}

// Request the page. The slot is no_slot if that at which this warp starts is in use.
TND_DEVICE inline rpc::ticket request_at_home(device_state &state, u32 node, u64 page) {
  rpc::ring_ref const ring = simt::constant(state.ring);
  rpc::ticket ticket{rpc::no_slot, 0};
  if (simt::whole_warp{}.rank() == 0)
    ticket = ring.try_claim_home();
  if (ticket.slot != rpc::no_slot)
    ring.post_short(ticket, u32(op::read), node, page, 1);
  return ticket;
}

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

// A read of one page by the short path.
struct short_read {
  u32 node;
  u64 page, key;
  u8 *buffer;
};

// Copy a page of the host tier to the frame and the buffer. Returns false if it was replaced during
// the copy; the bytes are then void.
TND_DEVICE inline bool copy_host_page(device_state &state,
                                      const short_read &read,
                                      const tier::peek_result &page,
                                      const tier::begin_result &begun) {
  simt::whole_warp const warp{};
  copy_missing_page(state, begun.frame, page.frame, read.buffer);
  warp.sync();
  bool is_unchanged = false;
  if (warp.rank() == 0) {
    simt::fence_loads();
    is_unchanged =
        simt::constant(state.host_table).is_unchanged(page.frame, read.key, page.version);
    if (is_unchanged)
      (void)simt::device_word<u64>(end_copy(state, read.node, begun).host_hits)
          .fetch_add_relaxed(1);
  }
  return warp.broadcast(u32(is_unchanged ? 1 : 0)) != 0;
}

// The page is not in the host tier: request it, or give up the frame.
TND_DEVICE_CALL inline miss_outcome read_absent_page(device_state &state,
                                                     const short_read &read,
                                                     const tier::begin_result &begun,
                                                     u64 timeout_ns) {
  simt::whole_warp const warp{};
  rpc::ticket const ticket = request_at_home(state, read.node, read.page);
  bool const is_leader = warp.rank() == 0;
  if (is_leader)
    expect_miss(state, read.node);
  if (warp.broadcast(ticket.slot) != rpc::no_slot)
    return finish_miss(state, read.node, begun, ticket, read.buffer, timeout_ns);
  if (is_leader)
    simt::constant(state.device_table).abandon(begun.frame);
  return {false, status::ok};
}

// Only warps take this path.
template <class Group>
TND_DEVICE inline miss_outcome read_host_page(
    Group, device_state &, const read_call &, const read_view &, u64) {
  return {false, status::ok};
}

// A page of a file whose last page was in the host tier. The lookup there is in flight while the
// warp takes a frame.
TND_DEVICE inline miss_outcome read_host_page(
    this_warp, device_state &state, const read_call &call, const read_view &view, u64 timeout_ns) {
  if (!is_short_miss(state, call, view))
    return {false, status::ok};
  u64 const page = call.offset >> simt::constant(state.page_shift);
  short_read const read{
      view.node(), page, tier::page_key(view.file_key(), page), static_cast<u8 *>(call.buffer)};
  host_page_lookup lookup;
  lookup.begin(state, read.key);
  tier::begin_result const begun = tier::warp_claim<simt::scope::device>::begin_at_once(
      simt::constant(state.device_table), read.key);
  if (begun.outcome != tier::begin_outcome::owner)
    return {false, status::ok};
  simt::fence_system();  // as in acquire_page()
  tier::peek_result const host_page = lookup.find(read.key);
  if (host_page.frame != tier::no_frame && copy_host_page(state, read, host_page, begun))
    return {true, status::ok};
  return read_absent_page(state, simt::in_memory(read), simt::in_memory(begun), timeout_ns);
}

// A page of a file whose last page was in neither tier. The request is posted first.
TND_DEVICE inline miss_outcome read_missing_page(
    this_warp, device_state &state, const read_call &call, const read_view &view, u64 timeout_ns) {
  if (!is_short_miss(state, call, view))
    return {false, status::ok};
  simt::whole_warp const warp{};
  u64 const page = call.offset >> simt::constant(state.page_shift);
  rpc::ticket const ticket = request_at_home(state, view.node(), page);
  if (warp.broadcast(ticket.slot) == rpc::no_slot)
    return {false, status::ok};
  tier::begin_result const begun = tier::warp_claim<simt::scope::device>::begin(
      simt::constant(state.device_table), tier::page_key(view.file_key(), page));
  if (begun.outcome != tier::begin_outcome::owner) {
    if (warp.rank() == 0)
      simt::constant(state.ring).detach(ticket, true);
    return {false, status::ok};
  }
  simt::fence_system();  // as in acquire_page()
  return finish_miss(state, view.node(), begun, ticket, static_cast<u8 *>(call.buffer), timeout_ns);
}

}  // namespace tanada::gfile::device
