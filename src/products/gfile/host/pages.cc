// products/gfile/host/pages.cc: reading pages into the host tier, and granting them to kernels.
#include <cstring>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "executor/shared_bytes.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

using simt::host::copy_to_shared;
using simt::host::zero_shared;
using tier::page_state;
namespace word = tier::word;

// The frame that holds the page, in any state but empty.
uint32_t core::locate(const record &file, uint64_t page) {
  return set_for(file).locate(tier::page_key(file.key, page));
}

// Whether one more frame may wait for the file's store. A file may hold half of the tier, a store
// three quarters. Within the page's set, the only place it can be, a file may hold all ways but
// two, a store all but one. Otherwise a few pages of a hung store could fill a set, and every other
// page of that set would wait with them, whatever its store.
bool core::may_hold(const record &file, const frame_set &frames, uint64_t key) const {
  uint64_t const total = frames.count();
  if (file.held_frames >= total - total / 2 || file.load->held_frames >= total - total / 4)
    return false;
  uint32_t const ways = frames.ways(), first = frames.first_of_set(key);
  if (file.load->held_frames + 2 < ways)
    return true;  // so few cannot fill a set
  uint32_t by_file = 0, by_store = 0;
  for (uint32_t frame = first; frame < first + ways; frame++) {
    page_state const state = word::state(frames.load_word(frame));
    if (state == page_state::empty || state == page_state::ready)
      continue;
    by_file += frame_infos_[frame].file == file.index;
    by_store += files_[frame_infos_[frame].file].store == file.store;
  }
  return by_file < (ways > 2 ? ways - 2 : 1) && by_store < (ways > 1 ? ways - 1 : 1);
}

void core::hold_frame(record &file) {
  file.held_frames++;
  file.load->held_frames++;
}

void core::unhold_frame(record &file) {
  TND_ASSERT(file.held_frames > 0 && file.load->held_frames > 0);
  file.held_frames--;
  file.load->held_frames--;
}

// Take a frame for the page, loading and pinned once, or return no_frame.
uint32_t core::take_frame(record &file, frame_set &frames, uint64_t page) {
  u64 const key = tier::page_key(file.key, page);
  if (!may_hold(file, frames, key))
    return tier::no_frame;
  tier::begin_result const begun = frames.begin(key);
  if (begun.outcome != tier::begin_outcome::owner)
    return tier::no_frame;
  if (begun.evicted_key != 0)
    statistics_.evictions++;
  hold_frame(file);
  frame_info &info = frame_infos_[begun.frame];
  TND_ASSERT(info.first_waiter == rpc::no_slot && info.dirty.empty() && info.write_pins == 0 &&
             info.writes_in_flight == 0);
  info.file = file.index;
  info.page = page;
  info.whole = false;
  info.filling = false;
  info.write_failed = false;
  info.has_tail = false;
  return begun.frame;
}

// How many of `size` bytes at `offset` the store should have returned: those that it had the whole
// time since the read was posted, even if a truncate is in progress.
uint64_t core::bytes_expected(const operation &done, uint64_t offset, uint64_t size) const {
  record const &file = files_[done.file];
  uint64_t const known_size = std::min({done.store_size, file.store_size, file.truncate_size});
  if (offset >= known_size)
    return 0;
  return size < known_size - offset ? size : known_size - offset;
}

void core::add_waiter(uint32_t frame, const waiter &kernel) {
  TND_ASSERT(kernel.slot < rpc::slot_count && waits_[kernel.slot].frame == tier::no_frame);
  frame_info &info = frame_infos_[frame];
  waits_[kernel.slot] = {frame, rpc::no_slot, kernel.writes, kernel.range};
  if (info.last_waiter == rpc::no_slot)
    info.first_waiter = kernel.slot;
  else
    waits_[info.last_waiter].next = kernel.slot;
  info.last_waiter = kernel.slot;
}

// Answer a read, or let it wait for a frame's data. Returns false if it needs a frame and none is
// free.
bool core::read_page(const pending &request) {
  record &file = files_[request.file];
  uint64_t const page = request.words[0], page_count = request.words[1] == 0 ? 1 : request.words[1];
  if (page > tier::page_index_max) {
    answer(request.slot, status::too_big);
    return true;
  }
  uint32_t frame = locate(file, page);
  if (frame == tier::no_frame) {
    uint32_t const started_count = start_read(file, page, page_count);
    if (started_count == 0)
      return false;
    read_ahead(file, page, started_count);
    frame = locate(file, page);
  }
  if (word::is_readable(set_of(frame).load_word(frame))) {
    grant_read(frame, request.slot, true);
    return true;
  }
  add_waiter(frame, {request.slot, false, {0, 0}});
  if (word::state(set_of(frame).load_word(frame)) == page_state::partial)
    start_fill(frame);
  return true;
}

