// products/poold/requests.cc: what a session does for each kind of request, and the work on an
// object's bytes that some of them need: copying, clearing and summing, in bounded turns.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/checked.hpp"
#include "core/base/log.hpp"
#include "products/poold/session.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::poold {

using namespace wire::pool;
using wire::decode;

namespace {

constexpr size_t list_size_max =
    body_size_max - name_size_max - 1024;        // bytes of entries in one answer
constexpr size_t answer_part_count_max = 65536;  // pieces of memory of one answer

// The end of the furthest range; overflow: one lies outside what an object may be.
result<uint64_t> end_of(const std::vector<range> &ranges, uint64_t &total) {
  uint64_t end = 0;
  total = 0;
  if (ranges.size() > range_count_max)
    return status::too_big;
  for (const range &one : ranges) {
    if (!range_fits(one.offset, one.size, object_size_max) || !checked_add(total, one.size, total))
      return status::overflow;
    end = std::max(end, one.offset + one.size);
  }
  return end;
}

}  // namespace

void session::answer_error(status code) {
  with_.counters.errors.add(code);
  text_message out{last_message().substr(0, 1024)};
  out_.add(frame_of({.what = head_.what, .code = int32_t(code), .tag = head_.tag}, out));
}

status session::demand_writer() {
  return can_write_ ? status::ok
                    : fail(status::access, "key %s is for reading only", key_id_.c_str());
}

// Before bytes of it are trusted, or answered for.
status session::demand_whole(const object &which) {
  with_.objects.look_at_memory();
  if (which.is_damaged)
    return fail(
        status::io,
        "its bytes could not be brought back when the daemon started: see the daemon's log");
  return which.is_whole()
             ? status::ok
             : fail(status::io, "its bytes lay in a part of the pool's file that is gone");
}

// No line in the log: a client that has that many objects open goes on without.
status session::demand_handle() {
  if (handles_.size() < with_.limits.handle_count_max)
    return status::ok;
  set_last_message("the connection has " + std::to_string(handles_.size()) +
                   " objects open, as many as it may: close some");
  return status::too_many_files;
}

result<session::handle *> session::find(uint64_t id) {
  auto const found = handles_.find(id);
  if (found == handles_.end())
    return status::bad_file;
  return &found->second;
}

result<uint64_t> session::keep(handle made) {
  TND_TRY(demand_handle());
  uint64_t const id = next_handle_++;
  handles_[id] = std::move(made);
  return id;
}

void session::answer_object(uint64_t id, const handle &which) {
  object_reply out;
  out.handle = id;
  out.about = which.object->described();
  if (shares_memory_)
    out.pieces = which.object->pieces();
  answer(out);
}

status session::on_create(std::span<const std::byte> body) {
  create_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  bool const named = name_is_good(in.name) && (in.set.empty() || name_is_good(in.set));
  if (!named || (in.flags & ~(flags_of_objects | flag_exclusive | flag_keep)) != 0)
    return status::invalid;
  if (in.size > object_size_max)
    return status::too_big;
  object_ref before;
  if (auto found = with_.objects.open(space_id_, in.name, 0, false); found.ok())
    before = std::move(found).value();
  if ((in.flags & flag_exclusive) != 0 && before != nullptr)
    return status::exists;
  TND_TRY(demand_handle());
  with_.objects.look_at_memory();  // what is gone is given to nobody
  bool const kept = (in.flags & flag_keep) != 0 && before != nullptr;
  if (kept)
    TND_TRY(demand_whole(*before));
  auto job = std::make_unique<byte_job>();
  job->copy_size = kept ? before->about.size : 0;
  if (kept)
    job->source = before;
  before.reset();  // held by nobody but the job, it can make room for the new one
  auto made = with_.objects.begin(space_id_, std::max(in.size, job->copy_size), in.flags);
  if (!made.ok())
    return made.error();
  job->whole = {made.value(), true, in.name, in.set, in.flags, {}};
  job->then = &session::end_create;
  if (!kept)
    return end_create(*job);
  job->target = &job->whole;
  job_ = std::move(job);
  return status::ok;
}

status session::on_open(std::span<const std::byte> body) {
  open_request in;
  TND_TRY(decode(body, in));
  auto found = with_.objects.open(space_id_, in.name, in.version);
  if (!found.ok())
    return found.error();
  TND_TRY(demand_whole(*found.value()));
  auto id = keep({found.value(), false, in.name, {}, 0, {}});
  if (!id.ok())
    return id.error();
  answer_object(id.value(), handles_[id.value()]);
  return status::ok;
}

