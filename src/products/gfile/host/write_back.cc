// products/gfile/host/write_back.cc: writing dirty pages back to the stores.
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/gfile/host/core.hpp"

#include <tanada/status.h>

namespace tanada::gfile {

using tier::page_state;
namespace word = tier::word;

// A kernel has returned its frame.
void core::finish_write(uint32_t frame, byte_range range, bool canceled) {
  frame_info &info = frame_infos_[frame];
  record &file = files_[info.file];
  TND_ASSERT(info.write_pins > 0 && file.write_grants > 0);
  info.write_pins--;
  file.write_grants--;
  if (!canceled) {
    if (info.dirty.empty()) {
      written_frames_[frame].dirty_since_ns = clock_.now_ns();
      dirty_frames_.push_back(frame);
    }
    info.dirty.add(range);
    uint64_t const end = (info.page << options_.page_shift) + range.end;
    if (end > file.size)
      file.size = end;
    if (!info.whole && !info.filling && info.dirty.covers({0, options_.page_size})) {
      info.whole = true;
      set_of(frame).change_state(frame, page_state::partial, page_state::dirty);
      serve_waiters(frame, status::ok);
    }
  }
  if (info.write_pins == 0 && written_frames_[frame].fill != nullptr)
    merge_fill(frame);
  check_clean(frame);
  advance(file);
}

bool core::may_write_back(uint32_t frame) const {
  const frame_info &info = frame_infos_[frame];
  return !info.dirty.empty() && !info.filling && info.writes_in_flight == 0;
}

// Write back the page and up to pages_max - 1 adjacent dirty pages after it. Contiguous ranges
// share one operation.
void core::start_write_back(record &file, uint64_t page, uint32_t pages_max) {
  write_run run;
  auto it = file.dirty.find(page);
  for (uint32_t count = 0; it != file.dirty.end() && count < pages_max && it->first == page + count;
       ++it, count++) {
    uint32_t const frame = it->second;
    if (!may_write_back(frame))
      break;
    for (byte_range const &range : frame_infos_[frame].dirty.take())
      add_range(run, file, frame, range);
  }
  post_run(run);
}

// Add a range of the frame to the run, or to a new one after the run has been posted.
void core::add_range(write_run &run, record &file, uint32_t frame, byte_range range) {
  frame_info &info = frame_infos_[frame];
  TND_ASSERT(range.begin < range.end && range.end <= options_.page_size);
  uint64_t const offset = (info.page << options_.page_shift) + range.begin;
  uint64_t const length = range.end - range.begin;
  if (run.io != nullptr &&
      (run.io->body.offset + run.size != offset || run.size + length > options_.run_size_max))
    post_run(run);
  if (run.io == nullptr) {
    run.io = make(operation::kind::write, file);
    run.io->handle = file.handle.get();
    run.io->body.kind = seams::store_op_kind::write;
    run.io->body.offset = offset;
    run.size = 0;
  }
  run.io->segments.push_back({frame, range});
  run.io->body.buffers.push_back(
      {reinterpret_cast<std::byte *>(set_of(frame).bytes(frame)) + range.begin, length});
  info.writes_in_flight++;
  run.size += length;
}

void core::post_run(write_run &run) {
  if (run.io == nullptr)
    return;
  statistics_.store_writes++;
  post(std::move(run.io));
}

void core::on_write(operation &done, const seams::store_completion &result) {
  record &file = files_[done.file];
  uint64_t expected_size = 0;
  for (segment const &part : done.segments)
    expected_size += part.range.end - part.range.begin;
  status code = result.code;
  if (code == status::ok && result.size < expected_size)
    code = status::io;
  statistics_.store_write_size += result.size;
  uint64_t const end = done.body.offset + result.size;
  if (end > file.store_size && result.size > 0)
    file.store_size = end;
  if (code != status::ok) {
    statistics_.write_errors++;
    // A full store refuses many writes. Log the first at level error, and the others at level info
    // until the error has been returned.
    log(file.failures.is_returned ? log_level::error : log_level::info,
        "{}: {} bytes at offset {} were not written back: {}",
        file.url,
        expected_size - result.size,
        end,
        tnd_status_name(tnd_status(code)));
    file.failures.add(code);
  }
  for (segment const &part : done.segments) {
    frame_info &info = frame_infos_[part.frame];
    TND_ASSERT(info.writes_in_flight > 0);
    info.writes_in_flight--;
    info.write_failed |= code != status::ok;
    if (info.writes_in_flight == 0)
      check_clean(part.frame);
  }
}

// Check whether the frame is clean, after its last grant or write-back may have ended. If so,
// publish or discard it.
void core::check_clean(uint32_t frame) {
  frame_info &info = frame_infos_[frame];
  record &file = files_[info.file];
  if (!info.dirty.empty() || info.write_pins > 0 || info.writes_in_flight > 0 || info.filling)
    return;
  page_state const state = word::state(set_of(frame).load_word(frame));
  if (state != page_state::dirty && state != page_state::partial)
    return;
  if (state == page_state::partial && info.first_waiter != rpc::no_slot)
    return start_fill(frame);
  file.dirty.erase(info.page);
  unhold_frame(file);
  progress_++;
  if (state == page_state::partial || info.write_failed)
    return discard_frame(frame);
  set_of(frame).change_state(frame, page_state::dirty, page_state::ready);
}

// The frame's bytes are useless: the page is not whole, or the store refused them. It is no longer
// found.
void core::discard_frame(uint32_t frame) {
  TND_ASSERT(frame_infos_[frame].dirty.empty() && frame_infos_[frame].write_pins == 0);
  u64 const frame_word = set_of(frame).load_word(frame);
  set_of(frame).invalidate(set_of(frame).load_key(frame));
  set_of(frame).change_state(frame, word::state(frame_word), page_state::ready);
}

// Start the write-backs that are due; all of them while a request waits for a frame.
void core::flush_due() {
  size_t budget = dirty_frames_.size();
  while (budget-- > 0 && !dirty_frames_.empty()) {
    uint32_t const frame = dirty_frames_.front();
    frame_info &info = frame_infos_[frame];
    if (!info.dirty.empty() && !pressure_ &&
        now_ns_ - written_frames_[frame].dirty_since_ns < options_.write_delay_ns)
      return;
    dirty_frames_.pop_front();
    if (info.dirty.empty())
      continue;
    if (may_write_back(frame))
      start_write_back(
          files_[info.file], info.page, options_.run_size_max / options_.page_size + 1);
    else
      dirty_frames_.push_back(frame);
  }
}

}  // namespace tanada::gfile