// Read up to `count` pages from `page` on in one operation, as long as they are not cached, not
// past the end, and frames are free. Returns how many.
uint32_t core::start_read(record &file, uint64_t page, uint64_t count) {
  uint64_t const limit = options_.run_size_max / options_.page_size == 0
                             ? 1
                             : options_.run_size_max / options_.page_size;
  auto io = make(operation::kind::read, file);
  add_frames(*io, file, page, std::min(count, limit));
  if (io->frames.empty())
    return 0;
  uint32_t const page_count = uint32_t(io->frames.size());
  TND_ASSERT(io->body.buffers.size() == page_count);
  io->first_page = page;
  io->handle = file.handle.get();
  io->body.kind = seams::store_op_kind::read;
  io->body.offset = page << options_.page_shift;
  statistics_.store_reads++;
  post(std::move(io));
  count_loaded(file, page_count);
  return page_count;
}

// Add frames for up to `count` pages from `page` on to a read, as far as start_read() may.
void core::add_frames(operation &io, record &file, uint64_t page, uint64_t count) {
  TND_ASSERT(io.frames.empty() && io.body.buffers.empty());
  for (uint64_t next = page; next - page < count; next++) {
    bool const past_end = next << options_.page_shift >= file.store_size;
    if (next > page && (past_end || locate(file, next) != tier::no_frame))
      break;
    uint32_t const frame = take_frame(file, set_for(file), next);
    if (frame == tier::no_frame)
      break;
    io.frames.push_back(frame);
    io.body.buffers.push_back(
        {reinterpret_cast<std::byte *>(set_of(frame).bytes(frame)), options_.page_size});
  }
}

// Count pages that are loaded. If these make the file worth mapping, request it.
void core::count_loaded(record &file, uint32_t page_count) {
  bool const was_mappable = should_map(file);
  file.loaded_pages += page_count;
  bool const can_map =
      file.mapping == 0 && !file.mapping_requested && file.write_opens == 0 && !file.serial;
  if (can_map && !was_mappable && should_map(file))
    request_mapping(file);
}

// After a miss: if it continues a run of misses, read ahead, and double the window of that run.
void core::read_ahead(record &file, uint64_t page, uint32_t page_count) {
  uint32_t const window_max = std::min<uint64_t>(options_.readahead_size_max / options_.page_size,
                                                 set_for(file).count() / 4);
  for (stream &run : file.streams) {
    if (page < run.next_page || page > run.next_page + run.window)
      continue;
    uint64_t const after = page + page_count;
    prefetch(file, after, run.window);
    run.next_page = after + run.window;
    run.window = std::min(run.window * 2 + 1, window_max);
    return;
  }
  file.streams[file.next_stream++ % std::size(file.streams)] = {page + page_count,
                                                                std::min(page_count, window_max)};
}

void core::prefetch(record &file, uint64_t page, uint64_t count) {
  uint64_t const pages = (file.store_size + options_.page_size - 1) >> options_.page_shift;
  uint64_t const count_max = set_for(file).count() / 2;  // at most half of the tier at a time
  if (count > count_max)
    count = count_max;
  uint64_t const end = page >= pages ? page : page + std::min(count, pages - page);
  while (page < end) {
    if (locate(file, page) != tier::no_frame) {
      page++;
      continue;
    }
    uint32_t const started_count = start_read(file, page, end - page);
    if (started_count == 0)
      return;
    page += started_count;
  }
}

// Another process truncated the file. Without the limit, every page past its new end would log a
// line.
void core::log_truncation(record &file, const missing_bytes &missing) {
  if (std::exchange(file.truncation_logged, true) || !truncation_log_limit_.admit(now_ns_))
    return;
  log(log_level::error,
      "{}: read {} bytes at offset {}, expected {}: another process truncated the file (logged "
      "once for each file; {} more files not logged)",
      file.url,
      missing.size,
      missing.offset,
      missing.expected_size,
      truncation_log_limit_.take_suppressed_count());
}

void core::on_read(operation &done, const seams::store_completion &result) {
  statistics_.store_read_size += result.size;
  for (size_t i = 0; i < done.frames.size(); i++)
    finish_page(done, i, result);
}

