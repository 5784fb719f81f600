// products/gfile/host/core.cc: dispatch of requests, grants and completions.
#include "products/gfile/host/core.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace tanada::gfile {

namespace {
constexpr uint64_t tick_interval_max_ns = 10'000'000;  // ticks come more often than this
constexpr size_t spare_count_max = 2 * rpc::slot_count;
constexpr size_t spare_buffers_max = 64;  // an operation with more buffers than this is freed, not
                                          // reused
}  // namespace

core::core(const core_options &options,
           rpc::server &server,
           const core_frames &frames,
           backends::store_registry &stores,
           seams::clock &clock,
           mapper *mapper)
    : options_{options},
      server_{server},
      frames_{frames},
      stores_{stores},
      clock_{clock},
      mapper_{mapper},
      frame_infos_(frames.host.count() + frames.window.count()),
      written_frames_(frame_infos_.size()),
      grants_(rpc::slot_count),
      waits_(rpc::slot_count),
      list_operations_(rpc::slot_count),
      now_ns_{clock.now_ns()} {
  TND_ASSERT(options.page_size == uint32_t{1} << options.page_shift);
  TND_ASSERT(options.list_page_count <= list_page_count_max);
  by_url_.reserve(options.file_count_max);
  for (uint32_t area = options.list_area_count; area > 0; area--)
    free_areas_.push_back(area - 1);
}

core::~core() = default;

void core::answer(u32 slot, status code, std::initializer_list<u64> words, u32 value) {
  if (slot == rpc::no_slot)
    return;
  server_.reply(slot, code, value, words.begin(), uint32_t(words.size()), false);
}

std::unique_ptr<operation> core::make(operation::kind op_kind, record &file) {
  std::unique_ptr<operation> io;
  if (spare_operations_.empty()) {
    io = std::make_unique<operation>();
  } else {
    io = std::move(spare_operations_.back());
    spare_operations_.pop_back();
  }
  io->type = op_kind;
  io->file = file.index;
  io->store = file.store;
  io->traced.label = observe::trace::label_of(file.url);
  io->store_size = file.store_size;
  // Operations that only read may be aborted at any time. A write may not: its result would be lost
  // if it completed late.
  using kind = operation::kind;
  if (op_kind == kind::read || op_kind == kind::fill || op_kind == kind::stat ||
      op_kind == kind::read_list)
    io->body.deadline_ns =
        seams::deadline_after(now_ns_ + tick_interval_max_ns, options_.read_timeout_ns);
  return io;
}

// Empty the members that a read does not use.
void core::clear_rare(operation &done) {
  done.segments.clear();
  done.pages.clear();
  done.reads.clear();
  done.closes.clear();
  done.posted_count = 0;
  done.bounce.reset();
  done.access.reset();
  done.request = {};
  std::vector<seams::store_buffer> buffers = std::move(done.body.buffers);
  done.body = {};
  done.body.buffers = std::move(buffers);
  done.result = {};
}

// Keep the operation, emptied, for reuse.
void core::recycle(std::unique_ptr<operation> done) {
  if (spare_operations_.size() >= spare_count_max ||
      done->body.buffers.capacity() > spare_buffers_max ||
      done->segments.capacity() > spare_buffers_max)
    return;
  // A read has used few of the members, and the lines of the others are not in the cache.
  if (done->type != operation::kind::read)
    clear_rare(*done);
  done->frames.clear();
  done->handle = nullptr;
  done->body.buffers.clear();
  done->body.kind = seams::store_op_kind::read;
  done->body.deadline_ns = ~uint64_t{0};
  done->body.offset = 0;
  done->result.code = status::ok;
  done->result.size = 0;
  spare_operations_.push_back(std::move(done));
}

void core::post(std::unique_ptr<operation> io) {
  if (io->handle != nullptr) {
    TND_ASSERT(io->handle->file != seams::no_store_file);
    io->handle->uses++;
    io->body.file = io->handle->file;
  }
  io->body.op_id = reinterpret_cast<uint64_t>(io.get());
  in_flight_count_++;
  outbox_.push_back(std::move(io));
}

// Fetch what a read of a page that is in no frame will need first: the page's set, and the frames
// of which one will be taken.
void core::on_arrival(const rpc::request &received) {
  if (op(received.op) != op::read || received.file >= files_.size())
    return;
  record const &file = files_[received.file];
  if (file.direct || received.words[0] > tier::page_index_max)
    return;
  u64 const key = tier::page_key(file.key, received.words[0]);
  frames_.host.prefetch(key);
  uint32_t const first = frames_.host.first_of_set(key);
  for (uint32_t way = 0; way < frames_.host.ways(); way++)
    __builtin_prefetch(&frame_infos_[first + way], 1);
}

void core::on_request(u32 slot, const rpc::request &received, std::string_view text) {
  TND_ASSERT(slot < rpc::slot_count && grants_[slot].type == grant::kind::empty);
  statistics_.requests++;
  pending request{slot,
                  op(received.op),
                  received.file,
                  {received.words[0], received.words[1], received.words[2]},
                  {}};
  if (request.operation == op::open || request.operation == op::unlink)
    request.url = text;
  if (is_change(request))
    changes_seen_++;
  if (shutting_down_)
    return answer(slot, status::canceled);
  bool const is_by_name = request.operation == op::open || request.operation == op::unlink;
  if (is_by_name && request.words[2] != 0)
    return request_after_closes(std::move(request));
  dispatch(std::move(request));
}