status session::on_resize(std::span<const std::byte> body) {
  resize_request in;
  TND_TRY(decode(body, in));
  auto which = find(in.handle);
  if (!which.ok())
    return which.error();
  if (!which.value()->is_writer)
    return status::bad_file;
  if (in.size > object_size_max)
    return status::too_big;
  object &target = *which.value()->object;
  if (in.size < target.about.size) {
    target.about.size = in.size;
    which.value()->written.cut(in.size);
  } else {
    TND_TRY(with_.objects.grow(target, in.size));
  }
  answer_object(in.handle, *which.value());
  return status::ok;
}

status session::on_write(std::span<const std::byte> body) {
  ranges_request in;
  TND_TRY(decode(body, in));
  auto which = find(in.handle);
  if (!which.ok())
    return which.error();
  if (!which.value()->is_writer)
    return status::bad_file;
  uint64_t total = 0;
  auto end = end_of(in.ranges, total);
  if (!end.ok())
    return end.error();
  if (total != head_.data_size)
    return status::protocol;
  object &target = *which.value()->object;
  if (end.value() > target.about.size)
    TND_TRY(with_.objects.grow(target, end.value()));
  TND_TRY(demand_whole(target));
  for (const range &one : in.ranges)
    target.parts_of(one.offset, one.size, sink_.parts);
  sink_handle_ = in.handle;
  sink_ranges_ = std::move(in.ranges);
  sink_.then = &session::write_done;
  return status::ok;
}

void session::write_done() {
  handle &target = handles_.at(sink_handle_);
  for (const range &one : sink_ranges_)
    target.written.add(one.offset, one.size);
  bound_ranges(target);
  if (status const code = demand_whole(*target.object); code != status::ok)
    answer_error(code);
  else
    answer(empty_message{});
}

status session::on_note(std::span<const std::byte> body) {
  ranges_request in;
  TND_TRY(decode(body, in));
  auto which = find(in.handle);
  uint64_t total = 0;
  auto end = end_of(in.ranges, total);
  // It has no answer; what is wrong shows at the commit.
  if (!which.ok() || !which.value()->is_writer || !end.ok() ||
      end.value() > which.value()->object->about.size)
    return status::protocol;
  for (const range &one : in.ranges)
    which.value()->written.add(one.offset, one.size);
  bound_ranges(*which.value());
  count_written(TND_POOL_PATH_SHARED_MEMORY, total);
  return status::ok;
}

status session::on_read(std::span<const std::byte> body) {
  ranges_request in;
  TND_TRY(decode(body, in));
  auto which = find(in.handle);
  if (!which.ok())
    return which.error();
  auto job = std::make_unique<byte_job>();
  job->target = which.value();
  job->ranges = std::move(in.ranges);
  job->then = &session::end_read;
  if (!which.value()->is_writer)
    return end_read(*job);
  // Of an object being written what was not written is shown as it will be.
  job->clears = true;
  job_ = std::move(job);
  return status::ok;
}

status session::end_read(byte_job &job) {
  object_ref const &from = job.target->object;
  std::vector<range> &ranges = job.ranges;
  TND_TRY(demand_whole(*from));
  uint64_t total = 0;
  auto end = end_of(ranges, total);
  if (!end.ok())
    return end.error();
  if (ranges.size() == 1) {
    range &only = ranges[0];
    only.offset = std::min(only.offset, from->about.size);
    only.size = std::min(only.size, from->about.size - only.offset);
  } else if (end.value() > from->about.size) {
    return status::range;
  }
  std::vector<iovec> parts;
  for (const range &one : ranges) {
    from->parts_of(one.offset, one.size, parts);
    if (parts.size() > answer_part_count_max)
      return status::too_big;
  }
  answer(empty_message{}, std::move(parts), from);
  return status::ok;
}

status session::on_close(std::span<const std::byte> body) {
  handle_request in;
  TND_TRY(decode(body, in));
  return handles_.erase(in.handle) == 1 ? status::ok : status::protocol;
}

status session::on_commit(std::span<const std::byte> body) {
  commit_request in;
  TND_TRY(decode(body, in));
  auto which = find(in.handle);
  if (!which.ok())
    return which.error();
  if (!which.value()->is_writer)
    return status::bad_file;
  if (which.value()->has_too_many_ranges) {
    return fail(status::too_big, "%s was written in too many ranges that do not touch",
                which.value()->name.c_str());
  }
  auto job = std::make_unique<byte_job>();
  job->terms = in.terms;
  job->target = which.value();
  return begin_commit(std::move(job));
}

