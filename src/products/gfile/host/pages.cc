// products/gfile/host/pages.cc: pages on their way into the host tier.
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

// Whether one more frame may wait for the file's store: half of the tier for a file, three quarters
// for a store. And in the page's set, the only place it can be: all ways but two for a file, all
// but one for a store. Otherwise a few pages that never come fill a set, and every other page of
// that set waits with them, whatever its store.
bool core::may_hold(const record &file, const frame_set &frames, uint64_t key) const {
  uint64_t const all = frames.count();
  if (file.held >= all - all / 2 || *file.held_by_store >= all - all / 4)
    return false;
  uint32_t const ways = frames.ways(), first = frames.first_of_set(key);
  if (*file.held_by_store + 2 < ways)
    return true;  // so few fill no set
  uint32_t by_file = 0, by_store = 0;
  for (uint32_t frame = first; frame < first + ways; frame++) {
    page_state const state = word::state(frames.load_word(frame));
    if (state == page_state::empty || state == page_state::ready)
      continue;
    by_file += infos_[frame].file == file.index;
    by_store += files_[infos_[frame].file].where == file.where;
  }
  return by_file < (ways > 2 ? ways - 2 : 1) && by_store < (ways > 1 ? ways - 1 : 1);
}

void core::hold(record &file) {
  file.held++;
  ++*file.held_by_store;
}

void core::let_go(record &file) {
  TND_ASSERT(file.held > 0 && *file.held_by_store > 0);
  file.held--;
  --*file.held_by_store;
}

