#include "products/gfile/host/core.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::gfile {

namespace {
constexpr uint64_t now_grain_ns = 10'000'000;  // ticks come more often than this
constexpr size_t spare_count_max = 2 * rpc::slot_count;
constexpr size_t spare_buffers_max = 64;  // what read a longer run gives its memory back
}  // namespace

core::core(const core_options &options, rpc::server &server, const core_frames &frames,
           port::store_registry &stores, port::clock &clock, mapper *maps)
    : options_{options},
      server_{server},
      frames_{frames},
      stores_{stores},
      clock_{clock},
      maps_{maps},
      infos_(frames.host.count() + frames.window.count()),
      grants_(rpc::slot_count),
      waits_(rpc::slot_count),
      now_ns_{clock.now_ns()} {
  by_url_.reserve(options.file_count_max);
}

core::~core() = default;

void core::answer(u32 slot, status code, std::initializer_list<u64> words, u32 value) {
  if (slot == rpc::no_slot)
    return;
  server_.reply(slot, code, value, words.begin(), uint32_t(words.size()), false);
}

std::unique_ptr<operation> core::make(operation::kind what, record &file) {
  std::unique_ptr<operation> made;
  if (spare_.empty()) {
    made = std::make_unique<operation>();
  } else {
    made = std::move(spare_.back());
    spare_.pop_back();
  }
  made->what = what;
  made->file = file.index;
  made->where = file.where;
  made->traced.label = port::trace::label_of(file.url);
  made->store_size = file.store_size;
  // What only asks may end at any time. A write may not: what it had to say would be lost where it
  // could come late.
  using kind = operation::kind;
  if (what == kind::read || what == kind::fill || what == kind::stat)
    made->body.deadline_ns = port::deadline_after(now_ns_ + now_grain_ns, options_.read_timeout_ns);
  return made;
}

// Keep the operation for the next of its kind, emptied.
void core::recycle(std::unique_ptr<operation> done) {
  if (spare_.size() >= spare_count_max || done->body.buffers.capacity() > spare_buffers_max ||
      done->segments.capacity() > spare_buffers_max)
    return;
  done->frames.clear();
  done->segments.clear();
  done->bounce.reset();
  done->access.reset();
  done->handle = nullptr;
  std::vector<port::store_buffer> buffers = std::move(done->body.buffers);
  buffers.clear();
  done->body = {};
  done->body.buffers = std::move(buffers);
  done->result = {};
  spare_.push_back(std::move(done));
}

void core::post(std::unique_ptr<operation> made) {
  if (made->handle != nullptr) {
    made->handle->uses++;
    made->body.file = made->handle->file;
  }
  made->body.op_id = reinterpret_cast<uint64_t>(made.get());
  at_stores_++;
  outbox_.push_back(std::move(made));
}

void core::on_request(u32 slot, const rpc::request &asked, std::string_view text) {
  statistics_.requests++;
  pending request{
      slot, op(asked.op), asked.file, {asked.words[0], asked.words[1], asked.words[2]}, {}};
  if (request.what == op::open || request.what == op::unlink)
    request.url = text;
  if (is_change(request))
    changes_seen_++;
  if (shutting_down_)
    return answer(slot, status::canceled);
  bool const is_by_name = request.what == op::open || request.what == op::unlink;
  if (is_by_name && request.words[2] != 0)
    return request_after_closes(std::move(request));
  dispatch(std::move(request));
}

// For an answer; `ends_serial`: to what the file is about, which is therefore done.
u64 core::changes(const record &file, bool ends_serial) const {
  bool const now = file.serial && !ends_serial && is_change(file.serial->asked);
  bool const later =
      changes_loading_ > 0 || std::any_of(file.queue.begin(), file.queue.end(), is_change);
  return changes_word(changes_seen_, now || later);
}

// The file that a request names, while it is open.
record *core::open_record(u32 index) {
  if (index >= files_.size())
    return nullptr;
  record &file = files_[index];
  return file.now == record::state::open && file.opens > 0 && file.handle != nullptr ? &file
                                                                                     : nullptr;
}

