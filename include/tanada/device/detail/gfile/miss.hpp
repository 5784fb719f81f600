// tanada/device/detail/gfile/miss.hpp: the short path of a miss: a warp that reads a whole page of
// a file whose last miss was one of the host tier too.
//
// The time of a miss is that of its instructions as much as that of its waits, so this path has few
// of them. It posts the request first. While the answer is on its way it takes a frame. Whatever it
// does not expect it leaves to the long path.
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

// Leader only, after the copy: publish the frame, return the host's, and count.
TND_DEVICE inline void end_miss(device_state &state,
                                u32 node,
                                const tier::begin_result &begun,
                                rpc::ticket ticket,
                                const miss_answer &answer) {
  simt::fence_system();  // the bytes that all lanes have stored come before the two words
  simt::constant(state.device_table)
      .publish_and_release_after_fence(begun.frame, tier::page_state::ready);
  simt::constant(state.ring).finish_after_fence(ticket, false);
  counters &sums = counters_of(state, node);
  bool const at_once = (answer.reply.value & granted_at_once) != 0;
  (void)simt::device_word<u64>(at_once ? sums.host_hits : sums.misses).fetch_add_relaxed(1);
  (void)simt::device_word<u64>(sums.read_size).fetch_add_relaxed(simt::constant(state.page_size));
  if (begun.evicted_key != 0)
    (void)simt::device_word<u64>(sums.device_evictions).fetch_add_relaxed(1);
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
  bool const is_expected =
      view.is_known() && view.expects_miss() && simt::whole_warp::is_possible();
  u64 const skew = (call.offset & (page_size - 1)) | (reinterpret_cast<u64>(call.buffer) & 15);
  return is_expected && call.size == page_size && skew == 0 && file_size >= page_size &&
         call.offset <= file_size - page_size;
}

TND_DEVICE inline miss_outcome read_missing_page(
    this_warp, device_state &state, const read_call &call, const read_view &view, u64 timeout_ns) {
  if (!is_short_miss(state, call, view))
    return {false, status::ok};
  simt::whole_warp const warp{};
  u64 const page = call.offset >> simt::constant(state.page_shift);
  rpc::ring_ref const ring = simt::constant(state.ring);
  rpc::ticket ticket{rpc::no_slot, 0};
  if (warp.rank() == 0)
    ticket = ring.try_claim_home();
  if (ticket.slot != rpc::no_slot)
    ring.post_short(ticket, u32(op::read), view.node(), page, 1);
  if (warp.broadcast(ticket.slot) == rpc::no_slot)
    return {false, status::ok};
  tier::begin_result const begun = tier::warp_claim<simt::scope::device>::begin(
      simt::constant(state.device_table), tier::page_key(view.file_key(), page));
  if (begun.outcome != tier::begin_outcome::owner) {
    if (warp.rank() == 0)
      ring.detach(ticket, true);
    return {false, status::ok};
  }
  simt::fence_system();  // as in acquire_page()
  return finish_miss(state, view.node(), begun, ticket, static_cast<u8 *>(call.buffer), timeout_ns);
}

}  // namespace tanada::gfile::device