status session::on_put(std::span<const std::byte> body) {
  put_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  uint32_t const flags = in.terms.flags;
  if (!name_is_good(in.name) || (flags & ~(flags_of_objects | flag_exclusive | commit_flags)) != 0)
    return status::invalid;
  if ((flags & flag_exclusive) != 0 && with_.objects.open(space_id_, in.name, 0, false).ok())
    return status::exists;
  with_.objects.look_at_memory();
  auto made = with_.objects.begin(space_id_, head_.data_size, flags);
  if (!made.ok())
    return made.error();
  put_ = std::make_unique<byte_job>();
  put_->terms = in.terms;
  put_->terms.flags &= commit_flags;
  put_->whole = {made.value(), true, in.name, {}, flags & flag_exclusive, {}};
  put_->target = &put_->whole;
  made.value()->parts_of(0, head_.data_size, sink_.parts);
  sink_.then = &session::put_done;
  return status::ok;
}

void session::put_done() {
  put_->whole.written.add(0, put_->whole.object->about.size);
  if (status const code = begin_commit(std::move(put_)); code != status::ok)
    answer_error(code);
}

status session::on_get(std::span<const std::byte> body) {
  get_request in;
  TND_TRY(decode(body, in));
  auto found = with_.objects.open(space_id_, in.name, 0);
  if (!found.ok())
    return found.error();
  object_ref const &from = found.value();
  TND_TRY(demand_whole(*from));
  std::vector<iovec> parts;
  if (from->about.size <= in.capacity)
    from->parts_of(0, from->about.size, parts);
  answer(info_reply{from->described()}, std::move(parts), from);
  return status::ok;
}

status session::on_stat(std::span<const std::byte> body) {
  open_request in;
  TND_TRY(decode(body, in));
  auto found = with_.objects.open(space_id_, in.name, in.version, false);
  if (!found.ok())
    return found.error();
  answer(info_reply{found.value()->described()});
  return status::ok;
}

status session::on_list(std::span<const std::byte> body) {
  list_request in;
  TND_TRY(decode(body, in));
  list_reply out;
  size_t size = 0;
  with_.objects.list(space_id_, in.prefix, in.after,
                     [&](const std::string &name, const info &about) {
                       size += name.size() + sizeof(info) + 8;
                       out.more = size > list_size_max;
                       if (!out.more)
                         out.entries.push_back({name, about});
                       return !out.more;
                     });
  answer(out);
  return status::ok;
}

status session::on_spaces(std::span<const std::byte> body) {
  spaces_request in;
  TND_TRY(decode(body, in));
  std::vector<space_statistics> found = with_.objects.all_spaces();
  std::erase_if(found, [&](const space_statistics &one) {
    return one.name <= in.after || (!in.only.empty() && one.name != in.only) || !may_see(one.name);
  });
  std::sort(found.begin(), found.end(),
            [](auto const &left, auto const &right) { return left.name < right.name; });
  spaces_reply out;
  size_t size = 0;
  for (const space_statistics &one : found) {
    size += one.name.size() + sizeof(spaces_entry);
    out.more = size > list_size_max;
    if (out.more)
      break;
    out.entries.push_back(
        {one.name, one.used, one.owned, one.segment_count, one.object_count, one.quota});
  }
  answer(out);
  return status::ok;
}

// What answers a request whose change goes through the journal: at once, or, when that was asked
// for or too much is under way, once the journal has it.
journal_done session::defer_answer(bool wait, const info &about) {
  late_ = with_.objects.is_durable() && (wait || with_.objects.is_behind());
  if (!late_)
    return {};
  late_count_++;
  return [answers = answers_, id = id_, tag = head_.tag, what = head_.what, about](status code) {
    answers->put({id, tag, what, code, about});
  };
}

// A change that was refused has no answer to come.
status session::cancel_deferral_on_error(status code) {
  if (code != status::ok && late_)
    late_count_--;
  return code;
}

void mailbox::put(late_answer answer) {
  {
    std::lock_guard lock{mutex_};
    answers_.push_back(std::move(answer));
  }
  waker_.wake();
}

std::vector<late_answer> mailbox::take() {
  std::lock_guard lock{mutex_};
  return std::exchange(answers_, {});
}