// Serve a request, or keep it until it can be served.
void core::dispatch(pending asked) {
  switch (asked.what) {
    case op::open:
    case op::unlink: return request_by_url(std::move(asked));
    default: break;
  }
  record *const file = open_record(asked.file);
  if (file == nullptr)
    return answer(asked.slot, status::bad_file);
  switch (asked.what) {
    case op::read:
      if (!read_page(asked))
        deferred_.push_back(std::move(asked));
      return;
    case op::write:
      if (file->serial)
        file->held_writes.push_back(std::move(asked));
      else if (!write_page(asked))
        deferred_.push_back(std::move(asked));
      return;
    case op::prefetch:
      prefetch(*file, asked.words[0], asked.words[1]);
      return answer(asked.slot, status::ok);
    case op::view:
      return answer(asked.slot, status::ok,
                    {file->epoch, file->key, file->size, changes(*file, false)});
    case op::close:
    case op::sync:
    case op::truncate: return run_serial(*file, std::move(asked));
    default: return answer(asked.slot, status::protocol);
  }
}

void core::on_finished(u32 slot, bool canceled) {
  grant const given = std::exchange(grants_[slot], grant{});
  TND_ASSERT(given.what != grant::kind::none);
  if (given.what == grant::kind::open) {
    if (canceled && open_record(given.file) != nullptr)
      run_serial(files_[given.file],
                 {rpc::no_slot, op::close, given.file, {given.flags, 0, 0}, {}});
    return;
  }
  if (given.what == grant::kind::error) {
    if (canceled && orphan_error_ == status::ok)
      orphan_error_ = given.code;
    return;
  }
  set_of(given.frame).release(given.frame);
  progress_++;
  if (given.what == grant::kind::write)
    finish_write(given.frame, given.range, canceled);
}

void core::on_completion(std::unique_ptr<operation> done, port::store_completion &&result) {
  at_stores_--;
  progress_++;
  if (done->what == operation::kind::load) {
    if (is_change(done->asked))
      changes_loading_--;
    if (result.code != status::ok)
      return answer(done->asked.slot, result.code);
    return shutting_down_ ? answer(done->asked.slot, status::canceled)
                          : request_by_url(std::move(done->asked));
  }
  record &file = files_[done->file];
  if (done->handle != nullptr)
    done->handle->uses--;
  switch (done->what) {
    case operation::kind::load: break;  // done above
    case operation::kind::open: on_open(*done, result); break;
    case operation::kind::read: on_read(*done, result); break;
    case operation::kind::fill: on_fill(*done, result); break;
    case operation::kind::write: on_write(*done, result); break;
    case operation::kind::unlink:
    case operation::kind::stat:
    case operation::kind::close:
    case operation::kind::sync:
    case operation::kind::truncate: on_serial_done(*done, result); break;
  }
  recycle(std::move(done));
  close_if_unused(file);
  advance(file);
}

void core::tick() {
  now_ns_ = clock_.now_ns();
  take_closes();
  retry_early();
  drop_canceled();
  if (progress_ != retried_ && !deferred_.empty()) {
    retried_ = progress_;
    std::deque<pending> again;
    again.swap(deferred_);
    for (pending &asked : again) {
      if (server_.is_canceled(asked.slot))
        answer(asked.slot, status::canceled);
      else
        dispatch(std::move(asked));
    }
  }
  retry_names();
  pressure_ = !deferred_.empty();
  flush_due();
}

bool core::idle() const {
  if (at_stores_ != 0 || !deferred_.empty() || !names_.empty() || !early_.empty())
    return false;
  for (const record &file : files_)
    if (!file.dirty.empty() || file.serial || !file.queue.empty() || !file.held_writes.empty() ||
        (shutting_down_ && file.now == record::state::open))
      return false;
  return true;
}

}  // namespace tanada::gfile
