// What the clients of a real cluster did and saw.
#include "load_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::test {

namespace {

constexpr size_t problem_count_max = 20;
constexpr uint64_t slow_ns = 1'000'000'000;          // calls that take longer are logged
constexpr size_t stamp_size = 2 * sizeof(uint64_t);  // of contents: value and size
constexpr uint64_t small_size = 4000, middle_size = 100'000;
constexpr uint64_t large_size_min = 600'000, large_size_max = 2'500'000;
constexpr const char *kind_names[] = {
    "put", "exclusive put", "remove", "get", "rename", "rename", "commit of a set", "", "list"};

uint64_t mix(uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
  return state ^ (state >> 31);
}

uint64_t size_of(value_id value) {
  uint64_t const random = mix(value);
  if ((value & 1) != 0)
    return large_size_min + random % (large_size_max - large_size_min);
  return stamp_size + (random >> 8) % (random % 10 == 0 ? middle_size : small_size);
}

bool is_read(operation_kind kind) {
  return kind == operation_kind::get || kind == operation_kind::list;
}

bool is_answer(tnd_status code) {
  return code == TND_OK || code == -ENOENT || code == -EEXIST;
}

std::vector<name_value> values_of(const load_call &call) {
  std::vector<name_value> values;
  for (size_t i = 0; i < call.names.size(); i++)
    values.emplace_back(call.names[i], call.values.at(i));
  return values;
}

history::operation_id begin_in(history &all, history::invocation start, const load_call &call) {
  switch (call.kind) {
    case operation_kind::put:
      return all.put(start, call.names[0], call.values[0]);
    case operation_kind::put_exclusive:
      return all.put_exclusive(start, call.names[0], call.values[0]);
    case operation_kind::remove:
      return all.remove(start, call.names[0]);
    case operation_kind::rename:
      return all.rename(start, call.names[0], call.names[1]);
    case operation_kind::commit:
      return all.commit(start, values_of(call));
    case operation_kind::list:
      return all.list(start, call.names);
    default:
      return all.get(start, call.names[0]);
  }
}

}  // namespace

std::vector<char> load_contents(value_id value) {
  uint64_t const size = size_of(value);
  std::vector<char> bytes(size);
  uint64_t const stamp[2] = {value, size};
  std::memcpy(bytes.data(), stamp, sizeof stamp);
  uint64_t state = value * 0x9E3779B97F4A7C15u;
  for (size_t i = stamp_size; i < size; i += sizeof state) {
    state = mix(state + i);
    std::memcpy(&bytes[i], &state, std::min(sizeof state, size - i));
  }
  return bytes;
}

std::vector<std::string> load_names::all() {
  std::vector<std::string> names;
  auto const add = [&](const char *prefix, int count) {
    for (int i = 0; i < count; i++)
      names.push_back(prefix + std::to_string(i));
  };
  add("plain", plain_count);
  add("moved", moved_count);
  add("set", set_count);
  add("large", large_count);
  return names;
}

load_record::load_record(uint32_t writer_count, uint32_t reader_count)
    : writer_count_{writer_count}, clients_(writer_count + reader_count) {
  mark();
}

load_record::token load_record::begin(uint32_t client, const load_call &call) {
  lock_guard lock{mutex_};
  uint64_t const time_ns = seams::monotonic_clock().now_ns();
  auto const known = versions_.find(call.names[0]);
  return {begin_in(history_, {client, time_ns}, call),
          time_ns,
          known == versions_.end() ? 0 : known->second};
}

void load_record::end(uint32_t client,
                      const token &begun,
                      const load_call &call,
                      load_outcome outcome) {
  lock_guard lock{mutex_};
  uint64_t const time_ns = seams::monotonic_clock().now_ns();
  if (is_answer(outcome.code)) {
    note_answer(client, time_ns);
    (is_read(call.kind) ? summary_.read_count : summary_.change_count)++;
  } else {
    std::string const failure =
        fmt::format("{}: {}", kind_names[size_t(call.kind)], tnd_status_name(outcome.code));
    summary_.failure_counts[failure]++;
    summary_.last_messages[failure] = tnd_last_message();
  }
  if (time_ns - begun.begin_ns > slow_ns)
    log(log_level::info,
        "client {}: {} of {} took {:.1f} s: {}",
        client,
        kind_names[size_t(call.kind)],
        call.names[0],
        double(time_ns - begun.begin_ns) / 1e9,
        tnd_status_name(outcome.code));
  if (outcome.code == TND_OK)
    acknowledged_count_ += call.values.size();
  check_status(call, outcome.code);
  note_version(call, begun, outcome);
  end_history(begun, call, outcome, time_ns);
}

