// products/gfile/host/small_files.cc: keeps opening many small files cheap: a small file's bytes
// are read with its open, and a read-only file is closed without an answer.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

using tier::page_state;

namespace {
constexpr uint32_t open_share_divisor = 16;  // an open takes at most a 16th of half the tier
constexpr size_t close_batch_max = 8;        // files
constexpr uint32_t opening_count_min = 4;    // however small the tier is
}

// ---- posted closes

bool core::has_closes() const {
  if (options_.closes == nullptr || shutting_down_)
    return false;
  u64 &next = const_cast<u64 &>(options_.closes->entries[closes_taken_ % close_list_size]);
  u64 const entry = simt::system_atomic<u64>(next).load_acquire();
  return entry >> 32 == close_entry(closes_taken_, 0) >> 32;
}

// A close of a file that is not open is invalid and ignored.
void core::take_closes() {
  while (has_closes()) {
    u64 const entry = options_.closes->entries[closes_taken_++ % close_list_size];
    record *const file = open_record(u32(entry));
    if (file == nullptr)
      continue;
    pending request{rpc::no_slot, op::close, file->index, {O_RDONLY, 0, 0}, {}};
    request.is_posted = true;
    closing_count_++;
    run_serial(*file, std::move(request));
  }
}

// Serve an open or unlink after all closes that were posted before it. Some of them may still be in
// flight.
void core::request_after_closes(pending request) {
  u64 const ticket = request.words[2];
  if (ticket > closes_taken_)
    take_closes();
  if (ticket <= closes_taken_)
    return request_by_url(std::move(request));
  if (ticket - closes_taken_ > close_list_size)
    return answer(request.slot, status::protocol);
  if (request.since_ns == 0)
    request.since_ns = now_ns_;
  early_requests_.push_back(std::move(request));
}

void core::retry_early() {
  for (size_t count = early_requests_.size(); count > 0; count--) {
    pending request = std::move(early_requests_.front());
    early_requests_.pop_front();
    if (server_.is_canceled(request.slot))
      answer(request.slot, status::canceled);
    else
      request_after_closes(std::move(request));
  }
}

// If a close never arrives, its kernel has ended.
void core::drop_early() {
  std::erase_if(early_requests_, [&](const pending &request) {
    uint64_t const waited_ns = now_ns_ - std::min(now_ns_, request.since_ns);
    bool const late = waited_ns > options_.read_timeout_ns;
    if (late)
      answer(request.slot, status::timed_out);
    return late;
  });
}

// Closes of files that were only read are posted together, as each takes less time than to pass an
// operation to another thread and back.
void core::batch_close(record &file, store_handle &handle) {
  bool const is_other_store = closing_ != nullptr && closing_->store != file.store;
  if (is_other_store || (closing_ != nullptr && closing_->closes.size() == close_batch_max))
    post_closes();
  if (closing_ == nullptr)
    closing_ = make(operation::kind::close_batch, file);
  handle.uses++;
  closing_->closes.push_back({file.index, &handle, handle.file, false, status::ok});
  handle.file = seams::no_store_file;
}

void core::post_closes() {
  if (closing_ == nullptr)
    return;
  closing_->body.kind = seams::store_op_kind::close;
  post(std::move(closing_));
}

// Closes that would have waited get an operation of their own.
void core::on_closes(operation &done) {
  for (batched_close const &entry : done.closes) {
    record &file = files_[entry.file];
    TND_ASSERT(entry.handle->uses == 1 && entry.handle->file == seams::no_store_file);
    entry.handle->uses = 0;
    if (entry.is_done) {
      on_closed(file, *entry.handle, entry.code);
    } else {
      entry.handle->file = entry.store_file;
      post_close(file, *entry.handle);
    }
    advance(file);
  }
}

// ---- bytes that come with an open

// Most first opens for reading that may be at a store. Their frames are a quarter of the tier: more
// would find no frame, or take one whose bytes no kernel has read yet.
uint32_t core::opening_count_max() const {
  if (options_.open_read_size_max == 0)
    return ~0u;
  uint64_t const page_count =
      (options_.open_read_size_max + uint64_t{options_.page_size} - 1) >> options_.page_shift;
  return uint32_t(std::max<uint64_t>(frames_.host.count() / 4 / page_count, opening_count_min));
}

