// products/poold/jobs.cc: what a session does to an object's bytes itself: copying, clearing and
// summing, in bounded turns.
#include <algorithm>
#include <cstring>

#include "core/base/log.hpp"
#include "products/poold/session.hpp"

namespace tanada::poold {

using namespace wire::pool;

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
  auto committed = with_.objects.commit(
      target.object, target.name, target.flags,
      [&](const info &about) { return later((job.terms.flags & flag_durable) != 0, about); });
  if (!committed.ok())
    return committed.error();
  target.is_writer = false;
  if (!late_)
    answer(info_reply{made.described()});
  return status::ok;
}

}  // namespace tanada::poold
