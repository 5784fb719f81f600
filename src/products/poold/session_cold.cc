// A session's reads of cold objects, and its requests that wait for memory.
#include <tanada/status.h>

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "products/poold/session.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr uint64_t ns_per_s = 1'000'000'000;
constexpr uint32_t hot_period_s = 60;   // between two reads of an object that returns to memory
constexpr uint64_t hot_size_share = 8;  // of the pool's memory: larger objects do not return
constexpr uint64_t window_size = cold_part_size * cold_part_count_max;

}  // namespace

// ---- waits for memory

allocation session::allocation_mode() const {
  bool const may_become_free = service_.objects.is_tiered() || service_.memory.is_held();
  bool const may_wait = may_wait_ && may_become_free;
  return may_wait ? allocation::may_wait : allocation::immediate;
}

// Pass on the status of an allocation. The request is repeated if memory may become free.
status session::note_lack(status code) {
  bool const is_temporary = code == status::again || code == status::busy;
  lacks_memory_ = is_temporary && allocation_mode() == allocation::may_wait;
  return code;
}

void session::park(const frame &head, std::span<const std::byte> body, status cause) {
  TND_ASSERT(parked_ == nullptr && job_ == nullptr);
  if (lacks_since_ns_ == 0)
    lacks_since_ns_ = turn_ns_;
  parked_ = std::make_unique<parked_request>(
      parked_request{head, {body.begin(), body.end()}, lacks_since_ns_, cause});
}

status session::retry_parked(bool &more) {
  auto const request = std::move(parked_);
  uint64_t const wait_ns =
      request->cause == status::again ? service_.limits.write_wait_ns : service_.limits.use_wait_ns;
  head_ = request->head;
  may_wait_ = turn_ns_ < seams::deadline_after(request->since_ns, wait_ns);
  status const code = answer_request(request->head, request->body);
  may_wait_ = true;
  more = parked_ == nullptr;
  return code;
}

// ---- reads

read_notice session::make_notice(uint64_t read) {
  return [answers = mailbox_, id = id_, read] {
    answers->put({id, read, read_notice_kind, status::ok, {}});
  };
}

// Whether the object was read before, a short time ago.
bool session::is_hot(object &cold) const {
  uint32_t const now_s = uint32_t(turn_ns_ / ns_per_s) + 1;
  uint32_t const last_s = cold.last_read_s.exchange(now_s);
  bool const is_pinned = (cold.flags.load() & flag_pinned) != 0;
  return is_pinned || (last_s != 0 && now_s - last_s <= hot_period_s);
}

// Start to read. The reply follows when the first bytes are there, so that it can be an error.
status session::begin_cold_read(cold_read pending, cold_stream::selection ranges) {
  uint64_t total = 0;
  for (const range &interval : ranges.ranges)
    total += interval.size;
  if (total == 0) {
    send_reply(empty_message{});
    return status::ok;
  }
  uint64_t const number = next_read_++;
  bool const is_lone = cold_reads_.empty() && output_.empty();
  auto stream =
      cold_stream::create(std::move(ranges), service_.read_buffers, is_lone, make_notice(number));
  if (!stream.ok()) {
    lacks_memory_ = true;  // until the streams before this one are sent
    return stream.error();
  }
  pending.is_hot = is_hot(*pending.object);
  pending.stream = std::move(stream).value();
  pending.stream->start();
  pending.began_ns = began_ns_;
  cold_reads_.emplace(number, std::move(pending));
  deferred_count_++;
  return status::ok;
}

void session::finish_cold_read(uint64_t number) {
  auto const it = cold_reads_.find(number);
  if (it == cold_reads_.end() || !it->second.stream->is_window_read())
    return;
  cold_read const done = std::move(it->second);
  cold_reads_.erase(it);
  TND_ASSERT(deferred_count_ > 0);
  deferred_count_--;
  frame const at_work = std::exchange(head_, done.head);
  uint64_t const began_at_work_ns = std::exchange(began_ns_, done.began_ns);
  set_last_message({});
  status const code = done.stream->check_window();
  if (code != status::ok) {
    send_error(report_damage(*done.object, done.name, code));
  } else {
    keep_in_memory(done);
    if (done.is_get)
      send_stream(info_reply{done.object->client_metadata()}, done.stream);
    else
      send_stream(empty_message{}, done.stream);
  }
  head_ = at_work;
  began_ns_ = began_at_work_ns;
}

// Bring an object back whose bytes are all here, if it is read often or there is free memory.
void session::keep_in_memory(const cold_read &done) {
  if (!done.stream->is_complete() || done.stream->size() != done.object->metadata.size)
    return;
  auto resident = service_.objects.create_resident(
      done.object, done.is_hot ? allocation::immediate : allocation::only_free);
  if (!resident.ok())
    return;
  std::vector<iovec> parts;
  resident.value()->append_parts(0, done.stream->size(), parts);
  done.stream->copy_to(parts);
  (void)service_.objects.promote(done.name, done.object, resident.value());
}

