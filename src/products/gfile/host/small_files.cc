// gfile/host/small_files.cc: what keeps opening many small files cheap: a file's few bytes come
// with its open, and a file that was only read is closed without an answer.
#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "products/gfile/host/core.hpp"

namespace tanada::gfile {

using tier::page_state;

namespace {
constexpr uint32_t open_share = 16;  // an open takes a 16th at most of half the tier
}

// ---- posted closes

bool core::has_closes() const {
  if (options_.closes == nullptr || shutting_down_)
    return false;
  u64 &next = const_cast<u64 &>(options_.closes->entries[closes_taken_ % close_list_size]);
  u64 const entry = simt::system_atomic<u64>(next).load_acquire();
  return entry >> 32 == close_entry(closes_taken_, 0) >> 32;
}

// A close of a file that is not open is nonsense and forgotten.
void core::take_closes() {
  while (has_closes()) {
    u64 const entry = options_.closes->entries[closes_taken_++ % close_list_size];
    record *const file = open_record(u32(entry));
    if (file == nullptr)
      continue;
    pending asked{rpc::no_slot, op::close, file->index, {O_RDONLY, 0, 0}, {}};
    asked.is_posted = true;
    closing_count_++;
    run_serial(*file, std::move(asked));
  }
}

// An open or unlink, which is served after all closes that were posted before it. One of them may
// still be on its way.
void core::request_after_closes(pending asked) {
  u64 const ticket = asked.words[2];
  if (ticket > closes_taken_)
    take_closes();
  if (ticket <= closes_taken_)
    return request_by_url(std::move(asked));
  if (ticket - closes_taken_ > close_list_size)
    return answer(asked.slot, status::protocol);
  if (asked.since_ns == 0)
    asked.since_ns = now_ns_;
  early_.push_back(std::move(asked));
}

void core::retry_early() {
  for (size_t count = early_.size(); count > 0; count--) {
    pending asked = std::move(early_.front());
    early_.pop_front();
    if (server_.is_canceled(asked.slot))
      answer(asked.slot, status::canceled);
    else
      request_after_closes(std::move(asked));
  }
}

// A close that never comes is of a kernel that has ended.
void core::drop_early() {
  std::erase_if(early_, [&](const pending &asked) {
    uint64_t const waited_ns = now_ns_ - std::min(now_ns_, asked.since_ns);
    bool const late = waited_ns > options_.read_timeout_ns;
    if (late)
      answer(asked.slot, status::timed_out);
    return late;
  });
}

// ---- bytes that come with an open

// Frames for the bytes of a file that is opened to be read and is not in the host tier. No kernel
// looks for them before the open is answered. A file that is cached under no key gets its new one
// here.
void core::make_room_for_bytes(record &file, operation &made) {
  uint64_t const size_max = options_.open_read_size_max;
  bool const keeps_key = file.version_good && file.key != 0;
  bool const is_mapped = file.mapping != 0 || file.mapping_asked;
  bool const is_large = file.store_size > size_max;
  bool const is_elsewhere = is_mapped || is_large || file.direct;
  if (keeps_key && (is_elsewhere || locate(file, 0) != tier::no_frame))
    return;
  uint64_t const page_count = (size_max + options_.page_size - 1) >> options_.page_shift;
  uint64_t const half = frames_.host.count() / 2;
  uint64_t const left = half - std::min<uint64_t>(half, *file.held_by_store);
  uint64_t const page_count_max = std::min(page_count, (left + open_share - 1) / open_share);
  if (pressure_ || page_count_max == 0 || (!keeps_key && !renew_key(file)))
    return;
  file.serial->has_new_key = !keeps_key;
  for (uint64_t page = 0; page < page_count_max; page++) {
    uint32_t const frame = take_frame(file, frames_.host, page);
    if (frame == tier::no_frame)
      return;
    made.frames.push_back(frame);
    uint64_t const size = std::min<uint64_t>(options_.page_size, size_max);
    auto *const bytes = reinterpret_cast<std::byte *>(frames_.host.bytes(frame));
    made.body.buffers.push_back({bytes, size});
  }
}

// The open has brought the whole file, or nothing. A direct file's pages lie in the window only. A
// file that has changed has got another key.
void core::place_bytes(const operation &done, const port::store_completion &result) {
  record &file = files_[done.file];
  bool const is_open = file.now == record::state::open && file.serial->code == status::ok;
  bool const has_key = frames_.host.load_key(done.frames[0]) == tier::page_key(file.key, 0);
  bool const came = is_open && has_key && result.size == file.store_size && !can_be_direct(file);
  uint64_t const size = came ? result.size : 0;
  // Nobody's view is longer than these bytes: has_tail leaves what is behind them as it is.
  TND_ASSERT(size == 0 || (!file.has_earlier_views && file.opens == 0));
  statistics_.store_reads += size > 0;
  statistics_.store_read_size += size;
  for (size_t page = 0; page < done.frames.size(); page++) {
    uint32_t const frame = done.frames[page];
    let_go(file);
    uint64_t const begin = page << options_.page_shift;
    if (begin >= size) {
      frames_.host.abandon(frame);
      continue;
    }
    frame_info &info = infos_[frame];
    info.valid_size = uint32_t(std::min<uint64_t>(size - begin, options_.page_size));
    info.has_tail = begin + info.valid_size == size;
    info.whole = true;
    file.loaded_pages++;
    frames_.host.publish(frame, page_state::ready);
    frames_.host.release(frame);
  }
}

}  // namespace tanada::gfile
