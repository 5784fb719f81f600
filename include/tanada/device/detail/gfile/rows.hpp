// tanada/device/detail/gfile/rows.hpp: gread_rows: rows of a file, by their numbers. Not for direct
// inclusion.
#pragma once

#include "page_list.hpp"
#include "resident.hpp"
#include "transfer.hpp"

namespace tanada::gfile::device {

// The readers of a group take windows of the list in turn: the warps of a block, or the one thread
// or warp that calls.
template <class Group>
struct row_division {
  using reader = Group;
  TND_DEVICE static u32 index(Group) {
    return 0;
  }
  TND_DEVICE static u32 count(Group) {
    return 1;
  }
  // The failure of a reader, if there is any, in every thread of the group.
  TND_DEVICE static status combine(Group group, status code) {
    group.sync();
    return code;
  }
};

template <>
struct row_division<this_block> {
  using reader = this_warp;
  TND_DEVICE static u32 index(this_block block) {
    return block.rank() / simt::warp_size;
  }
  TND_DEVICE static u32 count(this_block block) {
    return (block.size() + simt::warp_size - 1) / simt::warp_size;
  }
  TND_DEVICE static status combine(this_block block, status code) {
    TND_SHARED(u32, box);
    auto const failure = simt::atomic_ref<u32, simt::scope::device>(box);
    if (block.rank() == 0)
      failure.store_relaxed(u32(int(status::ok)));
    block.sync();
    if (code != status::ok && this_warp{}.rank() == 0)
      failure.store_relaxed(u32(int(code)));
    block.sync();
    status const result = status(int(failure.load_relaxed()));
    block.sync();
    return result;
  }
};

// How many rows a reader requests before it waits for the first of them.
inline constexpr u64 row_window = simt::warp_size;

// Whether no earlier row of the window begins on the same page.
TND_DEVICE inline bool is_first_on_page(const device_state &state,
                                        const row_list &rows,
                                        u64 begin,
                                        u64 i) {
  u64 const page = rows.numbers[i] * rows.row_size >> simt::constant(state.page_shift);
  for (u64 k = begin; k < i; k++)
    if (rows.numbers[k] * rows.row_size >> simt::constant(state.page_shift) == page)
      return false;
  return true;
}

// Request rows that no tier has, and do not wait. Requests without an answer pin no frames, so that
// groups cannot deadlock.
template <class Reader>
TND_DEVICE inline void request_rows(Reader reader,
                                    device_state &state,
                                    const range_check &file,
                                    const row_list &rows,
                                    u64 begin,
                                    u64 end) {
  u32 expected = 0;
  if (reader.rank() == 0)
    expected = u32(miss_expectation_of(state, file.node));
  bool const is_windowed = reader.broadcast(expected) == u32(miss_expectation::windowed);
  if (file.mapping != 0 || is_windowed)  // no page goes through the host tier
    return;
  for (u64 i = begin + reader.rank(); i < end; i += reader.size()) {
    u64 const number = rows.numbers[i];
    if (number >= file.file_size / rows.row_size)
      continue;  // reported by read_window()
    u64 const offset = number * rows.row_size;
    u64 const key = tier::page_key(file.file_key, offset >> simt::constant(state.page_shift));
    bool const is_near = simt::constant(state.device_table).peek(key).frame != tier::no_frame ||
                         simt::constant(state.host_table).peek(key).frame != tier::no_frame;
    bool const is_wanted = !is_near && is_first_on_page(state, rows, begin, i);
    if (is_wanted && !request_pages(state, file, offset, rows.row_size))
      break;  // no slot of the ring is free
  }
  reader.sync();
}

// How the leader lets its group read a row that is not resident.
enum class row_source : u32 {
  tiers,    // as gread
  mapping,  // the file's own pages
  nothing   // the deadline has passed
};

// Leader only. Whether a row of a mapped file is to be copied without its page. Of small rows that
// are read at random most pages are read once, and the page takes much more of the link than the
// row. So a page gets into the device tier after some reads on average: what is read often does,
// and otherwise pages add at most a quarter to what the link carries.
TND_DEVICE inline bool leaves_page(const device_state &state, u64 row_size, u64 key) {
  u64 const page_size = simt::constant(state.page_size);
  if (row_size >= page_size)
    return false;
  u64 const mixed = (key ^ simt::now_ns() ^ simt::global_thread_rank()) * 0x9E3779B97F4A7C15ull;
  return (mixed >> 32) % (4 * page_size) >= row_size;
}

// Leader only.
TND_DEVICE inline row_source choose_source(device_state &state,
                                           const range_check &file,
                                           const read_target &row,
                                           u64 deadline_ns) {
  if (simt::now_ns() >= deadline_ns)
    return row_source::nothing;
  bool const is_mapped = memory_mapping(state, file) != 0;
  return is_mapped && leaves_page(state, row.end - row.begin, row.begin) ? row_source::mapping
                                                                         : row_source::tiers;
}

// Copy a row from the file's own pages.
template <class Reader>
TND_DEVICE inline status read_mapped_row(Reader reader,
                                         device_state &state,
                                         const range_check &file,
                                         const read_target &row) {
  for (u64 position = row.begin; position < row.end;) {
    page_part const part = part_at(state, position, row.end);
    page_request const request = request_for(file, file.mapping, part.page, 1, 0);
    u8 *const target = row.buffer + (position - row.begin);
    page_transfer t{state, any_group{simt::kind_of(reader)}, request, part, target};
    t.plan = {nullptr, target, part.offset, part.size};
    find_mapped_bytes(t);
    copy_planned(t);
    (void)check_copy(t);
    position += part.size;
  }
  if (reader.rank() == 0)
    count(&counters::read_size, state, file.node, row.end - row.begin);
  return status::ok;
}

// Copy one row, from the device tier if it is there.
template <class Reader>
TND_DEVICE_CALL status read_row(Reader reader,
                                device_state &state,
                                const range_check &file,
                                const read_target &row,
                                u64 deadline_ns) {
  resident_result const resident = read_resident(reader, state, row);
  if (resident.is_copied) {
    if (reader.rank() == 0)
      count_resident(resident, file.node, row);
    return status::ok;
  }
  u32 choice = 0;
  if (reader.rank() == 0)
    choice = u32(choose_source(state, file, row, deadline_ns));
  auto const source = row_source(reader.broadcast(choice));
  if (source == row_source::nothing)
    return status::timed_out;
  if (source == row_source::mapping)
    return read_mapped_row(reader, state, file, row);
  long_read part{state,
                 any_group{simt::kind_of(reader)},
                 file,
                 row.buffer,
                 row.begin,
                 row.end - row.begin,
                 deadline_ns,
                 page_hint::unknown};
  transfer_result const result = read(simt::in_memory(part));
  bool const is_short = result.status == status::ok && result.size < row.end - row.begin;
  return is_short ? status::range : result.status;
}

// Copy rows `begin` to `end` of the list, at most row_window, but those of `copied`, which has a
// bit for each. `failed_row` receives the number of one that fails.
template <class Reader>
TND_DEVICE inline status read_rows(Reader reader,
                                   device_state &state,
                                   const row_gather &call,
                                   u64 begin,
                                   u64 end,
                                   u32 copied,
                                   u64 &failed_row) {
  range_check const &file = call.file;
  row_list const &rows = call.rows;
  for (u64 i = begin; i < end; i++) {
    if ((copied >> (i - begin) & 1) != 0)
      continue;
    u64 const number = rows.numbers[i];
    status code = status::range;
    if (number < file.file_size / rows.row_size) {
      u64 const offset = number * rows.row_size;
      read_target const row{
          file.file_key, call.buffer + i * rows.row_size, offset, offset + rows.row_size};
      code = read_row(reader, state, file, row, call.deadline_ns);
    }
    if (code != status::ok) {
      failed_row = number;
      return code;
    }
  }
  return status::ok;
}

// Copy rows `begin` to `end` of the list, at most row_window.
template <class Reader>
TND_DEVICE inline status read_window(Reader reader,
                                     device_state &state,
                                     const row_gather &call,
                                     u64 begin,
                                     u64 end,
                                     u64 &failed_row) {
  if (!uses_lists(reader, state, call.file)) {
    request_rows(reader, state, call.file, call.rows, begin, end);
    return read_rows(reader, state, call, begin, end, 0, failed_row);
  }
  status code = status::ok;
  while (begin < end && code == status::ok) {
    u32 copied = 0;
    u64 const next = read_listed_rows(state, call, begin, end, copied);
    code = read_rows(reader, state, call, begin, next, copied, failed_row);
    begin = next;
  }
  return code;
}

// What this thread's reader copies of the list. The result is that of the reader.
template <class Group>
TND_DEVICE inline status read_share(Group group,
                                    device_state &state,
                                    const row_gather &call,
                                    u64 &failed_row) {
  using readers = row_division<Group>;
  u64 const count = call.rows.count, reader_count = readers::count(group);
  u64 const share = (count + reader_count - 1) / reader_count;
  u64 const window = share < row_window ? share : row_window;
  status code = status::ok;
  for (u64 begin = readers::index(group) * window; begin < count && code == status::ok;
       begin += reader_count * window)
    code = read_window(typename readers::reader{},
                       state,
                       call,
                       begin,
                       begin + window < count ? begin + window : count,
                       failed_row);
  return code;
}

}  // namespace tanada::gfile::device