// Returns the status for the client, with a message.
status session::report_damage(object &damaged, const std::string &name, status cause) {
  bool const is_lasting = cause == status::corrupt || cause == status::no_entry;
  if (is_lasting && !damaged.is_damaged.exchange(true))
    log(log_level::error,
        "pool: {}/{}, version {}, {} bytes, is damaged in the log ({}): reading it is EIO until "
        "it is replaced or removed",
        namespace_name_,
        name,
        damaged.metadata.version,
        damaged.metadata.size,
        tnd_status_name(tnd_status(cause)));
  set_last_message({});
  return fail(status::io,
              "{}: its bytes in the pool's log {}",
              name,
              is_lasting ? "are damaged" : "could not be read");
}

status session::get_cold(const get_request &request, catalog::opened_object opened) {
  object &source = *opened.object;
  uint64_t const size = source.metadata.size;
  TND_ASSERT(size > 0 && opened.reader != nullptr);
  uint64_t const load_size_max = service_.memory.capacity() / hot_size_share;
  if (size > window_size && size <= load_size_max && is_hot(source)) {
    auto job = std::make_unique<byte_job>();
    job->own_handle.name = request.name;
    job->on_loaded = &session::get_loaded;
    return begin_load(std::move(opened), std::move(job));
  }
  cold_read pending{head_, opened.object, request.name, true};
  return begin_cold_read(std::move(pending), {std::move(opened.reader), {{0, size}}, true});
}

// ---- whole objects into memory

// Bring an object back to memory. Then job->on_loaded is called, whose own_handle has it.
status session::begin_load(catalog::opened_object opened, std::unique_ptr<byte_job> job) {
  TND_ASSERT(job_ == nullptr && opened.reader != nullptr && job->on_loaded != nullptr);
  auto resident = service_.objects.create_resident(opened.object, allocation_mode());
  if (!resident.ok())
    return note_lack(resident.error());
  uint64_t const size = opened.object->metadata.size;
  job->cold = std::move(opened.object);
  job->own_handle.object = std::move(resident).value();
  job->target = &job->own_handle;
  job->on_complete = &session::finish_load;
  cold_load::target memory{{}, job->own_handle.object};
  job->own_handle.object->append_parts(0, size, memory.parts);
  job->load =
      std::make_shared<cold_load>(std::move(opened.reader), std::move(memory), make_notice(0));
  job->load->start();
  job_ = std::move(job);
  return status::ok;
}

// A load has to be complete. Clearing has to wait for fabric transfers that still write to the
// object.
bool session::is_job_blocked() const {
  if (job_ != nullptr && job_->load != nullptr && !job_->load->is_done())
    return true;
  if (job_ == nullptr || !job_->clears_unwritten)
    return false;
  return std::any_of(fabric_writes_.begin(), fabric_writes_.end(), [&](auto const &write) {
    auto const it = handles_.find(write.second.handle);
    return it != handles_.end() && &it->second == job_->target;
  });
}

// The bytes have been read, or that has failed: `code`. False after a failure.
bool session::advance_load(byte_job &job, status &code) {
  TND_ASSERT(job.load->is_done());
  code = job.load->outcome();
  if (code != status::ok) {
    code = report_damage(*job.cold, job.own_handle.name, code);
    return false;
  }
  auto const kind = job.load->checksum().kind;
  if (job.sum.kind() != kind)
    job.sum = pool::checksum{kind};
  return true;
}

status session::finish_load(byte_job &job) {
  logged_checksum const expected = job.load->checksum();
  if (!expected.matches(job.sum))
    return report_damage(*job.cold, job.own_handle.name, status::corrupt);
  job.own_handle.object =
      service_.objects.promote(job.own_handle.name, job.cold, job.own_handle.object);
  job.cold.reset();
  return (this->*job.on_loaded)(job);
}

status session::open_loaded(byte_job &job) {
  auto id = add_handle(std::move(job.own_handle));
  if (!id.ok())
    return id.error();
  send_object(id.value(), handles_[id.value()]);
  return status::ok;
}

status session::get_loaded(byte_job &job) {
  object_ref const &source = job.own_handle.object;
  std::vector<iovec> parts;
  source->append_parts(0, source->metadata.size, parts);
  send_reply(info_reply{source->client_metadata()}, std::move(parts), source);
  return status::ok;
}

status session::create_loaded(byte_job &job) {
  create_request request;
  TND_TRY(decode(job.body, request));
  may_wait_ = false;  // the request is not parked any more
  status const code = create(request, job.own_handle.object);
  may_wait_ = true;
  return code;
}

status session::rma_loaded(byte_job &job) {
  rma_request request;
  TND_TRY(decode(job.body, request));
  auto entry = find_handle(request.handle);
  if (!entry.ok())
    return entry.error();
  entry.value()->object = job.own_handle.object;
  entry.value()->reader.reset();
  return on_rma(job.body, false);
}

}  // namespace tanada::poold
