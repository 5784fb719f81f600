// tanada/device/detail/gfile/page_list.hpp: rows whose pages a warp requests together, by one
// request for up to 32 pages anywhere in a file.
//
// The host reads the pages into an area of host memory that it lends to the warp. A writer does not
// change an area as it changes a frame of the host tier. So a warp takes the pages' frames in the
// device tier first: a writer that begins later finds their keys there, and the host refuses lists
// of files that are open for writing. No warp waits for another one while it has frames or an area.
#pragma once

#include "transfer.hpp"

namespace tanada::gfile::device {

struct row_list {
  const u64 *numbers;
  u64 count;
  u64 row_size;  // bytes
};

// What a gread_rows copies, and where to.
struct row_gather {
  range_check file;
  row_list rows;
  u8 *buffer;
  u64 deadline_ns;
};

// Lane i has the page at position i, and the frame that was taken for it.
struct page_list {
  u32 count = 0;
  u64 page = 0;
  u32 frame = tier::no_frame;
};

// The area that an answer lends, with the page of position i at i * page_size.
struct area_loan {
  rpc::ticket ticket{rpc::no_slot, 0};  // leader only; slot is no_slot: nothing to return
  u32 pages = 0;                        // a bit for each position: the area has that page
  const u8 *bytes = nullptr;
};

// Whether lists may be requested for the file; equal in all lanes.
template <class Reader>
TND_DEVICE inline bool uses_lists(Reader, device_state &, const range_check &) {
  return false;
}
TND_DEVICE inline bool uses_lists(this_warp, device_state &state, const range_check &file) {
  if (simt::constant(state.list_page_count) == 0 || !simt::whole_warp::is_possible() ||
      file.mapping != 0)
    return false;
  simt::whole_warp const warp{};
  u32 is_refused = 0;
  if (warp.rank() == 0)
    is_refused = load_relaxed(simt::constant(state.nodes)[file.node].lists_refused);
  return warp.broadcast(is_refused) == 0;
}

// The position of a page, in all lanes; warp_size: it is not in the list.
TND_DEVICE inline u32 position_of(const page_list &list, u64 page) {
  simt::whole_warp const warp{};
  bool const is_equal = warp.rank() < list.count && list.page == page;
  u32 const equal_lanes = simt::ballot(warp.mask(), is_equal);
  return equal_lanes == 0 ? simt::warp_size : simt::first_bit(equal_lanes);
}

// Collect the pages of rows from number `begin` of the list on. Returns the first row that is to be
// read later. A row that has more pages than a list, or is not in the file, adds none.
TND_DEVICE_CALL inline u64 collect_pages(
    device_state &state, const row_gather &call, u64 begin, u64 end, page_list &list) {
  simt::whole_warp const warp{};
  u64 const row_size = call.rows.row_size, valid_count = call.file.file_size / row_size;
  u64 const number = begin + warp.rank() < end ? call.rows.numbers[begin + warp.rank()] : 0;
  for (u64 i = begin; i < end; i++) {
    u64 const row = simt::shuffle(warp.mask(), number, u32(i - begin));
    if (row >= valid_count)
      continue;
    u64 const first = row * row_size >> simt::constant(state.page_shift);
    u64 const page_count = pages_before(state, first, (row + 1) * row_size);
    if (page_count > simt::constant(state.list_page_count) - list.count)
      return i == begin ? begin + 1 : i;
    for (u64 page = first; page < first + page_count; page++) {
      if (position_of(list, page) != simt::warp_size)
        continue;
      if (warp.rank() == list.count)
        list.page = page;
      list.count++;
    }
  }
  return end;
}

// A bit for each position whose page is not in the device tier; equal in all lanes.
TND_DEVICE_CALL inline u32 absent_pages(device_state &state,
                                        const range_check &file,
                                        const page_list &list) {
  simt::whole_warp const warp{};
  bool is_absent = false;
  if (warp.rank() < list.count)
    is_absent =
        simt::constant(state.device_table).peek(tier::page_key(file.file_key, list.page)).frame ==
        tier::no_frame;
  return simt::ballot(warp.mask(), is_absent);
}

// How often a lane tries to take a frame while the set is locked.
inline constexpr u32 frame_tries = 16;

// A lane takes a frame for its page, if one is free. Returns false if the page is in the tier by
// now, or another group is loading it.
TND_DEVICE_CALL inline bool take_frame(device_state &state,
                                       const range_check &file,
                                       page_list &list) {
  u64 const key = tier::page_key(file.file_key, list.page);
  tier::begin_result begun{tier::begin_outcome::contended, tier::no_frame, 0};
  for (u32 i = 0; i < frame_tries && begun.outcome == tier::begin_outcome::contended; i++)
    begun = simt::constant(state.device_table).begin(key);
  if (begun.outcome == tier::begin_outcome::owner)
    list.frame = begun.frame;
  if (begun.evicted_key != 0)
    count(&counters::device_evictions, state, file.node);
  return begun.outcome != tier::begin_outcome::present;
}

// Take frames for the pages at the positions of `absent`. Returns those that this warp has to
// request.
TND_DEVICE_CALL inline u32 take_frames(device_state &state,
                                       const range_check &file,
                                       u32 absent,
                                       page_list &list) {
  simt::whole_warp const warp{};
  bool is_wanted = false;
  if ((absent >> warp.rank() & 1) != 0)
    is_wanted = take_frame(state, file, list);
  return simt::ballot(warp.mask(), is_wanted);
}

// Request the pages at the positions of `wanted`. Returns false if no slot came free before the
// deadline.
TND_DEVICE_CALL inline bool request_list(device_state &state,
                                         const row_gather &call,
                                         u32 wanted,
                                         const page_list &list,
                                         rpc::ticket &ticket) {
  simt::whole_warp const warp{};
  rpc::ring_ref const ring = simt::constant(state.ring);
  if (warp.rank() == 0)
    ticket = ring.claim(call.deadline_ns);
  u32 const slot = warp.broadcast(ticket.slot);
  if (slot == rpc::no_slot)
    return false;
  if ((wanted >> warp.rank() & 1) != 0)
    simt::system_word<u64>(ring.list({slot, 0})[warp.rank()]).store_relaxed(list.page);
  warp.sync();
  if (warp.rank() == 0) {
    rpc::request &body = ring.body(ticket);
    body.op = u32(op::read_list);
    body.file = call.file.node;
    body.words[0] = wanted;
    ring.post(ticket);
  }
  return true;
}

// Leader only. No area is lent: return what the answer may have lent.
TND_DEVICE_CALL inline void end_refused_list(device_state &state,
                                             u32 node,
                                             const rpc::reply &reply,
                                             rpc::ticket &ticket) {
  if (reply.value != rpc::no_answer)
    simt::constant(state.ring).finish(ticket, false);
  ticket.slot = rpc::no_slot;
  if (reply.code == status::not_supported)
    simt::device_word<u32>(simt::constant(state.nodes)[node].lists_refused).store_relaxed(1);
}

// Wait for the answer to a list. The loan has no pages if the host lends no area.
TND_DEVICE_CALL inline void borrow_area(device_state &state,
                                        const row_gather &call,
                                        area_loan &loan) {
  simt::whole_warp const warp{};
  u32 area = 0;
  if (warp.rank() == 0) {
    rpc::ring_ref const ring = simt::constant(state.ring);
    u64 const start_ns = simt::now_ns();
    rpc::reply const reply = ring.wait(loan.ticket, call.deadline_ns);
    area = reply.value;
    if (reply.code == status::ok) {
      loan.pages =
          u32(simt::system_word<u64>(const_cast<u64 &>(ring.words(loan.ticket)[0])).load_relaxed());
      count_wait(state, simt::now_ns() - start_ns + 1);
    } else {
      end_refused_list(state, call.file.node, reply, loan.ticket);
    }
  }
  loan.pages = warp.broadcast(loan.pages);
  u64 const page_count = simt::constant(state.list_page_count);
  loan.bytes = simt::constant(state.list_areas) +
               (warp.broadcast(area) * page_count << simt::constant(state.page_shift));
}

// The end of the file, where a writer of the same view may have moved it since the call began. As
// in copy_frame(), loaded after the fence that follows the taking of the frames.
TND_DEVICE inline u64 latest_file_size(device_state &state, const range_check &file) {
  simt::whole_warp const warp{};
  u64 word = 0;
  if (warp.rank() == 0)
    word = load_relaxed(simt::constant(state.nodes)[file.node].size);
  word = warp.broadcast(word);
  bool const has_grown = is_size_of(word, file.epoch) && size_of_word(word) > file.file_size;
  return has_grown ? size_of_word(word) : file.file_size;
}

// Copy the pages of the area to their frames.
TND_DEVICE_CALL inline void fill_frames(device_state &state,
                                        const range_check &file,
                                        const page_list &list,
                                        const area_loan &loan) {
  simt::whole_warp const warp{};
  simt::fence_system();  // as in plan_copy()
  u32 const shift = simt::constant(state.page_shift);
  u64 const page_size = simt::constant(state.page_size), file_size = latest_file_size(state, file);
  for (u32 rest = loan.pages; rest != 0; rest &= rest - 1) {
    u32 const position = simt::first_bit(rest);
    u32 const frame = simt::shuffle(warp.mask(), list.frame, position);
    u64 const begin = simt::shuffle(warp.mask(), list.page, position) << shift;
    u64 const size = file_size > begin ? file_size - begin : 0;
    if (frame == tier::no_frame)
      continue;
    simt::fill_frame(warp,
                     {simt::constant(state.device_frames) + (u64(frame) << shift),
                      nullptr,
                      loan.bytes + (u64(position) << shift),
                      size < page_size ? size : page_size,
                      page_size});
  }
  warp.sync();
}

// Copy a row from its pages' frames, or from the area where no frame was free. Returns false if
// some of its pages are in neither.
TND_DEVICE_CALL inline bool copy_listed_row(device_state &state,
                                            const page_list &list,
                                            const area_loan &loan,
                                            const read_target &row) {
  simt::whole_warp const warp{};
  u32 const shift = simt::constant(state.page_shift);
  for (u64 position = row.begin; position < row.end;) {
    page_part const part = part_at(state, position, row.end);
    u32 const index = position_of(list, part.page);
    if (index == simt::warp_size || (loan.pages >> index & 1) == 0)
      return false;
    u32 const frame = simt::shuffle(warp.mask(), list.frame, index);
    const u8 *const page = frame == tier::no_frame
                               ? loan.bytes + (u64(index) << shift)
                               : simt::constant(state.device_frames) + (u64(frame) << shift);
    simt::copy_from_host(warp, row.buffer + (position - row.begin), page + part.offset, part.size);
    position += part.size;
  }
  return true;
}

// Publish or abandon the frames, return the area, and count.
TND_DEVICE_CALL inline void end_list(device_state &state,
                                     const range_check &file,
                                     const page_list &list,
                                     const area_loan &loan,
                                     u64 copied_size) {
  simt::whole_warp const warp{};
  auto const table = simt::constant(state.device_table);
  warp.sync();
  simt::fence_system();  // the bytes that all lanes have stored come before the words below
  if (list.frame != tier::no_frame && (loan.pages >> warp.rank() & 1) != 0)
    table.publish_and_release_after_fence(list.frame, tier::page_state::ready);
  else if (list.frame != tier::no_frame)
    table.abandon(list.frame);
  if (warp.rank() != 0 || loan.ticket.slot == rpc::no_slot)
    return;
  simt::constant(state.ring).finish_after_fence(loan.ticket, false);
  count(&counters::misses, state, file.node, simt::bit_count(loan.pages));
  count(&counters::read_size, state, file.node, copied_size);
}

// Copy rows from `begin` on whose pages are not in the device tier. `copied` receives a bit for
// each row, from `begin` on. Returns the first row that is to be read later.
TND_DEVICE_CALL inline u64 read_listed_rows(
    device_state &state, const row_gather &call, u64 begin, u64 end, u32 &copied) {
  page_list list;
  area_loan loan;
  u64 const next = collect_pages(state, call, begin, end, list);
  u32 const absent = absent_pages(state, call.file, list);
  copied = 0;
  if (absent == 0)
    return next;
  u32 const wanted = take_frames(state, call.file, absent, list);
  if (wanted == 0)
    return next;
  if (request_list(state, call, wanted, list, loan.ticket))
    borrow_area(state, call, loan);
  if (loan.pages != 0)
    fill_frames(state, call.file, list, loan);
  u64 const row_size = call.rows.row_size, valid_count = call.file.file_size / row_size;
  for (u64 i = begin; i < next && loan.pages != 0; i++) {
    u64 const number = call.rows.numbers[i];
    if (number >= valid_count)
      continue;
    read_target const row{
        call.file.file_key, call.buffer + i * row_size, number * row_size, (number + 1) * row_size};
    if (copy_listed_row(state, list, loan, row))
      copied |= 1u << (i - begin);
  }
  end_list(state, call.file, list, loan, simt::bit_count(copied) * row_size);
  return next;
}

}  // namespace tanada::gfile::device
