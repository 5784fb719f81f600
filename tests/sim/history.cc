// tests/sim/history.cc: records histories, divides them into groups of names, and explains why a
// group's operations have no order.
#include "history.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "core/base/assert.hpp"
#include "history_search.hpp"

namespace tanada::test {
namespace {

constexpr std::array kind_names{"put",
                                "exclusive put",
                                "remove",
                                "get",
                                "rename",
                                "exclusive rename",
                                "commit",
                                "exclusive commit",
                                "list"};
constexpr size_t name_count_shown = 12;
constexpr size_t state_count_shown = 8;

bool is_valid(value_id value) {
  return value != value_absent && value != value_unobserved;
}

bool is_rename(operation_kind kind) {
  return kind == operation_kind::rename || kind == operation_kind::rename_exclusive;
}

bool is_exclusive(operation_kind kind) {
  return kind == operation_kind::put_exclusive || kind == operation_kind::rename_exclusive ||
         kind == operation_kind::commit_exclusive;
}

bool is_read(operation_kind kind) {
  return kind == operation_kind::get || kind == operation_kind::list;
}

std::vector<name_observation> with_values(const std::vector<name_value> &values) {
  std::vector<name_observation> names;
  for (auto const &[name, value] : values)
    names.emplace_back(name, observation::value(value));
  return names;
}

std::string text_of(value_id value) {
  if (value == value_absent)
    return "absent";
  if (value == value_unobserved)
    return "a value that no operation identified";
  return std::to_string(value);
}

std::string text_of(const observation &observed) {
  return observed.type == observation::kind::present ? "present" : text_of(observed.id);
}

std::string text_of_names(const operation &op) {
  if (is_rename(op.kind))
    return op.names[0].first + " to " + op.names[1].first;
  bool const has_values =
      op.kind != operation_kind::remove && (!is_read(op.kind) || op.status == operation_status::ok);
  std::string text;
  for (size_t index = 0; index < std::min(op.names.size(), name_count_shown); index++) {
    text += (index == 0 ? "" : ", ") + op.names[index].first;
    if (has_values)
      text += (is_read(op.kind) ? ": " : " = ") + text_of(op.names[index].second);
  }
  if (op.names.size() > name_count_shown)
    text += ", and " + std::to_string(op.names.size() - name_count_shown) + " more";
  return text;
}

std::string outcome_of(const operation &op) {
  if (op.status == operation_status::ok)
    return "ok";
  if (op.status == operation_status::unknown)
    return "outcome unknown";
  if (op.cause == failure_cause::exists)
    return "failed: exists";
  return op.cause == failure_cause::not_found ? "failed: not found" : "failed";
}

std::string text_of(const std::vector<std::string> &names) {
  std::string text;
  for (size_t index = 0; index < std::min(names.size(), name_count_shown); index++)
    text += " '" + names[index] + "'";
  if (names.size() > name_count_shown)
    text += " and " + std::to_string(names.size() - name_count_shown) + " names";
  return text;
}

// Disjoint sets of names.
class name_sets {
 public:
  size_t number_of(const std::string &name) {
    auto const [entry, is_new] = numbers_.emplace(name, parents_.size());
    if (is_new)
      parents_.push_back(entry->second);
    return entry->second;
  }
  size_t root_of(size_t number) {
    while (parents_[number] != number) {
      parents_[number] = parents_[parents_[number]];
      number = parents_[number];
    }
    return number;
  }
  void join(const std::string &name, const std::string &peer) {
    size_t const root = root_of(number_of(name));
    parents_[root_of(number_of(peer))] = root;
  }
  const std::map<std::string, size_t> &numbers() const {
    return numbers_;
  }

 private:
  std::map<std::string, size_t> numbers_;
  std::vector<size_t> parents_;
};

struct name_group {
  std::vector<std::string> names;
  std::vector<search_step> steps;
  name_state initial;
};

// What the search found for one group.
struct group_finding {
  const name_group *group = nullptr;
  search_result result;
};

class history_check {
 public:
  history_check(const history &checked, const check_options &options)
      : history_{checked}, options_{options} {}

  std::string run() {
    join_names();
    make_groups();
    std::optional<group_finding> rejected;
    std::optional<group_finding> undecided;
    for (name_group const &item : groups_) {
      group_finding finding{&item, search_group(item.steps, item)};
      if (finding.result.outcome == search_result::verdict::undecided && !undecided)
        undecided = std::move(finding);
      else if (finding.result.outcome == search_result::verdict::rejected)
        if (!rejected || end_of(finding) < end_of(*rejected))
          rejected = std::move(finding);
    }
    if (rejected)
      return explain(*rejected);
    return undecided ? describe_undecided(*undecided) : std::string{};
  }