// A frame for the page, loading and pinned once, or no_frame.
uint32_t core::take_frame(record &file, frame_set &frames, uint64_t page) {
  u64 const key = tier::page_key(file.key, page);
  if (!may_hold(file, frames, key))
    return tier::no_frame;
  tier::begin_result const begun = frames.begin(key);
  if (begun.outcome != tier::begin_outcome::owner)
    return tier::no_frame;
  if (begun.evicted_key != 0)
    statistics_.evictions++;
  hold(file);
  frame_info &info = infos_[begun.frame];
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

// How many of `size` bytes at `offset` the store should have given: those it had all the time since
// the read was posted, whether or not we have heard of a truncate.
uint64_t core::bytes_expected(const operation &done, uint64_t offset, uint64_t size) const {
  record const &file = files_[done.file];
  uint64_t const had = std::min({done.store_size, file.store_size, file.cut_to});
  if (offset >= had)
    return 0;
  return size < had - offset ? size : had - offset;
}

void core::wait_at(uint32_t frame, const waiter &who) {
  frame_info &info = infos_[frame];
  waits_[who.slot] = {frame, rpc::no_slot, who.writes, who.range};
  if (info.last_waiter == rpc::no_slot)
    info.first_waiter = who.slot;
  else
    waits_[info.last_waiter].next = who.slot;
  info.last_waiter = who.slot;
}

// Answer a read, or let it wait at a frame. False: it needs a frame and none is free.
bool core::read_page(const pending &asked) {
  record &file = files_[asked.file];
  uint64_t const page = asked.words[0], wanted = asked.words[1] == 0 ? 1 : asked.words[1];
  if (page > tier::page_index_max) {
    answer(asked.slot, status::too_big);
    return true;
  }
  uint32_t frame = locate(file, page);
  if (frame == tier::no_frame) {
    uint32_t const got = start_read(file, page, wanted);
    if (got == 0)
      return false;
    read_ahead(file, page, got);
    frame = locate(file, page);
  }
  if (word::readable(set_of(frame).load_word(frame))) {
    grant_read(frame, asked.slot, true);
    return true;
  }
  wait_at(frame, {asked.slot, false, {0, 0}});
  if (word::state(set_of(frame).load_word(frame)) == page_state::partial)
    start_fill(frame);
  return true;
}

// Read up to `count` pages from `page` on in one operation: as far as they are neither there nor
// past the end, and frames are free. Returns how many.
uint32_t core::start_read(record &file, uint64_t page, uint64_t count) {
  uint64_t const limit = options_.run_size_max / options_.page_size == 0
                             ? 1
                             : options_.run_size_max / options_.page_size;
  auto made = make(operation::kind::read, file);
  for (uint64_t next = page; next - page < count && next - page < limit; next++) {
    bool const past_end = next << options_.page_shift >= file.store_size;
    if (next > page && (past_end || locate(file, next) != tier::no_frame))
      break;
    uint32_t const frame = take_frame(file, set_for(file), next);
    if (frame == tier::no_frame)
      break;
    made->frames.push_back(frame);
    made->body.buffers.push_back(
        {reinterpret_cast<std::byte *>(set_of(frame).bytes(frame)), options_.page_size});
  }
  if (made->frames.empty())
    return 0;
  uint32_t const got = uint32_t(made->frames.size());
  made->first_page = page;
  made->handle = file.handle.get();
  made->body.kind = port::store_op_kind::read;
  made->body.offset = page << options_.page_shift;
  statistics_.store_reads++;
  post(std::move(made));
  bool const was_read = maps_now(file);
  file.loaded_pages += got;
  bool const could =
      file.mapping == 0 && !file.mapping_asked && file.write_opens == 0 && !file.serial;
  if (could && !was_read && maps_now(file))
    ask_for_mapping(file);
  return got;
}

// After a miss: a run of misses that goes on doubles the window that is read beyond it.
void core::read_ahead(record &file, uint64_t page, uint32_t got) {
  uint32_t const window_max = std::min<uint64_t>(options_.readahead_size_max / options_.page_size,
                                                 set_for(file).count() / 4);
  for (stream &run : file.streams) {
    if (page < run.next_page || page > run.next_page + run.window)
      continue;
    uint64_t const after = page + got;
    prefetch(file, after, run.window);
    run.next_page = after + run.window;
    run.window = std::min(run.window * 2 + 1, window_max);
    return;
  }
  file.streams[file.next_stream++ % std::size(file.streams)] = {page + got,
                                                                std::min(got, window_max)};
}

void core::prefetch(record &file, uint64_t page, uint64_t count) {
  uint64_t const pages = (file.store_size + options_.page_size - 1) >> options_.page_shift;
  uint64_t const room = set_for(file).count() / 2;  // never more than half of the tier at a time
  if (count > room)
    count = room;
  uint64_t const end = page >= pages ? page : page + std::min(count, pages - page);
  while (page < end) {
    if (locate(file, page) != tier::no_frame) {
      page++;
      continue;
    }
    uint32_t const got = start_read(file, page, end - page);
    if (got == 0)
      return;
    page += got;
  }
}

// Others have cut the file. Every page past its new end would have a line.
void core::log_cut(record &file, const missing_bytes &missing) {
  if (std::exchange(file.cut_logged, true) || !cut_lines_.admits(now_ns_))
    return;
  log(log_level::error,
      "%s: only %llu bytes at offset %llu where there should be %llu (logged once a file): %llu "
      "more such files",
      file.url.c_str(), (unsigned long long)missing.size, (unsigned long long)missing.offset,
      (unsigned long long)missing.expected_size, (unsigned long long)cut_lines_.take_left_out());
}

void core::on_read(operation &done, const port::store_completion &result) {
  record &file = files_[done.file];
  statistics_.store_read_size += result.size;
  for (size_t i = 0; i < done.frames.size(); i++) {
    uint32_t const frame = done.frames[i];
    let_go(file);
    uint64_t const begin = i << options_.page_shift;
    uint64_t const offset = (done.first_page + i) << options_.page_shift;
    uint64_t const got =
        result.size <= begin ? 0 : std::min<uint64_t>(result.size - begin, options_.page_size);
    status code = got == options_.page_size ? status::ok : result.code;
    if (code == status::ok && got < bytes_expected(done, offset, options_.page_size)) {
      log_cut(file, {got, offset, bytes_expected(done, offset, options_.page_size)});
      code = status::io;
    }
    if (code == status::ok) {
      infos_[frame].valid_size = uint32_t(got);
      // After the bytes that were read, a frame holds bytes of other files. The borrower of a
      // window's frame learns how many were read. Of a host frame it copies what its view of the
      // file has: where no kernel's view can be longer, has_tail leaves the zeros to the first
      // writer.
      bool const is_unchanged = file.write_opens == 0 && !file.serial && !file.has_earlier_views;
      infos_[frame].has_tail = offset + got == file.size && is_unchanged;
      if (frames_.host.owns(frame) && !infos_[frame].has_tail)
        zero_shared(set_of(frame).bytes(frame) + got, options_.page_size - got);
      infos_[frame].whole = true;
      set_of(frame).publish(frame, page_state::ready);
      serve_waiters(frame, status::ok);
      set_of(frame).release(frame);
    } else {
      set_of(frame).abandon(frame);
      serve_waiters(frame, code);
    }
  }
}

void core::grant_read(uint32_t frame, u32 slot, bool at_once) {
  if (server_.is_canceled(slot))
    return answer(slot, status::canceled);
  set_of(frame).pin(frame);
  set_of(frame).touch(frame);
  grants_[slot] = {.what = grant::kind::read, .frame = frame};
  u64 const words[] = {infos_[frame].valid_size};
  server_.reply(slot, status::ok, lent_frame(frame, at_once), words,
                frames_.host.owns(frame) ? 0 : 1, true);
}

// Lend a frame to a kernel that writes. False: it needs a frame and none is free.
bool core::write_page(const pending &asked) {
  record &file = files_[asked.file];
  uint64_t const page = asked.words[0], begin = asked.words[1], end = asked.words[2];
  if (page > tier::page_index_max || begin >= end || end > options_.page_size ||
      !file.handle->writable) {
    answer(asked.slot, file.handle->writable ? status::invalid : status::bad_file);
    return true;
  }
  waiter const who{asked.slot, true, {uint32_t(begin), uint32_t(end)}};
  uint32_t frame = frames_.host.locate(tier::page_key(file.key, page));
  if (frame == tier::no_frame) {
    frame = take_frame(file, frames_.host, page);
    if (frame == tier::no_frame)
      return false;
    // Nothing of the page is in the store: it starts as zeros. Otherwise only what is written is
    // valid.
    bool const fresh = page << options_.page_shift >= file.store_size;
    if (fresh)
      zero_shared(set_of(frame).bytes(frame), options_.page_size);
    infos_[frame].whole = fresh;
    set_of(frame).publish(frame, fresh ? page_state::dirty : page_state::partial);
    file.dirty[page] = frame;
    grant_write(frame, who);
    set_of(frame).release(frame);
    return true;
  }
  if (infos_[frame].filling || word::state(set_of(frame).load_word(frame)) == page_state::loading)
    wait_at(frame, who);
  else
    grant_write(frame, who);
  return true;
}

// The file may grow: what lies behind its end in the page, if that is in the host tier, becomes
// zeros.
void core::zero_tail(record &file, uint64_t page) {
  uint32_t const frame = frames_.host.locate(tier::page_key(file.key, page));
  if (frame == tier::no_frame || !infos_[frame].has_tail)
    return;
  uint32_t const size = infos_[frame].valid_size;
  zero_shared(set_of(frame).bytes(frame) + size, options_.page_size - size);
  infos_[frame].has_tail = false;
}

void core::grant_write(uint32_t frame, const waiter &who) {
  frame_info &info = infos_[frame];
  record &file = files_[info.file];
  zero_tail(file, file.size >> options_.page_shift);
  bool const canceled = server_.is_canceled(who.slot);
  if (!canceled) {
    set_of(frame).pin(frame);
    info.write_pins++;
    file.write_grants++;
    grants_[who.slot] = {.what = grant::kind::write, .frame = frame, .range = who.range};
  }
  if (word::state(set_of(frame).load_word(frame)) == page_state::ready) {
    set_of(frame).change_state(frame, page_state::ready, page_state::dirty);
    file.dirty[info.page] = frame;
    hold(file);
  }
  if (canceled) {
    answer(who.slot, status::canceled);
    settle(frame);
  } else {
    // The view that the frame belongs to: a truncate may have overtaken the kernel's.
    u64 const words[] = {file.epoch, file.key, file.size};
    server_.reply(who.slot, status::ok, frame, words, 3, true);
  }
}

// Read the rest of a page of which only some ranges are valid. Never while its ranges are on their
// way to the store.
void core::start_fill(uint32_t frame) {
  frame_info &info = infos_[frame];
  if (info.filling || info.writes_in_flight > 0)
    return;
  record &file = files_[info.file];
  info.filling = true;
  set_of(frame).pin(frame);
  auto made = make(operation::kind::fill, file);
  made->frames.push_back(frame);
  made->bounce = std::make_unique<std::byte[]>(options_.page_size);
  made->handle = file.handle.get();
  made->body.kind = port::store_op_kind::read;
  made->body.offset = info.page << options_.page_shift;
  made->body.buffers.push_back({made->bounce.get(), options_.page_size});
  statistics_.store_reads++;
  post(std::move(made));
}

void core::on_fill(operation &done, const port::store_completion &result) {
  uint32_t const frame = done.frames[0];
  frame_info &info = infos_[frame];
  statistics_.store_read_size += result.size;
  status code = result.code;
  if (code == status::ok &&
      result.size < bytes_expected(done, done.body.offset, options_.page_size))
    code = status::io;
  set_of(frame).release(frame);
  if (code != status::ok) {
    info.filling = false;
    serve_waiters(frame, code);
    return settle(frame);
  }
  std::memset(done.bounce.get() + result.size, 0, options_.page_size - result.size);
  info.fill = std::move(done.bounce);
  if (info.write_pins == 0)
    merge_fill(frame);
}

// Nobody writes to the frame just now: put what the store has around the dirty ranges.
void core::merge_fill(uint32_t frame) {
  frame_info &info = infos_[frame];
  uint32_t at = 0;
  auto const fill_to = [&](uint32_t end) {
    if (end > at)
      copy_to_shared(set_of(frame).bytes(frame) + at, info.fill.get() + at, end - at);
  };
  for (byte_range const &range : info.dirty.ranges()) {
    fill_to(range.begin);
    at = range.end;
  }
  fill_to(options_.page_size);
  info.fill.reset();
  info.filling = false;
  info.whole = true;
  set_of(frame).change_state(frame, page_state::partial, page_state::dirty);
  serve_waiters(frame, status::ok);
  settle(frame);
}

void core::serve_waiters(uint32_t frame, status code) {
  frame_info &info = infos_[frame];
  u32 next = std::exchange(info.first_waiter, rpc::no_slot);
  info.last_waiter = rpc::no_slot;
  while (next != rpc::no_slot) {
    wait const mine = std::exchange(waits_[next], wait{});
    waiter const who{next, mine.writes, mine.range};
    next = mine.next;
    if (code == status::ok) {
      if (who.writes)
        grant_write(frame, who);
      else
        grant_read(frame, who.slot, false);
    } else if (who.writes) {  // a write needs no byte of the store: it tries again
      deferred_.push_back(
          {who.slot, op::write, info.file, {info.page, who.range.begin, who.range.end}, {}});
      progress_++;
    } else {
      answer(who.slot, code);
    }
  }
}

}  // namespace tanada::gfile