void session::finish(const late_answer &late) {
  frame const at_work = head_;  // of a request whose data is still coming
  late_count_--;
  head_.tag = late.tag;
  head_.what = late.what;
  set_last_message(kind(late.what) < kind::fabric ? "the journal could not keep it"
                                                  : "the fabric did not carry it");
  status code = late.code;
  if (code == status::ok && late.hold != nullptr)
    code = demand_whole(*late.hold);
  if (auto const found = fabric_writes_.find(late.tag); found != fabric_writes_.end()) {
    fabric_write const done = found->second;
    fabric_writes_.erase(found);
    auto which = find(done.handle);
    if (code == status::ok && which.ok() && which.value()->is_writer) {
      which.value()->written.add(done.offset, done.size);
      bound_ranges(*which.value());
    }
  }
  if (code != status::ok)
    answer_error(code);
  else if (kind(late.what) == kind::commit || kind(late.what) == kind::put)
    answer(info_reply{late.about});
  else
    answer(empty_message{});
  head_ = at_work;
}

status session::on_rename(std::span<const std::byte> body) {
  rename_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  if (!name_is_good(in.new_name))
    return status::invalid;
  TND_TRY(cancel_deferral_on_error(
      with_.objects.rename(space_id_, in.name, in.new_name, in.flags,
                           defer_answer((in.flags & flag_durable) != 0, {}))));
  if (!late_)
    answer(empty_message{});
  return status::ok;
}

status session::on_remove(std::span<const std::byte> body) {
  flags_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  TND_TRY(cancel_deferral_on_error(
      with_.objects.remove(space_id_, in.name, defer_answer((in.flags & flag_durable) != 0, {}))));
  if (!late_)
    answer(empty_message{});
  return status::ok;
}

status session::on_set_flags(std::span<const std::byte> body) {
  flags_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  if ((in.flags & ~flags_of_objects) != 0)
    return status::invalid;
  TND_TRY(cancel_deferral_on_error(
      with_.objects.set_flags(space_id_, in.name, in.flags, defer_answer(false, {}))));
  if (!late_)
    answer(empty_message{});
  return status::ok;
}

status session::on_set_commit(std::span<const std::byte> body) {
  set_commit_request in;
  TND_TRY(decode(body, in));
  TND_TRY(demand_writer());
  bool const durable = (in.flags & flag_durable) != 0;
  if (durable && !with_.objects.is_durable())
    return fail(status::not_supported, "this pool keeps nothing beyond its life");
  TND_TRY(cancel_deferral_on_error(
      with_.objects.set_commit(space_id_, in.set, in.count, defer_answer(durable, {}))));
  if (!late_)
    answer(empty_message{});
  return status::ok;
}

status session::on_statistics(std::span<const std::byte> body) {
  empty_message in;
  TND_TRY(decode(body, in));
  auto const of_all = with_.objects.statistics();
  auto const of_space = with_.objects.statistics_of(space_id_);
  auto const &counters = with_.counters;
  answer(statistics_reply{
      counters.client_count.load(), with_.memory.capacity(), with_.memory.used(),
      of_all.object_count, of_space.used, of_space.object_count, of_space.quota,
      counters.written.sum(), counters.read.sum(), of_all.commits, of_all.opens, of_all.evictions,
      counters.errors.sum(), port::monotonic_clock().now_ns() - with_.started_ns});
  return status::ok;
}

status session::end_create(byte_job &job) {
  handle &made = job.whole;
  if (job.source != nullptr)
    TND_TRY(demand_whole(*job.source));
  if (!made.set.empty())
    TND_TRY(with_.objects.join_set(space_id_, made.set, id_));
  auto id = keep(std::move(made));
  if (!id.ok())
    return id.error();
  answer_object(id.value(), handles_[id.value()]);
  return status::ok;
}

// The ranges of an object being written take memory of the daemon's.
void session::bound_ranges(handle &of) {
  if (of.written.count() <= written_range_count_max || job_ != nullptr)
    return;
  if (shares_memory_ || !fabric_peer_.empty()) {
    size_t all = 0;
    for (auto const &[id, one] : handles_)
      all += one.written.count();
    if (all > unseen_range_count_max) {
      of.has_too_many_ranges = true;
      of.written = {};
    }
    return;
  }
  job_ = std::make_unique<byte_job>();
  job_->target = &of;
  job_->clears = true;
}

