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

// A gread whose bytes are not in the device tier. It is in memory, as a page_transfer is.
struct read_call {
  gfile_ref files;
  any_group group;
  int fd;
  void *buffer;
  u64 offset, size;
  read_view view;  // the leader's view of the file, if it is known
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

// A read of one page by the short path. It is in memory, as a page_transfer is. Functions that call
// others leave loads and stores to them: these take registers across the calls.
struct short_read {
  device_state &state;
  u32 node;
  u64 page, key;
  u8 *buffer;
  u64 timeout_ns;

  tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
  tier::peek_result host_page{tier::no_frame, 0};
  rpc::ticket ticket{rpc::no_slot, 0};     // leader
  miss_answer answer{{status::ok, 0}, 0};  // leader
};

// Leader only. End a request whose page is not copied, and give up the frame.
TND_DEVICE_CALL inline void abandon_miss(const short_read &read) {
  simt::assume_on_stack(read);
  rpc::reply const reply = read.answer.reply;
  simt::constant(read.state.device_table).abandon(read.begun.frame);
  if (reply.value != rpc::no_answer)
    simt::constant(read.state.ring).finish(read.ticket, false);
  if (reply.code == status::ok)
    expect(read.state, read.node, miss_expectation::windowed);
}

// Leader only, after the copy: publish the frame, and count.
TND_DEVICE_CALL inline counters &end_copy(const short_read &read) {
  simt::assume_on_stack(read);
  device_state &state = read.state;
  simt::fence_system();  // the bytes that all lanes have stored come before the word
  simt::constant(state.device_table)
      .publish_and_release_after_fence(read.begun.frame, tier::page_state::ready);
  counters &sums = counters_of(state, read.node);
  (void)simt::device_word<u64>(sums.read_size).fetch_add_relaxed(simt::constant(state.page_size));
  if (read.begun.evicted_key != 0)
    (void)simt::device_word<u64>(sums.device_evictions).fetch_add_relaxed(1);
  return sums;
}

// Leader only, after the copy: publish the frame, return the host's, and count.
TND_DEVICE_CALL inline void end_miss(const short_read &read) {
  simt::assume_on_stack(read);
  counters &sums = end_copy(read);
  simt::constant(read.state.ring).finish_after_fence(read.ticket, false);
  bool const at_once = (read.answer.reply.value & granted_at_once) != 0;
  (void)simt::device_word<u64>(at_once ? sums.host_hits : sums.misses).fetch_add_relaxed(1);
  if (at_once)
    expect(read.state, read.node, miss_expectation::hit);
  else
    count_wait(read.state, read.answer.wait_ns);
}

// Leader only.
TND_DEVICE_CALL inline void wait_for_answer(short_read &read) {
  simt::assume_on_stack(read);
  u64 const start_ns = simt::now_ns();
  rpc::reply const reply =
      simt::constant(read.state.ring).wait(read.ticket, deadline_of(read.timeout_ns));
  read.answer = {reply, simt::now_ns() - start_ns};
}

TND_DEVICE_CALL inline void copy_missing_page(const short_read &read, u32 host_frame) {
  simt::assume_on_stack(read);
  device_state &state = read.state;
  u32 const shift = simt::constant(state.page_shift);
  u8 *const target = simt::constant(state.device_frames) + (u64(read.begun.frame) << shift);
  const u8 *const source = simt::constant(state.host_frames) + (u64(host_frame) << shift);
  u64 const page_size = simt::constant(state.page_size);
  simt::fill_frame(simt::whole_warp{}, {target, read.buffer, source, page_size, page_size});
}

// Other frames are those of the direct window.
TND_DEVICE_CALL inline bool is_of_host_tier(const short_read &read, u32 frame) {
  simt::assume_on_stack(read);
  return frame < simt::constant(read.state.host_table).shape.frame_count();
}

// Wait for the answer to the request of the ticket, and copy the page to the frame and the buffer.
TND_DEVICE inline miss_outcome finish_miss(short_read &read) {
  simt::whole_warp const warp{};
  if (warp.rank() == 0)
    wait_for_answer(read);
  rpc::reply const &reply = read.answer.reply;
  u64 const packed = warp.broadcast(u64(u32(int(reply.code))) << 32 | reply.value);
  status const code = status(int(u32(packed >> 32)));
  u32 const frame = u32(packed) & ~granted_at_once;
  if (code != status::ok || !is_of_host_tier(read, frame)) {
    if (warp.rank() == 0)
      abandon_miss(read);
    return {code != status::ok, code};
  }
  copy_missing_page(read, frame);
  warp.sync();
  if (warp.rank() == 0)
    end_miss(read);
  return {true, status::ok};
}

TND_DEVICE inline bool is_short_miss(const read_call &call) {
  device_state &state = state_of(call.files);
  read_view const &view = call.view;
  u64 const page_size = simt::constant(state.page_size), file_size = view.file_size();
  bool const is_staged = view.is_known() && !view.is_windowed() && simt::whole_warp::is_possible();
  u64 const skew = (call.offset & (page_size - 1)) | (reinterpret_cast<u64>(call.buffer) & 15);
  return is_staged && call.size == page_size && skew == 0 && file_size >= page_size &&
         call.offset <= file_size - page_size;
}

// Request the page. The ticket's slot is no_slot if that at which this warp starts is in use.
// Returns false then. `is_surprise`: the page was expected to be in the host tier.
TND_DEVICE_CALL inline bool request_at_home(short_read &read, bool is_surprise) {
  simt::assume_on_stack(read);
  simt::whole_warp const warp{};
  rpc::ring_ref const ring = simt::constant(read.state.ring);
  if (warp.rank() == 0) {
    read.ticket = ring.try_claim_home();
    if (read.ticket.slot != rpc::no_slot)
      ring.post_short(read.ticket, u32(op::read), read.node, read.page, 1);
    if (is_surprise)
      expect_miss(read.state, read.node);
  }
  return warp.broadcast(read.ticket.slot) != rpc::no_slot;
}

// Leader only, after the copy of a page of the host tier: returns false if it was replaced
// meanwhile. Otherwise publish the frame, and count.
TND_DEVICE_CALL inline bool end_host_copy(const short_read &read) {
  simt::assume_on_stack(read);
  simt::fence_loads();
  bool const is_unchanged =
      simt::constant(read.state.host_table)
          .is_unchanged(read.host_page.frame, read.key, read.host_page.version);
  if (is_unchanged)
    (void)simt::device_word<u64>(end_copy(read).host_hits).fetch_add_relaxed(1);
  return is_unchanged;
}

// Copy a page of the host tier to the frame and the buffer. Returns false if it was replaced during
// the copy; the bytes are then void.
TND_DEVICE inline bool copy_host_page(const short_read &read) {
  simt::whole_warp const warp{};
  copy_missing_page(read, read.host_page.frame);
  warp.sync();
  bool is_unchanged = false;
  if (warp.rank() == 0)
    is_unchanged = end_host_copy(read);
  return warp.broadcast(u32(is_unchanged ? 1 : 0)) != 0;
}

// What is to be done for the page next.
enum class miss_step : u32 {
  leave,  // nothing has happened, the long path is needed
  copy,   // from the host tier
  wait    // for the answer to the request
};

// A page of a file whose last page was in the host tier. The lookup there is in flight while the
// warp takes a frame.
TND_DEVICE_CALL inline miss_step begin_host_page(short_read &read) {
  simt::assume_on_stack(read);
  read.begun = claim_by_warp(read.state, read.key, &read.host_page);
  if (read.begun.outcome != tier::begin_outcome::owner)
    return miss_step::leave;
  simt::fence_system();  // as in plan_copy()
  return miss_step::copy;
}

// A page of a file whose last page was in neither tier. The request is posted first.
TND_DEVICE_CALL inline miss_step begin_missing_page(short_read &read) {
  simt::assume_on_stack(read);
  if (!request_at_home(read, false))
    return miss_step::leave;
  read.begun = claim_by_warp(read.state, read.key, nullptr);
  if (read.begun.outcome == tier::begin_outcome::owner) {
    simt::fence_system();  // as in plan_copy()
    return miss_step::wait;
  }
  if (simt::whole_warp{}.rank() == 0)
    simt::constant(read.state.ring).detach(read.ticket, true);
  return miss_step::leave;
}

// The page is not in the host tier: request it, or give up the frame.
TND_DEVICE_CALL inline miss_step request_absent_page(short_read &read) {
  simt::assume_on_stack(read);
  if (request_at_home(read, true))
    return miss_step::wait;
  if (simt::whole_warp{}.rank() == 0)
    simt::constant(read.state.device_table).abandon(read.begun.frame);
  return miss_step::leave;
}

TND_DEVICE_CALL inline short_read short_read_of(const read_call &call) {
  simt::assume_on_stack(call);
  device_state &state = state_of(call.files);
  u64 const page = call.offset >> simt::constant(state.page_shift);
  return {state,
          call.view.node(),
          page,
          tier::page_key(call.view.file_key(), page),
          static_cast<u8 *>(call.buffer),
          call.files.timeout_ns};
}

// The short path of a page for which is_short_miss() holds.
TND_DEVICE_CALL inline miss_outcome read_by_warp(const read_call &call) {
  simt::assume_on_stack(call);
  short_read page_read = short_read_of(call);
  short_read &read = simt::in_memory(page_read);
  miss_step step = call.view.expects_miss() ? begin_missing_page(read) : begin_host_page(read);
  if (step == miss_step::copy) {
    if (read.host_page.frame != tier::no_frame && copy_host_page(read))
      return {true, status::ok};
    step = request_absent_page(read);
  }
  return step == miss_step::wait ? finish_miss(read) : miss_outcome{false, status::ok};
}

}  // namespace tanada::gfile::device