// A read of several pages has ended: publish or abandon one of them.
void core::finish_page(const operation &done, size_t index, const seams::store_completion &result) {
  TND_ASSERT(index < done.frames.size());
  record &file = files_[done.file];
  uint32_t const frame = done.frames[index];
  unhold_frame(file);
  uint64_t const begin = index << options_.page_shift;
  uint64_t const offset = (done.first_page + index) << options_.page_shift;
  uint64_t const read_size =
      result.size <= begin ? 0 : std::min<uint64_t>(result.size - begin, options_.page_size);
  status code = read_size == options_.page_size ? status::ok : result.code;
  uint64_t const expected_size = bytes_expected(done, offset, options_.page_size);
  if (code == status::ok && read_size < expected_size) {
    log_truncation(file, {read_size, offset, expected_size});
    code = status::io;
  }
  if (code == status::ok)
    return publish_page(file, frame, offset, read_size);
  set_of(frame).abandon(frame);
  serve_waiters(frame, code);
}

// After the bytes that were read, a frame still holds bytes of other files. The reader of a
// window's frame learns how many bytes were read. The reader of a host frame copies as many bytes
// as its view of the file has. If no kernel's view can be longer, has_tail defers the zeros to the
// first writer.
void core::publish_page(record &file, uint32_t frame, uint64_t offset, uint64_t read_size) {
  frame_info &info = frame_infos_[frame];
  TND_ASSERT(info.file == file.index && read_size <= options_.page_size);
  bool const is_unchanged = file.write_opens == 0 && !file.serial && !file.has_earlier_views;
  info.valid_size = uint32_t(read_size);
  info.has_tail = offset + read_size == file.size && is_unchanged;
  if (frames_.host.owns(frame) && !info.has_tail)
    zero_shared(set_of(frame).bytes(frame) + read_size, options_.page_size - read_size);
  info.whole = true;
  set_of(frame).publish(frame, page_state::ready);
  serve_waiters(frame, status::ok);
  set_of(frame).release(frame);
}

void core::grant_read(uint32_t frame, u32 slot, bool at_once) {
  if (server_.is_canceled(slot))
    return answer(slot, status::canceled);
  set_of(frame).pin(frame);
  set_of(frame).touch(frame);
  TND_ASSERT(grants_[slot].type == grant::kind::empty);
  grants_[slot] = {.type = grant::kind::read, .frame = frame};
  u64 const words[] = {frame_infos_[frame].valid_size};
  server_.reply(slot,
                status::ok,
                granted_frame(frame, at_once),
                words,
                frames_.host.owns(frame) ? 0 : 1,
                true);
}

// Grant a frame to a kernel that writes. Returns false if it needs a frame and none is free.
bool core::write_page(const pending &request) {
  record &file = files_[request.file];
  uint64_t const page = request.words[0], begin = request.words[1], end = request.words[2];
  if (page > tier::page_index_max || begin >= end || end > options_.page_size ||
      !file.handle->writable) {
    answer(request.slot, file.handle->writable ? status::invalid : status::bad_file);
    return true;
  }
  waiter const kernel{request.slot, true, {uint32_t(begin), uint32_t(end)}};
  uint32_t const frame = frames_.host.locate(tier::page_key(file.key, page));
  if (frame == tier::no_frame)
    return write_new_page(file, page, kernel);
  if (frame_infos_[frame].filling ||
      word::state(set_of(frame).load_word(frame)) == page_state::loading)
    add_waiter(frame, kernel);
  else
    grant_write(frame, kernel);
  return true;
}

// Grant a frame for a page that is in no frame. A page that is not in the store at all starts as
// zeros. Otherwise only the written bytes are valid. Returns false if no frame is free.
bool core::write_new_page(record &file, uint64_t page, const waiter &kernel) {
  TND_ASSERT(kernel.writes);
  uint32_t const frame = take_frame(file, frames_.host, page);
  if (frame == tier::no_frame)
    return false;
  bool const fresh = page << options_.page_shift >= file.store_size;
  if (fresh)
    zero_shared(set_of(frame).bytes(frame), options_.page_size);
  frame_infos_[frame].whole = fresh;
  set_of(frame).publish(frame, fresh ? page_state::dirty : page_state::partial);
  file.dirty[page] = frame;
  grant_write(frame, kernel);
  set_of(frame).release(frame);
  return true;
}

// The file may grow: clear the bytes after its end in the page, if the page is in the host tier.
void core::zero_tail(record &file, uint64_t page) {
  uint32_t const frame = frames_.host.locate(tier::page_key(file.key, page));
  if (frame == tier::no_frame || !frame_infos_[frame].has_tail)
    return;
  uint32_t const size = frame_infos_[frame].valid_size;
  zero_shared(set_of(frame).bytes(frame) + size, options_.page_size - size);
  frame_infos_[frame].has_tail = false;
}