// Commits: clear what was not written, sum, publish.
status session::begin_commit(std::unique_ptr<byte_job> job) {
  const commit_terms &terms = job->terms;
  if ((terms.flags & ~commit_flags) != 0 || !pool::is_checksum_kind(terms.checksum_kind))
    return status::invalid;
  if ((terms.flags & flag_durable) != 0 && !with_.objects.is_durable()) {
    return fail(status::not_supported, "this pool keeps nothing beyond its life");
  }
  auto const kind = pool::checksum_kind(terms.checksum_kind);
  bool const sums = kind != pool::checksum_kind::none &&
                    (!terms.has_checksum || (terms.flags & flag_verify) != 0);
  job->clears = true;
  if (sums)
    job->sum = pool::checksum{kind};
  job->then = sums ? &session::end_sum : &session::end_commit;
  job_ = std::move(job);
  return status::ok;
}

void session::copy_some(byte_job &at, uint64_t &budget) {
  uint64_t const size = std::min(budget, at.copy_size - at.copied_size);
  std::vector<iovec> from, to;
  at.source->parts_of(at.copied_size, size, from);
  at.target->object->parts_of(at.copied_size, size, to);
  size_t k = 0;
  for (iovec part : from) {
    while (part.iov_len > 0) {
      size_t const count = std::min(part.iov_len, to[k].iov_len);
      std::memcpy(to[k].iov_base, part.iov_base, count);
      part = {static_cast<std::byte *>(part.iov_base) + count, part.iov_len - count};
      to[k] = {static_cast<std::byte *>(to[k].iov_base) + count, to[k].iov_len - count};
      if (to[k].iov_len == 0)
        k++;
    }
  }
  at.target->written.add(at.copied_size, size);
  at.copied_size += size;
  budget -= size;
}

void session::sum_some(byte_job &at, uint64_t &budget) {
  const object &made = *at.target->object;
  uint64_t const size = std::min(budget, made.about.size - at.summed_size);
  std::vector<iovec> parts;
  made.parts_of(at.summed_size, size, parts);
  for (const iovec &one : parts)
    at.sum.add(one.iov_base, one.iov_len);
  at.summed_size += size;
  budget -= size;
}

// The fabric still writes to what would be cleared.
bool session::job_waits() const {
  if (job_ == nullptr || !job_->clears)
    return false;
  return std::any_of(fabric_writes_.begin(), fabric_writes_.end(), [&](auto const &one) {
    auto const found = handles_.find(one.second.handle);
    return found != handles_.end() && &found->second == job_->target;
  });
}

// False: it goes on at the next turn, or once the fabric is done.
bool session::step_job() {
  byte_job &at = *job_;
  if (job_waits())
    return false;
  uint64_t budget = with_.limits.turn_size, size = at.target->object->about.size;
  if (at.source != nullptr)
    copy_some(at, budget);
  if (at.copied_size < at.copy_size)
    return false;
  if (at.clears && !at.target->written.clear_gaps(*at.target->object, size, budget))
    return false;
  bool const sums = at.sum.kind() != pool::checksum_kind::none;
  if (sums)
    sum_some(at, budget);
  if (sums && at.summed_size < size)
    return false;
  auto const done = std::move(job_);
  set_last_message({});
  status const code = done->then != nullptr ? (this->*done->then)(*done) : status::ok;
  if (code != status::ok)
    answer_error(code);
  return true;
}

status session::end_sum(byte_job &job) {
  if (job.terms.has_checksum && job.terms.checksum != job.sum.value()) {
    return fail(status::corrupt, "%s: the bytes have checksum %016llx and should have %016llx",
                job.target->name.c_str(), static_cast<unsigned long long>(job.sum.value()),
                static_cast<unsigned long long>(job.terms.checksum));
  }
  job.terms.checksum = job.sum.value();
  job.terms.has_checksum = 1;
  return end_commit(job);
}

status session::end_commit(byte_job &job) {
  handle &target = *job.target;
  object &made = *target.object;
  TND_TRY(demand_whole(made));
  made.about.checksum_kind = job.terms.checksum_kind;
  made.about.checksum = job.terms.checksum_kind == 0 ? 0 : job.terms.checksum;
  if (!target.set.empty()) {
    TND_TRY(with_.objects.prepare(target.object, target.name, target.set, id_));
    target.is_writer = false;
    answer(info_reply{made.described()});
    return status::ok;
  }
  auto committed =
      with_.objects.commit(target.object, target.name, target.flags, [&](const info &about) {
        return defer_answer((job.terms.flags & flag_durable) != 0, about);
      });
  if (!committed.ok())
    return committed.error();
  target.is_writer = false;
  if (!late_)
    answer(info_reply{made.described()});
  return status::ok;
}

}  // namespace tanada::poold
