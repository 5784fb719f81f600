// tanada/device/detail/gfile/transfer.hpp: gread, gwrite, gprefetch, gmap: byte ranges, page by
// page.
#pragma once

#include "doubt.hpp"
#include "page.hpp"
#include "resident.hpp"

namespace tanada::gfile::device {

// The leader's result of checking a call's file and range.
struct range_check {
  tanada::status status;
  u32 node;
  u32 file_key;
  u32 mapping;  // slot, 0: none
  u64 file_size;
  u32 epoch = 0;             // of key and size: at least the low bits
  bool is_doubtful = false;  // leader only: see refresh_view()
};

TND_DEVICE inline range_check rejected(status code) {
  return {code, 0, 0, 0, 0};
}

struct transfer_result {
  tanada::status status;
  u64 size;
};

// A read past the end returns fewer bytes, whatever its size. A write past the limit fails.
TND_DEVICE inline bool exceeds_limit(const device_state &state,
                                     u64 offset,
                                     u64 size,
                                     direction dir) {
  u64 const pages = (tier::page_index_max + 1) << simt::constant(state.page_shift);
  u64 const limit = pages < file_size_max ? pages : file_size_max;
  bool const fits = offset <= limit && size <= limit - offset;
  return !fits && (dir == direction::write || offset > limit);
}

// The view of a file, and the slot of its mapping; 0: none.
struct mapped_view {
  file_view view;
  u32 slot;
  bool is_lost;
};

// `mapping`, `view`: loaded before, in this order.
TND_DEVICE inline mapped_view view_with_mapping(node &file_node, u64 mapping, file_view view) {
  if (u32(mapping >> 32) == view.file_key && u32(mapping) != 0) {
    // Where a mapped page is copied, zeros are stored after the end of the file, and other groups
    // see them. So the size must not be older than the mapping.
    mapping = simt::device_word<u64>(file_node.mapping).load_acquire();
    view = load_view(file_node);
  }
  bool const is_lost = mapping == mapping_word(view.file_key, mapping_lost);
  return {view, u32(mapping >> 32) == view.file_key && !is_lost ? u32(mapping) : 0, is_lost};
}

// Relaxed loads, issued together. The descriptor comes from a gopen that happened before this call.
// Earlier writes by kernels are visible to any call that is ordered after them.
TND_DEVICE_CALL inline range_check check_range(
    device_state &state, int fd, u64 offset, u64 size, direction dir) {
  u32 const index = index_of(fd);
  if (fd < 0 || index >= simt::constant(state.file_count))
    return rejected(status::bad_file);
  descriptor &file = simt::constant(state.descriptors)[index];
  u64 const word = simt::device_word<u64>(file.word).load_relaxed();
  u32 const flags = simt::device_word<u32>(file.flags).load_relaxed();
  u32 const number = simt::device_word<u32>(file.node).load_relaxed();
  if (!is_open_as(word, fd) || !allows(flags, dir))
    return rejected(status::bad_file);
  node &file_node = simt::constant(state.nodes)[number];
  u64 const mapping = simt::device_word<u64>(file_node.mapping).load_relaxed();
  u64 const doubt = simt::device_word<u64>(file_node.doubt).load_relaxed();
  file_view const loaded = load_view(file_node);
  if (exceeds_limit(state, offset, size, dir))
    return rejected(status::too_big);
  mapped_view const mapped = view_with_mapping(file_node, mapping, loaded);
  return {status::ok,
          number,
          mapped.view.file_key,
          mapped.slot,
          mapped.view.size,
          mapped.view.epoch,
          in_doubt(doubt) || mapped.is_lost};
}

TND_DEVICE inline range_check share(any_group group, range_check check) {
  static_assert(file_count_limit <= 1u << 16 && mapped_range_count < 1u << 16);
  u64 const first =
      group.broadcast(u64(u32(int(check.status))) << 32 | check.mapping << 16 | check.node);
  u32 const key = group.broadcast(check.file_key);
  u64 const size = group.broadcast(size_word(check.epoch, check.file_size));
  return {status(int(u32(first >> 32))),
          u32(first) & 0xffff,
          key,
          u32(first) >> 16,
          size_of_word(size),
          u32(size >> view_size_bits)};
}

// On the host executor only: the descriptor of a mapping that is not memory, or -1.
TND_DEVICE inline int cached_descriptor(device_state &state, u32 mapping) {
  if (!simt::reads_cached_files || mapping == 0)
    return -1;
  const mapped_range &range = simt::constant(state.mapped_ranges)[mapping - 1];
  return range.addr == 0 ? range.descriptor : -1;
}

TND_DEVICE inline u32 memory_mapping(device_state &state, const range_check &file) {
  return cached_descriptor(state, file.mapping) < 0 ? file.mapping : 0;
}

// `descriptor`: as cached_descriptor() returns it; -1: nothing is copied.
//
// Copy the bytes of such a file that the page cache holds directly to the caller. They do not go
// through the tiers, which are no faster. Returns fewer bytes than requested where some are not in
// memory.
TND_DEVICE inline u64 read_cached(any_group group,
                                  device_state &state,
                                  const range_check &file,
                                  int descriptor,
                                  u8 *target,
                                  u64 offset,
                                  u64 size) {
  if (descriptor < 0)
    return 0;
  u64 copied_size = 0;
  if (group.rank() == 0) {
    copied_size = simt::read_cached(descriptor, target, size, offset);
    if (copied_size > 0)
      count(&counters::mapped_copies, state, file.node);
  }
  return group.broadcast(copied_size);
}

TND_DEVICE inline page_request request_for(const range_check &file,
                                           u32 mapping,
                                           u64 page,
                                           u64 page_count,
                                           u64 deadline_ns,
                                           page_hint hint = page_hint::unknown) {
  return {file.node,
          mapping,
          tier::page_key(file.file_key, page),
          page,
          page_count,
          file.file_size,
          file.epoch,
          deadline_ns,
          hint};
}

// `position` < `end`: positions in the file.
TND_DEVICE inline page_part part_at(const device_state &state, u64 position, u64 end) {
  u64 const page_size = simt::constant(state.page_size);
  u64 const offset = position & (page_size - 1), rest = end - position;
  return {position >> simt::constant(state.page_shift),
          offset,
          page_size - offset < rest ? page_size - offset : rest};
}

// Returns the number of pages from `page` to the one that holds the byte before `end`.
TND_DEVICE inline u64 pages_before(const device_state &state, u64 page, u64 end) {
  return ((end - 1) >> simt::constant(state.page_shift)) - page + 1;
}

// A read of a range on the long path; in memory, as a page_transfer is.
struct long_read {
  device_state &state;
  any_group group;
  range_check file;
  u8 *buffer;
  u64 offset, size;
  u64 deadline_ns;
  page_hint hint;  // of the first page