 private:
  void join_names();
  void make_groups();
  void add_steps(size_t id);
  void add_step(search_step added, const operation &op, const std::vector<name_observation> &names);
  void add_conditions(search_step &step, const operation &op);
  void add_failure(search_step &step, const operation &op);
  void add_assignments(search_step &step, const operation &op);
  bool has_step(const operation &op) const;
  std::string explain(const group_finding &finding);
  std::vector<bool> reduce(const std::vector<search_step> &steps, const name_group &group);
  bool is_rejected(const std::vector<search_step> &steps,
                   const std::vector<bool> &is_kept,
                   const name_group &group);
  std::string describe_undecided(const group_finding &finding) const;
  size_t find_response(const group_finding &finding) const;
  void add_sources(std::set<size_t> &shown, const name_group &group) const;
  static std::string describe_baseless(const search_step &failed, const name_group &group);
  std::string describe_states(const search_step &failed, const name_group &group) const;

  search_result search_group(const std::vector<search_step> &steps, const name_group &group) const {
    return search(steps, group.initial, {options_.configuration_count_max, false});
  }
  static uint64_t end_of(const group_finding &finding) {
    return finding.group->steps[finding.result.step].end;
  }
  // The place of a name in its group.
  uint32_t index_of(const std::string &name) {
    return indexes_[sets_.number_of(name)];
  }
  name_group &group_of(const std::string &name) {
    return groups_[group_numbers_[sets_.root_of(sets_.number_of(name))]];
  }

