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
  read_view view;  // the leader's view of the file, if it is known
};

struct miss_outcome {
  bool is_done;  // false: nothing has happened, the long path is needed
  tanada::status status;
};

// A read of one page by the short path. It is in memory, as a page_transfer is.
struct short_read {
  device_state &state;
  u32 node;
  u64 page, key;
  u8 *buffer;
  u64 timeout_ns;

  tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
  rpc::ticket ticket{rpc::no_slot, 0};  // leader
};

// What the leader learns from the host.
struct miss_answer {
  rpc::reply reply;
  u64 wait_ns;
};

// Leader only. End a request whose page is not copied, and give up the frame.
TND_DEVICE_CALL inline void abandon_miss(const short_read &read, rpc::reply reply) {
  simt::constant(read.state.device_table).abandon(read.begun.frame);
  if (reply.value != rpc::no_answer)
    simt::constant(read.state.ring).finish(read.ticket, false);
  if (reply.code == status::ok)
    expect(read.state, read.node, miss_expectation::windowed);
}

// Leader only, after the copy: publish the frame, and count.
TND_DEVICE inline counters &end_copy(const short_read &read) {
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
TND_DEVICE inline void end_miss(const short_read &read, const miss_answer &answer) {
  counters &sums = end_copy(read);
  simt::constant(read.state.ring).finish_after_fence(read.ticket, false);
  bool const at_once = (answer.reply.value & granted_at_once) != 0;
  (void)simt::device_word<u64>(at_once ? sums.host_hits : sums.misses).fetch_add_relaxed(1);
  if (at_once)
    expect(read.state, read.node, miss_expectation::hit);
  else
    count_wait(read.state, answer.wait_ns);
}

// Leader only.
TND_DEVICE inline miss_answer wait_for_answer(const short_read &read) {
  u64 const start_ns = simt::now_ns();
  rpc::reply const reply =
      simt::constant(read.state.ring).wait(read.ticket, deadline_of(read.timeout_ns));
  return {reply, simt::now_ns() - start_ns};
}

TND_DEVICE inline void copy_missing_page(const short_read &read, u64 host_frame) {
  device_state &state = read.state;
  u32 const shift = simt::constant(state.page_shift);
  u8 *const target = simt::constant(state.device_frames) + (u64(read.begun.frame) << shift);
  const u8 *const source = simt::constant(state.host_frames) + (host_frame << shift);
  u64 const page_size = simt::constant(state.page_size);
  simt::fill_frame(simt::whole_warp{}, {target, read.buffer, source, page_size, page_size});
}

// Wait for the answer to the request of the ticket, and copy the page to the frame and the buffer.
TND_DEVICE_CALL inline miss_outcome finish_miss(const short_read &read) {
  simt::whole_warp const warp{};
  miss_answer answer{{status::ok, 0}, 0};
  if (warp.rank() == 0)
    answer = wait_for_answer(read);
  u64 const packed = warp.broadcast(u64(u32(int(answer.reply.code))) << 32 | answer.reply.value);
  status const code = status(int(u32(packed >> 32)));
  u32 const frame = u32(packed) & ~granted_at_once;
  if (code != status::ok || frame >= simt::constant(read.state.host_table).shape.frame_count()) {
    if (warp.rank() == 0)
      abandon_miss(read, answer.reply);
    return {code != status::ok, code};
  }
  copy_missing_page(read, frame);
  warp.sync();
  if (warp.rank() == 0)
    end_miss(read, answer);
  return {true, status::ok};
}

TND_DEVICE inline bool is_short_miss(device_state &state, const read_call &call) {
  read_view const &view = call.view;
  u64 const page_size = simt::constant(state.page_size), file_size = view.file_size();
  bool const is_staged = view.is_known() && !view.is_windowed() && simt::whole_warp::is_possible();
  u64 const skew = (call.offset & (page_size - 1)) | (reinterpret_cast<u64>(call.buffer) & 15);
  return is_staged && call.size == page_size && skew == 0 && file_size >= page_size &&
         call.offset <= file_size - page_size;
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

// Request the page. The ticket's slot is no_slot if that at which this warp starts is in use.
// Returns false then.
TND_DEVICE inline bool request_at_home(short_read &read) {
  simt::whole_warp const warp{};
  rpc::ring_ref const ring = simt::constant(read.state.ring);
  if (warp.rank() == 0) {
    read.ticket = ring.try_claim_home();
    if (read.ticket.slot != rpc::no_slot)
      ring.post_short(read.ticket, u32(op::read), read.node, read.page, 1);
  }
  return warp.broadcast(read.ticket.slot) != rpc::no_slot;
}

// Copy a page of the host tier to the frame and the buffer. Returns false if it was replaced during
// the copy; the bytes are then void.
TND_DEVICE inline bool copy_host_page(const short_read &read, const tier::peek_result &page) {
  simt::whole_warp const warp{};
  copy_missing_page(read, page.frame);
  warp.sync();
  bool is_unchanged = false;
  if (warp.rank() == 0) {
    simt::fence_loads();
    is_unchanged =
        simt::constant(read.state.host_table).is_unchanged(page.frame, read.key, page.version);
    if (is_unchanged)
      (void)simt::device_word<u64>(end_copy(read).host_hits).fetch_add_relaxed(1);
  }
  return warp.broadcast(u32(is_unchanged ? 1 : 0)) != 0;
}

// The page is not in the host tier: request it, or give up the frame.
TND_DEVICE_CALL inline miss_outcome read_absent_page(short_read &read) {
  bool const is_leader = simt::whole_warp{}.rank() == 0;
  bool const is_requested = request_at_home(read);
  if (is_leader)
    expect_miss(read.state, read.node);
  if (is_requested)
    return finish_miss(read);
  if (is_leader)
    simt::constant(read.state.device_table).abandon(read.begun.frame);
  return {false, status::ok};
}

// A page of a file whose last page was in the host tier. The lookup there is in flight while the
// warp takes a frame.
TND_DEVICE_CALL inline miss_outcome read_host_page(short_read &read) {
  host_page_lookup lookup;
  lookup.begin(read.state, read.key);
  read.begun = tier::warp_claim<simt::scope::device>::begin_at_once(
      simt::constant(read.state.device_table), read.key);
  if (read.begun.outcome != tier::begin_outcome::owner)
    return {false, status::ok};
  simt::fence_system();  // as in plan_copy()
  tier::peek_result const host_page = lookup.find(read.key);
  if (host_page.frame != tier::no_frame && copy_host_page(read, host_page))
    return {true, status::ok};
  return read_absent_page(read);
}

// A page of a file whose last page was in neither tier. The request is posted first.
TND_DEVICE_CALL inline miss_outcome read_missing_page(short_read &read) {
  if (!request_at_home(read))
    return {false, status::ok};
  read.begun = tier::warp_claim<simt::scope::device>::begin(simt::constant(read.state.device_table),
                                                            read.key);
  if (read.begun.outcome != tier::begin_outcome::owner) {
    if (simt::whole_warp{}.rank() == 0)
      simt::constant(read.state.ring).detach(read.ticket, true);
    return {false, status::ok};
  }
  simt::fence_system();  // as in plan_copy()
  return finish_miss(read);
}

// The short path of a page for which is_short_miss() holds.
TND_DEVICE inline miss_outcome read_by_warp(device_state &state,
                                            const read_call &call,
                                            u64 timeout_ns) {
  u64 const page = call.offset >> simt::constant(state.page_shift);
  short_read page_read{state,
                       call.view.node(),
                       page,
                       tier::page_key(call.view.file_key(), page),
                       static_cast<u8 *>(call.buffer),
                       timeout_ns};
  short_read &read = simt::in_memory(page_read);
  return call.view.expects_miss() ? read_missing_page(read) : read_host_page(read);
}

}  // namespace tanada::gfile::device