  u64 position = 0, end = 0;  // in the file
};

// The page at the read's position.
TND_DEVICE_CALL inline page_transfer page_of(const long_read &r) {
  simt::assume_on_stack(r);
  page_part const part = part_at(r.state, r.position, r.end);
  return {r.state,
          r.group,
          request_for(r.file,
                      memory_mapping(r.state, r.file),
                      part.page,
                      pages_before(r.state, part.page, r.end),
                      r.deadline_ns,
                      r.position == r.offset ? r.hint : page_hint::unknown),
          part,
          r.buffer + (r.position - r.offset)};
}

// On the host executor, the device tier is the same memory as the host tier. Whole pages of a call
// of at least so many bytes are copied only to the caller: a copy in the device tier would cost as
// much again, and displace the pages of small reads.
inline constexpr u64 large_read_size = 1u << 20;
TND_DEVICE inline bool reads_past_tier(const long_read &r, const page_transfer &t) {
  return simt::reads_cached_files && r.end - r.offset >= large_read_size &&
         t.part.size == simt::constant(r.state.page_size);
}

// Copy a whole page to the target from the device tier, if it is there, and otherwise past it.
TND_DEVICE inline status read_page_past_tier(page_transfer &t) {
  u64 const begin = t.request.page_index << simt::constant(t.state.page_shift);
  read_target const page{
      u32(t.request.key >> tier::page_bits), t.target, begin, begin + t.part.size};
  if (is_resident_copied(t.group, t.state, page)) {
    if (is_leader(t))
      count(&counters::device_hits, t.state, t.request.node);
    return status::ok;
  }
  t.location.source = page_source::no_frame;
  plan_copy(t);
  fetch_page(t);
  return t.code;
}

// Where a read that begins in the file ends.
TND_DEVICE inline u64 end_of(const range_check &file, u64 offset, u64 size) {
  u64 const rest = file.file_size - offset;
  return offset + (size < rest ? size : rest);
}

// Copy bytes of such a file that the page cache holds; see read_cached().
TND_DEVICE inline void read_cached(long_read &r) {
  int const descriptor = cached_descriptor(r.state, r.file.mapping);
  r.position += read_cached(r.group,
                            r.state,
                            r.file,
                            descriptor,
                            r.buffer + (r.position - r.offset),
                            r.position,
                            r.end - r.position);
}

TND_DEVICE inline transfer_result read(long_read &r) {
  if (r.offset >= r.file.file_size)
    return {status::ok, 0};
  r.position = r.offset;
  r.end = end_of(r.file, r.offset, r.size);
  for (;;) {
    read_cached(r);
    if (r.position == r.end)
      break;
    page_transfer page = page_of(r);
    page_transfer &t = simt::in_memory(page);
    status const code =
        reads_past_tier(r, t) ? read_page_past_tier(t) : transfer_page<frame_need::may_copy>(t);
    if (code != status::ok)
      return {code, r.position - r.offset};
    r.position += t.part.size;
  }
  if (r.group.rank() == 0)
    count(&counters::read_size, r.state, r.file.node, r.end - r.offset);
  r.group.sync();
  return {status::ok, r.end - r.offset};
}

// A write of a range; in memory, as a page_transfer is.
struct long_write {
  device_state &state;
  any_group group;
  range_check file;
  const u8 *buffer;
  u64 offset, size;
  u64 deadline_ns;

