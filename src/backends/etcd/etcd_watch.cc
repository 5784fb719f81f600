// The threads of a watch.
#include "backends/etcd/etcd_watch.hpp"

#include <algorithm>

#include "backends/etcd/etcd_stream.hpp"
#include "core/base/assert.hpp"
#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"
#include "seams/os/signals_blocked.hpp"

namespace tanada::backends {

namespace {

constexpr std::chrono::seconds probe_interval{2};
constexpr uint64_t probe_timeout_ns = 2'000'000'000;
constexpr uint64_t silence_ns_max = 6'000'000'000;
constexpr uint64_t no_deadline_ns = ~uint64_t{0};

uint64_t now_ns() {
  return seams::monotonic_clock().now_ns();
}

}  // namespace

etcd_watch::etcd_watch(etcd_members &members, uint64_t timeout_ns, receiver receive)
    : members_{members}, timeout_ns_{timeout_ns}, receive_{std::move(receive)} {
  seams::signals_blocked const signal_guard;
  watch_thread_ = std::thread([this] { run_watch(); });
  probe_thread_ = std::thread([this] { run_probe(); });
}

etcd_watch::~etcd_watch() {
  {
    lock_guard const lock{mutex_};
    is_stopping_ = true;
    target_.number = 0;
    watch_interrupt_.raise();
    probe_interrupt_.raise();
    changed_.notify_all();
  }
  watch_thread_.join();
  probe_thread_.join();
}

void etcd_watch::start(uint64_t number, const std::string &prefix, uint64_t after_revision) {
  TND_ASSERT(number != 0);
  lock_guard const lock{mutex_};
  target_ = {number, prefix, after_revision};
  is_created_ = false;
  is_silent_ = false;
  watch_interrupt_.raise();
  changed_.notify_all();
}

bool etcd_watch::is_current(uint64_t number) {
  lock_guard const lock{mutex_};
  return target_.number == number;
}

void etcd_watch::run_watch() {
  for (uint64_t last = 0;;) {
    target wanted;
    {
      unique_lock lock{mutex_};
      changed_.wait(lock, [&] {
        mutex_.assert_held();
        return is_stopping_ || (target_.number != 0 && target_.number != last);
      });
      if (is_stopping_)
        return;
      wanted = target_;
      reported_revision_ = wanted.after_revision;
      watch_interrupt_.reset();
    }
    last = wanted.number;
    follow(wanted);
  }
}

// Follows one watch to its end, and reports the end.
void etcd_watch::follow(const target &wanted) {
  etcd_attempt attempt;
  for (size_t tried_count = 0; tried_count < members_.count(); tried_count++) {
    size_t const member = members_.preferred();
    attempt = follow_member(member, wanted);
    bool const is_member_lost =
        attempt.code == status::peer_lost || attempt.code == status::timed_out;
    if (is_member_lost)
      members_.report_failure(member);
    lock_guard const lock{mutex_};
    if (target_.number != wanted.number)
      return;
    if (is_created_ || !is_member_lost)
      break;
  }
  {
    lock_guard const lock{mutex_};
    is_created_ = false;
    if (is_silent_)
      attempt.code = status::timed_out;
  }
  // An end without an error is one, too.
  bool const is_ended = attempt.code == status::ok || attempt.code == status::canceled;
  // A history that is too long to receive has to be read again.
  if (attempt.code == status::too_big)
    attempt.code = status::stale;
  receive_(wanted.number, is_ended ? status::peer_lost : attempt.code);
}

etcd_attempt etcd_watch::follow_member(size_t member, const target &wanted) {
  {
    lock_guard const lock{mutex_};
    member_ = member;
  }
  // Compaction may remove the record of a removal at its very revision. A watch that begins one
  // revision early fails then, as it has to.
  auto const request = watch_call(wanted.prefix, std::max<uint64_t>(wanted.after_revision, 1));
  uint64_t const begin_ns = now_ns();
  etcd_time_limits const limits{begin_ns + timeout_ns_ / members_.count(), begin_ns + timeout_ns_};
  status line_status = status::ok;
  auto attempt = members_.call_member(
      member, request, limits, watch_interrupt_, [&](etcd_stream &stream, std::string_view line) {
        line_status = handle_line(stream, wanted, line);
        return line_status == status::ok;
      });
  if (line_status != status::ok)
    attempt.code = line_status;
  return attempt;
}

status etcd_watch::handle_line(etcd_stream &stream, const target &wanted, std::string_view line) {
  if (line.empty())
    return status::ok;
  auto answer = decode_watch(line);
  if (!answer.ok())
    return answer.error();
  if (answer.value().is_created) {
    stream.set_deadline(no_deadline_ns);
    lock_guard const lock{mutex_};
    is_created_ = target_.number == wanted.number;
  }
  return report_events(wanted, std::move(answer.value().events));
}

// Reports events whose revision is above those reported before. Their revisions must not fall.
status etcd_watch::report_events(const target &wanted, events list) {
  uint64_t reported = 0;
  {
    lock_guard const lock{mutex_};
    reported = reported_revision_;
  }
  uint64_t previous = 0;
  for (auto const &event : list) {
    if (event.entry.revision < previous)
      return status::protocol;
    previous = event.entry.revision;
  }
  std::erase_if(list, [&](auto const &event) { return event.entry.revision <= reported; });
  if (list.empty())
    return status::ok;
  {
    lock_guard const lock{mutex_};
    if (target_.number != wanted.number)
      return status::canceled;
    reported_revision_ = list.back().entry.revision;
  }
  return receive_(wanted.number, std::move(list)) ? status::ok : status::canceled;
}

void etcd_watch::run_probe() {
  probe_state state;
  for (;;) {
    target wanted;
    size_t member = 0;
    {
      unique_lock lock{mutex_};
      changed_.wait_for(lock, probe_interval, [&] {
        mutex_.assert_held();
        return is_stopping_;
      });
      if (is_stopping_)
        return;
      if (!is_created_)
        continue;
      wanted = target_;
      wanted.after_revision = reported_revision_;
      member = member_;
    }
    if (state.number != wanted.number)
      state = {.number = wanted.number, .last_success_ns = now_ns()};
    probe(state, member, wanted);
  }
}

void etcd_watch::probe(probe_state &state, size_t member, const target &wanted) {
  uint64_t const limit_ns = now_ns() + probe_timeout_ns;
  auto const attempt = members_.call_member(member,
                                            probe_call(wanted.prefix, wanted.after_revision),
                                            {limit_ns, limit_ns},
                                            probe_interrupt_);
  if (attempt.code != status::ok) {
    if (now_ns() - state.last_success_ns > silence_ns_max)
      end_as_silent(wanted.number);
    return;
  }
  state.last_success_ns = now_ns();
  auto const range = decode_range(attempt.answer);
  bool const has_lag = range.ok() && !range.value().entries.empty();
  // The watch has reported nothing since the first probe that found a change.
  bool const is_stuck = has_lag && state.lag_revision == wanted.after_revision + 1;
  if (is_stuck && now_ns() - state.lag_begin_ns > silence_ns_max) {
    end_as_silent(wanted.number);
  } else if (!is_stuck) {
    state.lag_begin_ns = now_ns();
    state.lag_revision = has_lag ? wanted.after_revision + 1 : 0;
  }
}

void etcd_watch::end_as_silent(uint64_t number) {
  lock_guard const lock{mutex_};
  if (target_.number != number || !is_created_)
    return;
  log(log_level::warning, "etcd: the watch was silent, and is ended");
  is_silent_ = true;
  watch_interrupt_.raise();
}

}  // namespace tanada::backends