// `changes` of an answer. `ends_serial`: the answer ends the file's serial operation, which is
// therefore no longer pending.
u64 core::changes(const record &file, bool ends_serial) const {
  bool const is_changing = file.serial && !ends_serial && is_change(file.serial->request);
  bool const will_change =
      changes_loading_ > 0 || std::any_of(file.queue.begin(), file.queue.end(), is_change);
  return changes_word(changes_seen_, is_changing || will_change);
}

// The file of a request, if it is open.
record *core::open_record(u32 index) {
  if (index >= files_.size())
    return nullptr;
  record &file = files_[index];
  return file.phase == record::state::open && file.opens > 0 && file.handle != nullptr ? &file
                                                                                       : nullptr;
}

// Serve a request, or keep it until it can be served.
void core::dispatch(pending request) {
  switch (request.operation) {
    case op::open:
    case op::unlink:
      return request_by_url(std::move(request));
    default:
      break;
  }
  record *const file = open_record(request.file);
  if (file == nullptr)
    return answer(request.slot, status::bad_file);
  switch (request.operation) {
    case op::read:
      if (!read_page(request))
        deferred_.push_back(std::move(request));
      return;
    case op::write:
      if (file->serial)
        file->held_writes.push_back(std::move(request));
      else if (!write_page(request))
        deferred_.push_back(std::move(request));
      return;
    case op::prefetch:
      prefetch(*file, request.words[0], request.words[1]);
      return answer(request.slot, status::ok);
    case op::read_list:
      return read_list(std::move(request));
    case op::view:
      return answer(
          request.slot, status::ok, {file->epoch, file->key, file->size, changes(*file, false)});
    case op::close:
    case op::sync:
    case op::truncate:
      return run_serial(*file, std::move(request));
    default:
      return answer(request.slot, status::protocol);
  }
}

void core::on_finished(u32 slot, bool canceled) {
  grant const finished = std::exchange(grants_[slot], grant{});
  TND_ASSERT(finished.type != grant::kind::empty);
  if (finished.type == grant::kind::open) {
    if (canceled && open_record(finished.file) != nullptr)
      run_serial(files_[finished.file],
                 {rpc::no_slot, op::close, finished.file, {finished.flags, 0, 0}, {}});
    return;
  }
  if (finished.type == grant::kind::error) {
    if (canceled && orphan_error_ == status::ok)
      orphan_error_ = finished.code;
    return;
  }
  if (finished.type == grant::kind::list)
    return free_area(finished.frame);
  set_of(finished.frame).release(finished.frame);
  progress_++;
  if (finished.type == grant::kind::write)
    finish_write(finished.frame, finished.range, canceled);
}

// A store has been opened for `request`.
void core::on_loaded(pending request, status code) {
  if (is_change(request)) {
    TND_ASSERT(changes_loading_ > 0);
    changes_loading_--;
  }
  if (code == status::ok && shutting_down_)
    code = status::canceled;
  if (code != status::ok)
    return answer(request.slot, code);
  request_by_url(std::move(request));
}

// The completion of an operation on one open file.
void core::end_operation(record &file, operation &done, const seams::store_completion &result) {
  switch (done.type) {
    case operation::kind::load:
    case operation::kind::close_batch:
      break;  // handled by on_completion()
    case operation::kind::open:
      on_open(done, result);
      break;
    case operation::kind::read:
      on_read(done, result);
      break;
    case operation::kind::fill:
      on_fill(done, result);
      break;
    case operation::kind::read_list:
      on_list(done);
      break;
    case operation::kind::write:
      on_write(done, result);
      break;
    case operation::kind::close:
      on_closed(file, *done.handle, result.code);
      break;
    case operation::kind::unlink:
    case operation::kind::stat:
    case operation::kind::sync:
    case operation::kind::truncate:
      on_serial_done(done, result);
      break;
  }
}

void core::on_completion(std::unique_ptr<operation> done, seams::store_completion &&result) {
  TND_ASSERT(in_flight_count_ > 0);
  in_flight_count_--;
  progress_++;
  if (done->type == operation::kind::load)
    return on_loaded(std::move(done->request), result.code);
  if (done->type == operation::kind::close_batch) {
    on_closes(*done);
    return recycle(std::move(done));
  }
  record &file = files_[done->file];
  if (done->handle != nullptr) {
    TND_ASSERT(done->handle->uses > 0);
    done->handle->uses--;
  }
  end_operation(file, *done, result);
  recycle(std::move(done));
  close_if_unused(file);
  advance(file);
}

void core::tick() {
  now_ns_ = clock_.now_ns();
  take_closes();
  retry_early();
  drop_canceled();
  if (progress_ != retried_progress_ && !deferred_.empty()) {
    retried_progress_ = progress_;
    std::deque<pending> retries;
    retries.swap(deferred_);
    for (pending &request : retries) {
      if (server_.is_canceled(request.slot))
        answer(request.slot, status::canceled);
      else
        dispatch(std::move(request));
    }
  }
  retry_named_requests();
  pressure_ = !deferred_.empty();
  flush_due();
}

bool core::idle() const {
  if (in_flight_count_ != 0 || closing_ != nullptr || !deferred_.empty() ||
      !named_requests_.empty() || !early_requests_.empty() || !list_files_.empty())
    return false;
  for (const record &file : files_)
    if (!file.dirty.empty() || file.serial || !file.queue.empty() || !file.held_writes.empty() ||
        (shutting_down_ && file.phase == record::state::open))
      return false;
  return true;
}

}  // namespace tanada::gfile