  u64 position = 0, end = 0;                                    // in the file
  page_part part{};                                             // the bytes at the position
  rpc::ticket ticket{rpc::no_slot, 0};                          // leader
  rpc::reply reply{tanada::status::timed_out, rpc::no_answer};  // equal in all threads
};

// Leader only: the file now extends to the end of the part at least. The answer holds the view that
// the bytes belong to, which may be newer than the caller's. Reads ordered after this call must see
// that view. Returns its file key.
TND_DEVICE_CALL inline u32 grow_by_write(const long_write &w) {
  simt::assume_on_stack(w);
  device_state &state = w.state;
  u64 words[3];
  for (u32 i = 0; i < 3; i++)
    words[i] =
        simt::system_word<u64>(const_cast<u64 &>(state.ring.words(w.ticket)[i])).load_relaxed();
  file_view const view{u32(words[0]), u32(words[1]), words[2]};
  node &file_node = simt::constant(state.nodes)[w.file.node];
  if (u32(simt::device_word<u64>(file_node.view).load_acquire()) != view.epoch)
    adopt_view(file_node, view);
  grow(file_node, view.epoch, w.position + w.part.size);
  return view.file_key;
}

// Leader only: invalidate the cached page, because its bytes in the view with `file_key` have
// changed.
TND_DEVICE_CALL inline void announce_write(const long_write &w, u32 file_key) {
  simt::assume_on_stack(w);
  w.state.device_table.invalidate(tier::page_key(file_key, w.part.page));
  if (file_key != w.file.file_key)
    w.state.device_table.invalidate(tier::page_key(w.file.file_key, w.part.page));
}

// Request a host frame for the part, which the host pins for this request, and wait for it.
TND_DEVICE_CALL inline void request_write(long_write &w) {
  simt::assume_on_stack(w);
  w.part = part_at(w.state, w.position, w.end);
  if (w.group.rank() == 0) {
    w.ticket = w.state.ring.claim(w.deadline_ns);
    w.reply = {status::timed_out, rpc::no_answer};
    if (w.ticket.slot != rpc::no_slot) {
      rpc::request &body = w.state.ring.body(w.ticket);
      body.op = u32(op::write);
      body.file = w.file.node;
      body.words[0] = w.part.page;
      body.words[1] = w.part.offset;
      body.words[2] = w.part.offset + w.part.size;
      w.state.ring.post(w.ticket);
      w.reply = w.state.ring.wait(w.ticket, w.deadline_ns);
    }
  }
  u64 const packed = w.group.broadcast(u64(w.reply.value) << 32 | u32(int(w.reply.code)));
  w.reply = {status(int(u32(packed))), u32(packed >> 32)};
}

// After the copy. A reader that places the page in the device tier and does not see the new size is
// found by announce_write().
TND_DEVICE_CALL inline void publish_write(const long_write &w) {
  simt::assume_on_stack(w);
  u32 file_key = 0;
  if (w.group.rank() == 0)
    file_key = grow_by_write(w);
  simt::fence_system();
  w.group.sync();
  if (w.group.rank() == 0)
    announce_write(w, file_key);
}

// Write the part of one page at the position into a host frame.
TND_DEVICE inline status write_page(long_write &w) {
  request_write(w);
  if (w.reply.code == status::ok) {
    u64 const frame = u64(w.reply.value) << simt::constant(w.state.page_shift);
    simt::copy_to_host(w.group,
                       simt::constant(w.state.host_frames) + frame + w.part.offset,
                       w.buffer + (w.position - w.offset),
                       w.part.size);
    publish_write(w);
  }
  if (w.group.rank() == 0 && w.reply.value != rpc::no_answer)
    w.state.ring.finish(w.ticket, false);
  return w.reply.code;
}

TND_DEVICE inline transfer_result write(long_write &w) {
  w.position = w.offset;
  w.end = w.offset + w.size;
  status code = status::ok;
  w.group.sync();  // the buffer's contents from other threads of the group are visible now
  while (w.position < w.end && code == status::ok) {
    code = write_page(w);
    if (code == status::ok)
      w.position += w.part.size;
  }
  if (w.group.rank() == 0 && w.position > w.offset)
    count(&counters::write_size, w.state, w.file.node, w.position - w.offset);
  w.group.sync();
  return {code, w.position - w.offset};
}

// One thread. Request the pages of a range that begins in the file, and do not wait. False: no slot
// of the ring is free.
TND_DEVICE_CALL inline bool request_pages(device_state &state,
                                          const range_check &file,
                                          u64 offset,
                                          u64 size) {
  u64 const end = size < file.file_size - offset ? offset + size : file.file_size;
  u64 const first = offset >> simt::constant(state.page_shift),
            last = (end - 1) >> simt::constant(state.page_shift);
  rpc::ticket const ticket = state.ring.claim(simt::now_ns());
  if (ticket.slot == rpc::no_slot)
    return false;
  rpc::request &body = state.ring.body(ticket);
  body.op = u32(op::prefetch);
  body.file = file.node;
  body.words[0] = first;
  body.words[1] = last - first + 1;
  state.ring.post(ticket);
  state.ring.detach(ticket, false);
  return true;
}

// Leader only.
TND_DEVICE inline status prefetch(device_state &state,
                                  const range_check &file,
                                  u64 offset,
                                  u64 size) {
  bool const has_pages = offset < file.file_size && size > 0;
  if (has_pages && memory_mapping(state, file) == 0)
    (void)request_pages(state, file, offset, size);
  return status::ok;
}

struct map_outcome {
  tanada::status status;
  const u8 *bytes;
  u64 size;
};

TND_DEVICE inline map_outcome map(
    any_group group, device_state &state, const range_check &file, u64 offset, u64 deadline_ns) {
  if (offset >= file.file_size)
    return {status::range, nullptr, 0};
  u64 const page = offset >> simt::constant(state.page_shift),
            begin = page << simt::constant(state.page_shift);
  page_request const request =
      request_for(file, memory_mapping(state, file), page, 1, deadline_ns, page_hint::unknown);
  page_transfer pinned{state, group, request, {page, 0, 0}, nullptr};
  page_transfer &t = simt::in_memory(pinned);
  status const code = transfer_page<frame_need::must_pin>(t);
  group.sync();
  if (code != status::ok)
    return {code, nullptr, 0};
  if (group.rank() == 0)
    (void)simt::device_word<u32>(state.gmap_counts[t.location.frame]).fetch_add_relaxed(1);
  u64 const rest = file.file_size - begin;
  return {status::ok, frame_bytes(t), rest < state.page_size ? rest : state.page_size};
}

TND_DEVICE_CALL inline status unmap(device_state &state, const u8 *bytes) {
  auto const &table = state.device_table;
  u64 const size = u64(table.shape.frame_count()) << simt::constant(state.page_shift);
  if (bytes < state.device_frames || bytes >= state.device_frames + size)
    return status::invalid;
  u64 const offset = u64(bytes - state.device_frames);
  if ((offset & (state.page_size - 1)) != 0)
    return status::invalid;
  u32 const frame = u32(offset >> simt::constant(state.page_shift));
  // Other pins belong to calls that are using the page at the moment.
  simt::device_word<u32> const counter(state.gmap_counts[frame]);
  u32 map_count = counter.load_relaxed();
  while (map_count != 0 && !counter.compare_exchange_relaxed(map_count, map_count - 1)) {}
  if (map_count == 0)
    return status::invalid;
  table.release(frame);
  return status::ok;
}

}  // namespace tanada::gfile::device