void core::grant_write(uint32_t frame, const waiter &kernel) {
  frame_info &info = frame_infos_[frame];
  record &file = files_[info.file];
  zero_tail(file, file.size >> options_.page_shift);
  bool const canceled = server_.is_canceled(kernel.slot);
  if (!canceled) {
    set_of(frame).pin(frame);
    info.write_pins++;
    file.write_grants++;
    TND_ASSERT(grants_[kernel.slot].type == grant::kind::empty);
    grants_[kernel.slot] = {.type = grant::kind::write, .frame = frame, .range = kernel.range};
  }
  if (word::state(set_of(frame).load_word(frame)) == page_state::ready) {
    set_of(frame).change_state(frame, page_state::ready, page_state::dirty);
    file.dirty[info.page] = frame;
    hold_frame(file);
  }
  if (canceled) {
    answer(kernel.slot, status::canceled);
    check_clean(frame);
  } else {
    // The view that the frame belongs to: a truncate may have made the kernel's view obsolete.
    u64 const words[] = {file.epoch, file.key, file.size};
    server_.reply(kernel.slot, status::ok, frame, words, 3, true);
  }
}

// Read the rest of a page of which only some ranges are valid. Never while its ranges are being
// written back.
void core::start_fill(uint32_t frame) {
  frame_info &info = frame_infos_[frame];
  if (info.filling || info.writes_in_flight > 0)
    return;
  record &file = files_[info.file];
  info.filling = true;
  set_of(frame).pin(frame);
  auto io = make(operation::kind::fill, file);
  io->frames.push_back(frame);
  io->bounce = std::make_unique<std::byte[]>(options_.page_size);
  io->handle = file.handle.get();
  io->body.kind = seams::store_op_kind::read;
  io->body.offset = info.page << options_.page_shift;
  io->body.buffers.push_back({io->bounce.get(), options_.page_size});
  statistics_.store_reads++;
  post(std::move(io));
}

void core::on_fill(operation &done, const seams::store_completion &result) {
  TND_ASSERT(done.frames.size() == 1 && done.bounce != nullptr);
  uint32_t const frame = done.frames[0];
  frame_info &info = frame_infos_[frame];
  TND_ASSERT(info.filling && info.writes_in_flight == 0);
  statistics_.store_read_size += result.size;
  status code = result.code;
  if (code == status::ok &&
      result.size < bytes_expected(done, done.body.offset, options_.page_size))
    code = status::io;
  set_of(frame).release(frame);
  if (code != status::ok) {
    info.filling = false;
    serve_waiters(frame, code);
    return check_clean(frame);
  }
  std::memset(done.bounce.get() + result.size, 0, options_.page_size - result.size);
  written_frames_[frame].fill = std::move(done.bounce);
  if (info.write_pins == 0)
    merge_fill(frame);
}

// No kernel is writing to the frame: copy the store's bytes around the dirty ranges.
void core::merge_fill(uint32_t frame) {
  frame_info &info = frame_infos_[frame];
  std::unique_ptr<std::byte[]> const fill = std::move(written_frames_[frame].fill);
  TND_ASSERT(info.filling && fill != nullptr && info.write_pins == 0);
  uint32_t position = 0;
  auto const fill_to = [&](uint32_t end) {
    if (end > position)
      copy_to_shared(set_of(frame).bytes(frame) + position, fill.get() + position, end - position);
  };
  for (byte_range const &range : info.dirty.ranges()) {
    fill_to(range.begin);
    position = range.end;
  }
  fill_to(options_.page_size);
  info.filling = false;
  info.whole = true;
  set_of(frame).change_state(frame, page_state::partial, page_state::dirty);
  serve_waiters(frame, status::ok);
  check_clean(frame);
}

void core::serve_waiters(uint32_t frame, status code) {
  frame_info &info = frame_infos_[frame];
  u32 next = std::exchange(info.first_waiter, rpc::no_slot);
  info.last_waiter = rpc::no_slot;
  while (next != rpc::no_slot) {
    wait const entry = std::exchange(waits_[next], wait{});
    waiter const kernel{next, entry.writes, entry.range};
    next = entry.next;
    if (code == status::ok) {
      if (kernel.writes)
        grant_write(frame, kernel);
      else
        grant_read(frame, kernel.slot, false);
    } else if (kernel.writes) {  // a write needs no byte of the store: try it again
      deferred_.push_back({kernel.slot,
                           op::write,
                           info.file,
                           {info.page, kernel.range.begin, kernel.range.end},
                           {}});
      progress_++;
    } else {
      answer(kernel.slot, code);
    }
  }
}

}  // namespace tanada::gfile