void load_record::end_history(const token &begun,
                              const load_call &call,
                              const load_outcome &outcome,
                              uint64_t time_ns) {
  bool const is_ok = outcome.code == TND_OK;
  bool const has_unknown = std::ranges::any_of(
      outcome.observed, [](auto const &seen) { return seen.second.id == value_unknown; });
  if (has_unknown)
    return history_.end_unknown(begun.id, time_ns);
  bool const is_move = call.kind == operation_kind::remove || call.kind == operation_kind::rename;
  if (call.kind == operation_kind::get && is_ok)
    history_.end_get(begun.id, time_ns, outcome.observed.at(0).second);
  else if (call.kind == operation_kind::get && outcome.code == -ENOENT)
    history_.end_get(begun.id, time_ns, observation::absent());
  else if (call.kind == operation_kind::list && is_ok)
    history_.end_list(begun.id, time_ns, outcome.observed);
  else if (is_ok)
    history_.end_ok(begun.id, time_ns);
  else if (call.kind == operation_kind::put_exclusive && outcome.code == -EEXIST)
    history_.end_failed(begun.id, time_ns, failure_cause::exists);
  else if (is_move && outcome.code == -ENOENT)
    history_.end_failed(begun.id, time_ns, failure_cause::not_found);
  else
    history_.end_unknown(begun.id, time_ns);
}

void load_record::note_answer(uint32_t client, uint64_t time_ns) {
  if (client >= clients_.size())
    return;
  service &own = clients_[client];
  uint64_t &gap_ns = client < writer_count_ ? summary_.change_gap_ns : summary_.read_gap_ns;
  gap_ns = std::max(gap_ns, time_ns - own.answered_ns);
  own.answered_ns = time_ns;
}

// A call sees no version below one that was known before it began, and a change assigns a higher
// one.
void load_record::note_version(const load_call &call,
                               const token &begun,
                               const load_outcome &outcome) {
  if (outcome.version == 0 || !load_names::is_fixed(call.names[0]))
    return;
  uint64_t const version_min = begun.version_min + (is_read(call.kind) ? 0 : 1);
  if (outcome.version < version_min)
    add_problem(fmt::format(
        "{}: version {} after version {}", call.names[0], outcome.version, begun.version_min));
  uint64_t &highest = versions_[call.names[0]];
  highest = std::max(highest, outcome.version);
}

void load_record::check_status(const load_call &call, tnd_status code) {
  bool const is_move = call.kind == operation_kind::remove || call.kind == operation_kind::rename;
  bool const is_documented = code == TND_OK || code == -TND_EPEER || code == -ETIMEDOUT ||
                             code == -EAGAIN || (code == -ESTALE && call.has_handle) ||
                             (code == -ENOENT && (is_move || call.kind == operation_kind::get)) ||
                             (code == -EEXIST && call.kind == operation_kind::put_exclusive) ||
                             (!is_read(call.kind) && allowed_.contains(code));
  if (!is_documented)
    add_problem(fmt::format("{} of {} returned {}: {}",
                            kind_names[size_t(call.kind)],
                            call.names[0],
                            tnd_status_name(code),
                            tnd_last_message()));
}

void load_record::allow(std::set<tnd_status> codes) {
  lock_guard lock{mutex_};
  allowed_ = std::move(codes);
}

value_id load_record::value_of(const std::string &name, const char *bytes, uint64_t size) {
  uint64_t stamp[2] = {0, 0};
  if (size >= sizeof stamp)
    std::memcpy(stamp, bytes, sizeof stamp);
  bool const is_known = stamp[0] > 1 && (stamp[0] >> 1) < next_value_.load() && stamp[1] == size;
  if (is_known) {
    std::vector<char> const expected = load_contents(stamp[0]);
    if (expected.size() == size && std::memcmp(expected.data(), bytes, size) == 0)
      return stamp[0];
  }
  report_problem(fmt::format("{} has {} bytes that nobody put", name, size));
  return value_unknown;
}

void load_record::report_problem(const std::string &text) {
  lock_guard lock{mutex_};
  add_problem(text);
}

void load_record::add_problem(const std::string &text) {
  if (problems_.size() < problem_count_max)
    problems_.push_back(text);
}

std::vector<std::string> load_record::take_problems() {
  lock_guard lock{mutex_};
  return std::exchange(problems_, {});
}

void load_record::mark() {
  lock_guard lock{mutex_};
  summary_ = {};
  uint64_t const time_ns = seams::monotonic_clock().now_ns();
  for (service &client : clients_)
    client.answered_ns = time_ns;
}

load_summary load_record::summary() const {
  lock_guard lock{mutex_};
  load_summary result = summary_;
  uint64_t const time_ns = seams::monotonic_clock().now_ns();
  for (size_t i = 0; i < clients_.size(); i++) {
    uint64_t &gap_ns = i < writer_count_ ? result.change_gap_ns : result.read_gap_ns;
    gap_ns = std::max(gap_ns, time_ns - clients_[i].answered_ns);
  }
  return result;
}

uint64_t load_record::operation_count() const {
  lock_guard lock{mutex_};
  return history_.operations().size();
}

uint64_t load_record::take_acknowledged_count() {
  lock_guard lock{mutex_};
  return std::exchange(acknowledged_count_, 0);
}

std::string load_record::check_history(const std::vector<name_observation> &present) {
  lock_guard lock{mutex_};
  std::string explanation = check(history_);
  history_ = {};
  for (auto const &[name, observed] : present)
    if (observed.type == observation::kind::value && observed.id != value_unknown)
      history_.preset(name, observed.id);
  return explanation;
}

}  // namespace tanada::test