// A first open for reading has ended: post those that waited.
void core::end_first_open(store_load &load) {
  TND_ASSERT(load.opening_count > 0);
  load.opening_count--;
  while (!load.waiting_opens.empty() && load.opening_count < opening_count_max()) {
    record &file = files_[load.waiting_opens.front()];
    load.waiting_opens.pop_front();
    TND_ASSERT(file.serial && file.serial->waiting && file.phase == record::state::opening);
    file.serial->waiting = false;
    post_open(file, {.read = true});
  }
}

// Allocate frames for the bytes of a file that is opened for reading and is not in the host tier.
// No kernel looks for them before the open is answered. A file without cached pages gets its new
// key here.
void core::reserve_open_frames(record &file, operation &io) {
  uint64_t const size_max = options_.open_read_size_max;
  bool const keeps_key = file.is_version_stable && file.key != 0;
  bool const is_mapped = file.mapping != 0 || file.mapping_requested;
  bool const is_large = file.store_size > size_max;
  bool const is_not_staged = is_mapped || is_large || file.direct;
  if (keeps_key && (is_not_staged || locate(file, 0) != tier::no_frame))
    return;
  uint64_t const page_count = open_page_count(file);
  if (pressure_ || page_count == 0 || (!keeps_key && !renew_key(file)))
    return;
  TND_ASSERT(io.frames.empty() && io.body.buffers.empty());
  file.serial->has_new_key = !keeps_key;
  for (uint64_t page = 0; page < page_count; page++) {
    uint32_t const frame = take_frame(file, frames_.host, page);
    if (frame == tier::no_frame)
      return;
    io.frames.push_back(frame);
    uint64_t const size = std::min<uint64_t>(options_.page_size, size_max);
    auto *const bytes = reinterpret_cast<std::byte *>(frames_.host.bytes(frame));
    io.body.buffers.push_back({bytes, size});
  }
}

// How many frames an open may take: a share of what the file's store may hold.
uint64_t core::open_page_count(const record &file) const {
  uint64_t const page_count =
      (options_.open_read_size_max + uint64_t{options_.page_size} - 1) >> options_.page_shift;
  uint64_t const half = frames_.host.count() / 2;
  uint64_t const available = half - std::min<uint64_t>(half, file.load->held_frames);
  return std::min(page_count, (available + open_share_divisor - 1) / open_share_divisor);
}

// Publish the bytes if the open returned the whole file; otherwise drop them. A direct file's pages
// may only be in the window. A file that has changed has another key.
void core::publish_open_bytes(const operation &done, const seams::store_completion &result) {
  TND_ASSERT(!done.frames.empty() && done.frames.size() == done.body.buffers.size());
  record &file = files_[done.file];
  bool const is_open = file.phase == record::state::open && file.serial->code == status::ok;
  bool const has_key = frames_.host.load_key(done.frames[0]) == tier::page_key(file.key, 0);
  bool const is_complete =
      is_open && has_key && result.size == file.store_size && !can_be_direct(file);
  uint64_t const size = is_complete ? result.size : 0;
  // No kernel's view is longer than these bytes, so has_tail leaves the rest of the frame as it is.
  TND_ASSERT(size == 0 || (!file.has_earlier_views && file.opens == 0));
  statistics_.store_reads += size > 0;
  statistics_.store_read_size += size;
  for (size_t page = 0; page < done.frames.size(); page++) {
    uint32_t const frame = done.frames[page];
    unhold_frame(file);
    uint64_t const begin = page << options_.page_shift;
    if (begin >= size)
      frames_.host.abandon(frame);
    else
      publish_open_page(file, frame, begin, size);
  }
}

// Publish the page at `begin` of a file of `file_size` bytes.
void core::publish_open_page(record &file, uint32_t frame, uint64_t begin, uint64_t file_size) {
  TND_ASSERT(begin < file_size);
  frame_info &info = frame_infos_[frame];
  info.valid_size = uint32_t(std::min<uint64_t>(file_size - begin, options_.page_size));
  info.has_tail = begin + info.valid_size == file_size;
  info.whole = true;
  file.loaded_pages++;
  frames_.host.publish(frame, page_state::ready);
  frames_.host.release(frame);
}

}  // namespace tanada::gfile