  const history &history_;
  check_options options_;
  name_sets sets_;
  std::vector<name_group> groups_;
  std::map<size_t, size_t> group_numbers_;  // by the root of the set
  std::vector<uint32_t> indexes_;           // of names
  uint64_t work_left_ = 0;                  // configurations that reductions may visit
};

// Reads without an outcome, and failures that observed nothing, mean nothing.
bool history_check::has_step(const operation &op) const {
  if (op.status == operation_status::failed)
    return !is_read(op.kind) && op.cause != failure_cause::unspecified;
  return op.status == operation_status::ok || !is_read(op.kind);
}

void history_check::join_names() {
  for (operation const &item : history_.operations()) {
    if (!has_step(item) || item.names.empty())
      continue;
    bool const is_divided = item.kind == operation_kind::list && !options_.has_atomic_lists;
    for (auto const &[name, observed] : item.names) {
      sets_.number_of(name);
      if (!is_divided)
        sets_.join(item.names.front().first, name);
    }
  }
  for (auto const &[name, value] : history_.presets())
    sets_.number_of(name);
}

void history_check::make_groups() {
  indexes_.resize(sets_.numbers().size());
  for (auto const &[name, number] : sets_.numbers()) {
    auto const [entry, is_new] = group_numbers_.emplace(sets_.root_of(number), groups_.size());
    if (is_new)
      groups_.emplace_back();
    name_group &group = groups_[entry->second];
    indexes_[number] = uint32_t(group.names.size());
    group.names.push_back(name);
    group.initial.push_back(value_absent);
  }
  for (auto const &[name, value] : history_.presets())
    group_of(name).initial[index_of(name)] = value;
  for (size_t id = 0; id < history_.operations().size(); id++)
    add_steps(id);
}

void history_check::add_steps(size_t id) {
  operation const &op = history_.operations()[id];
  if (!has_step(op) || op.names.empty())
    return;
  search_step step;
  step.begin = op.begin_position;
  step.end = op.status == operation_status::unknown ? 0 : op.end_position;
  step.operation = id;
  if (op.kind == operation_kind::list && !options_.has_atomic_lists) {
    for (auto const &item : op.names) {
      step.conditions = {{index_of(item.first), item.second}};
      group_of(item.first).steps.push_back(step);
    }
    return;
  }
  if (op.status == operation_status::failed) {
    add_failure(step, op);
  } else {
    add_conditions(step, op);
    add_assignments(step, op);
  }
  if (!step.conditions.empty() || !step.assignments.empty())
    group_of(op.names.front().first).steps.push_back(std::move(step));
}

// What holds before an operation that takes effect.
void history_check::add_conditions(search_step &step, const operation &op) {
  if (is_read(op.kind)) {
    for (auto const &[name, observed] : op.names)
      step.conditions.push_back({index_of(name), observed});
    return;
  }
  if (is_rename(op.kind)) {
    step.conditions.push_back({index_of(op.names[0].first), observation::present()});
    if (is_exclusive(op.kind) && op.names[0].first != op.names[1].first)
      step.conditions.push_back({index_of(op.names[1].first), observation::absent()});
    return;
  }
  if (op.kind == operation_kind::remove && !options_.has_idempotent_remove)
    step.conditions.push_back({index_of(op.names[0].first), observation::present()});
  if (is_exclusive(op.kind))
    for (auto const &[name, value] : op.names)
      step.conditions.push_back({index_of(name), observation::absent()});
}

// What held when an operation failed.
void history_check::add_failure(search_step &step, const operation &op) {
  if (op.cause == failure_cause::not_found) {
    step.conditions.push_back({index_of(op.names[0].first), observation::absent()});
    return;
  }
  step.needs_one_condition = true;
  for (size_t index = is_rename(op.kind) ? 1 : 0; index < op.names.size(); index++)
    step.conditions.push_back({index_of(op.names[index].first), observation::present()});
}

void history_check::add_assignments(search_step &step, const operation &op) {
  if (is_read(op.kind))
    return;
  if (!is_rename(op.kind)) {
    for (auto const &[name, observed] : op.names)
      step.assignments.push_back({index_of(name), observed.id, std::nullopt});
    return;
  }
  uint32_t const old_index = index_of(op.names[0].first);
  uint32_t const new_index = index_of(op.names[1].first);
  if (old_index == new_index)
    return;
  step.assignments.push_back({old_index, value_absent, std::nullopt});
  step.assignments.push_back({new_index, value_absent, old_index});
}

// The operations until a response. Those without a response then are optional.
std::vector<search_step> steps_until(const std::vector<search_step> &steps, uint64_t end) {
  std::vector<search_step> early;
  for (search_step item : steps) {
    if (item.begin > end)
      continue;
    if (item.end > end)
      item.end = 0;
    early.push_back(std::move(item));
  }
  return early;
}

// Observers that are not kept are omitted, other steps become optional at any time: if no order
// explains the rest, then no order explains the whole.
bool history_check::is_rejected(const std::vector<search_step> &steps,
                                const std::vector<bool> &is_kept,
                                const name_group &group) {
  std::vector<search_step> rest;
  for (size_t index = 0; index < steps.size(); index++) {
    search_step step = steps[index];
    if (!is_kept[index]) {
      if (step.assignments.empty())
        continue;
      step.begin = 0;
      step.end = 0;
    }
    rest.push_back(std::move(step));
  }
  search_result const result = search(std::move(rest), group.initial, {work_left_, false});
  work_left_ -= std::min(work_left_, result.configuration_count);
  return result.outcome == search_result::verdict::rejected;
}

// Finds few steps that have no order, whatever the others did.
std::vector<bool> history_check::reduce(const std::vector<search_step> &steps,
                                        const name_group &group) {
  std::vector<bool> is_kept(steps.size(), true);
  uint32_t count = 0;
  work_left_ = options_.configuration_count_max;
  for (size_t length = (steps.size() + 1) / 2; length > 0; length = length / 2) {
    for (size_t first = 0; first < steps.size(); first += length) {
      size_t const last = std::min(first + length, steps.size());
      std::vector<bool> tried = is_kept;
      std::fill(tried.begin() + ptrdiff_t(first), tried.begin() + ptrdiff_t(last), false);
      if (tried == is_kept)
        continue;
      if (count++ == options_.reduction_count_max || work_left_ == 0)
        return is_kept;
      if (is_rejected(steps, tried, group))
        is_kept = std::move(tried);
    }
  }
  return is_kept;
}

// The first response at which the operations until then have no order.
size_t history_check::find_response(const group_finding &finding) const {
  std::vector<search_step> const &steps = finding.group->steps;
  std::vector<size_t> responses;
  for (size_t index = 0; index < steps.size(); index++)
    if (steps[index].end != 0)
      responses.push_back(index);
  std::sort(responses.begin(), responses.end(), [&](size_t left, size_t right) {
    return steps[left].end < steps[right].end;
  });
  auto const has_order = [&](size_t index) {
    auto const result = search_group(steps_until(steps, steps[index].end), *finding.group);
    return result.outcome != search_result::verdict::rejected;
  };
  auto const first = std::partition_point(responses.begin(), responses.end(), has_order);
  return first == responses.end() ? finding.result.step : *first;
}

// Adds the operations that put the values which the shown ones observed.
void history_check::add_sources(std::set<size_t> &shown, const name_group &group) const {
  std::set<value_id> values;
  for (size_t const id : shown)
    for (auto const &[name, observed] : history_.operations()[id].names)
      if (is_read(history_.operations()[id].kind))
        values.insert(observed.id);
  values.erase(value_absent);
  for (search_step const &item : group.steps)
    for (assignment const &effect : item.assignments)
      if (values.contains(effect.value))
        shown.insert(item.operation);
}

// The values that nothing put, of those that the operation observed in the group.
std::string history_check::describe_baseless(const search_step &failed, const name_group &group) {
  std::string text;
  std::set<value_id> sources(group.initial.begin(), group.initial.end());
  for (search_step const &item : group.steps)
    for (assignment const &effect : item.assignments)
      sources.insert(effect.value);
  for (condition const &item : failed.conditions)
    if (item.expected.type == observation::kind::value && !sources.contains(item.expected.id))
      text +=
          "value " + std::to_string(item.expected.id) + " is put by no operation on these names\n";
  return text;
}

std::string history_check::describe_states(const search_step &failed,
                                           const name_group &group) const {
  search_result const before = search(steps_until(group.steps, failed.end - 1),
                                      group.initial,
                                      {options_.configuration_count_max, true});
  if (before.outcome != search_result::verdict::accepted || !before.has_all_states)
    return {};
  std::set<uint32_t> names;
  for (condition const &item : failed.conditions)
    names.insert(item.name);
  std::set<std::string> lines;
  for (name_state const &state : before.states) {
    std::string line = " ";
    for (uint32_t const name : names)
      line += " " + group.names[name] + ": " + text_of(state[name]);
    lines.insert(std::move(line));
  }
  if (names.empty() || lines.size() > state_count_shown)
    return {};
  std::string text = "before it, apart from outstanding operations, possible values were:\n";
  for (std::string const &line : lines)
    text += line + "\n";
  return text;
}

std::string history_check::explain(const group_finding &finding) {
  name_group const &group = *finding.group;
  search_step const &failed = group.steps[find_response(finding)];
  std::string text = "not linearizable: no order of the operations on" + text_of(group.names);
  text += " explains the response of #" + std::to_string(failed.operation) + "\n";
  std::vector<search_step> const steps = steps_until(group.steps, failed.end);
  std::vector<bool> const is_kept = reduce(steps, group);
  std::set<size_t> shown{failed.operation};
  for (size_t index = 0; index < steps.size(); index++)
    if (is_kept[index])
      shown.insert(steps[index].operation);
  add_sources(shown, group);
  for (size_t const id : shown)
    text += "  " + describe(history_, id) + "\n";
  auto const is_other = [&](const search_step &item) {
    return !shown.contains(item.operation);
  };
  text += "the " + std::to_string(std::count_if(steps.begin(), steps.end(), is_other)) +
          " other operations until then do not explain it\n";
  return text + describe_baseless(failed, group) + describe_states(failed, group);
}

std::string history_check::describe_undecided(const group_finding &finding) const {
  search_result const &result = finding.result;
  name_group const &group = *finding.group;
  auto const number = [](uint64_t value) {
    return std::to_string(value);
  };
  bool const is_bounded = result.configuration_count >= options_.configuration_count_max;
  std::string const reason =
      is_bounded
          ? "reached the bound of " + number(options_.configuration_count_max) + " configurations"
          : "have too many outstanding ones";
  return "undecided: the operations on" + text_of(group.names) + " (" + number(group.steps.size()) +
         " operations) " + reason + "; the search came to #" +
         number(group.steps[result.step].operation) + " with " + number(result.alternative_count) +
         " alternatives and " + number(result.optional_count) + " operations of unknown outcome\n";
}

}  // namespace

void history::preset(std::string name, value_id value) {
  TND_ASSERT(operations_.empty());
  TND_ASSERT(is_valid(value));
  presets_.emplace_back(std::move(name), value);
}

history::operation_id history::begin(invocation start,
                                     operation_kind kind,
                                     std::vector<name_observation> names) {
  TND_ASSERT(start.time >= time_);
  for (auto const &[name, observed] : names)
    TND_ASSERT(observed.type != observation::kind::value || is_valid(observed.id));
  time_ = start.time;
  operation added;
  added.kind = kind;
  added.client = start.client;
  added.names = std::move(names);
  added.begin_time = start.time;
  added.begin_position = ++event_count_;
  operations_.push_back(std::move(added));
  has_ended_.push_back(false);
  return operations_.size() - 1;
}

operation &history::end(operation_id id, uint64_t time, operation_status status) {
  TND_ASSERT(id < operations_.size());
  TND_ASSERT(!has_ended_[id]);
  TND_ASSERT(time >= time_);
  time_ = time;
  has_ended_[id] = true;
  operation &ended = operations_[id];
  ended.status = status;
  ended.end_time = time;
  ended.end_position = ++event_count_;
  return ended;
}

history::operation_id history::put(invocation start, std::string name, value_id value) {
  return begin(start, operation_kind::put, {{std::move(name), observation::value(value)}});
}

history::operation_id history::put_exclusive(invocation start, std::string name, value_id value) {
  return begin(
      start, operation_kind::put_exclusive, {{std::move(name), observation::value(value)}});
}

history::operation_id history::remove(invocation start, std::string name) {
  return begin(start, operation_kind::remove, {{std::move(name), observation::absent()}});
}

history::operation_id history::get(invocation start, std::string name) {
  return begin(start, operation_kind::get, {{std::move(name), observation::absent()}});
}

history::operation_id history::rename(invocation start,
                                      std::string old_name,
                                      std::string new_name) {
  return begin(
      start,
      operation_kind::rename,
      {{std::move(old_name), observation::absent()}, {std::move(new_name), observation::absent()}});
}

history::operation_id history::rename_exclusive(invocation start,
                                                std::string old_name,
                                                std::string new_name) {
  return begin(
      start,
      operation_kind::rename_exclusive,
      {{std::move(old_name), observation::absent()}, {std::move(new_name), observation::absent()}});
}

history::operation_id history::commit(invocation start, const std::vector<name_value> &values) {
  return begin(start, operation_kind::commit, with_values(values));
}

history::operation_id history::commit_exclusive(invocation start,
                                                const std::vector<name_value> &values) {
  return begin(start, operation_kind::commit_exclusive, with_values(values));
}

history::operation_id history::list(invocation start, const std::vector<std::string> &names) {
  std::vector<name_observation> listed;
  for (std::string const &name : names)
    listed.emplace_back(name, observation::absent());
  return begin(start, operation_kind::list, std::move(listed));
}

void history::end_ok(operation_id id, uint64_t time) {
  operation const &ended = end(id, time, operation_status::ok);
  TND_ASSERT(!is_read(ended.kind));
}

void history::end_get(operation_id id, uint64_t time, observation observed) {
  operation &ended = end(id, time, operation_status::ok);
  TND_ASSERT(ended.kind == operation_kind::get);
  ended.names.front().second = observed;
}

void history::end_list(operation_id id,
                       uint64_t time,
                       const std::vector<name_observation> &observed) {
  operation &ended = end(id, time, operation_status::ok);
  TND_ASSERT(ended.kind == operation_kind::list);
  std::map<std::string, observation> names(ended.names.begin(), ended.names.end());
  for (auto const &[name, value] : observed)
    names[name] = value;
  ended.names.assign(names.begin(), names.end());
}

void history::end_failed(operation_id id, uint64_t time, failure_cause cause) {
  operation &ended = end(id, time, operation_status::failed);
  bool const is_move = ended.kind == operation_kind::remove || is_rename(ended.kind);
  TND_ASSERT(cause != failure_cause::not_found || is_move);
  TND_ASSERT(cause != failure_cause::exists || is_exclusive(ended.kind));
  ended.cause = cause;
}

void history::end_unknown(operation_id id, uint64_t time) {
  end(id, time, operation_status::unknown);
}

std::string describe(const history &source, history::operation_id id) {
  operation const &described = source.operations().at(id);
  std::string const end =
      described.end_position == 0 ? "no response" : std::to_string(described.end_time);
  return "#" + std::to_string(id) + " client " + std::to_string(described.client) + " [" +
         std::to_string(described.begin_time) + ", " + end + "] " +
         kind_names[size_t(described.kind)] + " " + text_of_names(described) + ": " +
         outcome_of(described);
}

std::string check(const history &checked, const check_options &options) {
  return history_check{checked, options}.run();
}

}  // namespace tanada::test
