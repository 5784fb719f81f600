// tests/sim/history_search.cc: searches for an order of operations on one group of names.
//
// The search of Wing and Gong, with the just-in-time order and the cache of configurations of
// [Lowe 2017]. It follows the events of the history, and keeps all configurations that explain the
// events until then. A configuration is the state of the names, the outstanding steps that took
// effect, and the optional steps that did. At a response, each configuration is extended by orders
// of outstanding steps that end with the step that responds. Where no step is outstanding, only
// states remain: the history is cut there by itself.
//
// What keeps the number of configurations low, without loss of an explanation:
// - An observer whose conditions hold takes effect at once, since this excludes nothing.
// - A step takes effect early only if a later step of the same extension touches its names.
//   Otherwise it could as well take effect after the response.
// - An optional step takes effect immediately before a step that touches its names. A step on one
//   name does so only before one that reads this name. Otherwise it need not take effect.
// - Of optional steps with the same effect, the first takes effect first.
// - Of configurations that differ only in their optional steps, those with the fewest are kept.
// - A value that is lost, although an observer still needs it, ends a configuration.
// - Values that no further observer needs become one value.
//
// Optional steps on several names can still leave very many configurations, of which any one may be
// the right one. Therefore first passes keep only the few that use the fewest optional steps. An
// order that they find is one. The last pass excludes nothing without proof.
#include "history_search.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/assert.hpp"

namespace tanada::test {
namespace {

constexpr uint32_t slot_count_max = 64;  // bits of `done`
constexpr size_t no_limit = ~size_t{0};

// Configurations that a pass keeps after a response. While it extends them it visits a multiple.
struct pass_limits {
  size_t kept_count_max = no_limit;
  size_t visited_count_max = no_limit;
  size_t added_count_max = no_limit;  // optional steps of one extension
  size_t used_count_max = no_limit;   // alternative sets of optional steps for one state
  bool is_exhaustive = false;
};
constexpr std::array<pass_limits, 5> passes{{
    {8, 500, 1, 1, false},
    {64, 2000, 1, 2, false},
    {512, 20000, 2, 4, false},
    {no_limit, no_limit, no_limit, no_limit, false},
    {no_limit, no_limit, no_limit, no_limit, true},
}};

using step_list = std::vector<uint32_t>;  // indexes of steps, sorted

struct configuration {
  uint64_t done = 0;       // bits: slots of outstanding steps that took effect
  name_state state;        //
  step_list used;          // optional steps that took effect
  step_list untouched;     // steps of this extension whose names no later step touched yet
  size_t added_count = 0;  // optional steps of this extension
};

bool includes(const step_list &list, const step_list &part) {
  return std::includes(list.begin(), list.end(), part.begin(), part.end());
}

bool contains(const step_list &list, uint32_t index) {
  return std::binary_search(list.begin(), list.end(), index);
}

void insert(step_list &list, uint32_t index) {
  list.insert(std::upper_bound(list.begin(), list.end(), index), index);
}

bool holds(const condition &required, const name_state &state) {
  value_id const value = state[required.name];
  switch (required.expected.type) {
    case observation::kind::absent:
      return value == value_absent;
    case observation::kind::present:
      return value != value_absent;
    case observation::kind::value:
      return value == required.expected.id;
  }
  return false;
}

bool holds(const search_step &step, const name_state &state) {
  auto const is_true = [&](const condition &item) {
    return holds(item, state);
  };
  auto const &conditions = step.conditions;
  if (step.needs_one_condition)
    return std::any_of(conditions.begin(), conditions.end(), is_true);
  return std::all_of(conditions.begin(), conditions.end(), is_true);
}

name_state state_after(const search_step &step, const name_state &state) {
  name_state next = state;
  for (assignment const &item : step.assignments)
    next[item.name] = item.source ? state[*item.source] : item.value;
  return next;
}

// Configurations without those that use more optional steps than another one.
class configuration_set {
 public:
  explicit configuration_set(size_t used_count_max = no_limit) : used_count_max_{used_count_max} {}

  // False: an equal or better one is there.
  bool insert(configuration added) {
    auto &lists = used_[key_of(added)];
    for (step_list const &item : lists)
      if (includes(added.used, item))
        return false;
    std::erase_if(lists, [&](const step_list &item) { return includes(item, added.used); });
    if (lists.size() >= used_count_max_) {
      has_excess_ = true;
      return false;
    }
    lists.push_back(added.used);
    list_.push_back(std::move(added));
    return true;
  }
  // Those that no later one was better than.
  std::vector<configuration> take() {
    std::erase_if(list_, [&](const configuration &item) { return !is_current(item); });
    return std::move(list_);
  }
  bool is_current(const configuration &item) const {
    auto const &lists = used_.at(key_of(item));
    return std::find(lists.begin(), lists.end(), item.used) != lists.end();
  }
  size_t size() const {
    return list_.size();
  }
  // Configurations were refused because of the limit.
  bool has_excess() const {
    return has_excess_;
  }
  const configuration &at(size_t index) const {
    return list_[index];
  }

 private:
  using key = std::vector<uint64_t>;
  struct key_hash {
    size_t operator()(const key &hashed) const {
      uint64_t sum = 0xCBF29CE484222325u;
      for (uint64_t const word : hashed) {
        sum = (sum ^ word) * 0x9E3779B97F4A7C15u;
        sum ^= sum >> 32;
      }
      return size_t(sum);
    }
  };

  static key key_of(const configuration &subject) {
    key built;
    built.reserve(2 + subject.untouched.size() + subject.state.size());
    built.push_back(subject.done);
    built.push_back(subject.untouched.size());
    built.insert(built.end(), subject.untouched.begin(), subject.untouched.end());
    built.insert(built.end(), subject.state.begin(), subject.state.end());
    return built;
  }

  std::unordered_map<key, std::vector<step_list>, key_hash> used_;
  std::vector<configuration> list_;
  size_t used_count_max_;
  bool has_excess_ = false;
};

// What a step does to the names.
struct footprint {
  step_list names;  // indexes of names
  step_list reads;  // indexes of names
  bool is_optional = false;
  bool is_observer = false;
  bool is_removal = false;
  uint32_t slot = 0;  // while it is outstanding
};

footprint footprint_of(const search_step &step) {
  std::set<uint32_t> names;
  std::set<uint32_t> reads;
  bool is_removal = true;
  for (condition const &item : step.conditions)
    reads.insert(item.name);
  for (assignment const &item : step.assignments) {
    names.insert(item.name);
    if (item.source)
      reads.insert(*item.source);
    is_removal = is_removal && !item.source && item.value == value_absent;
  }
  names.insert(reads.begin(), reads.end());
  TND_ASSERT(!names.empty());
  footprint result;
  result.names.assign(names.begin(), names.end());
  result.reads.assign(reads.begin(), reads.end());
  result.is_optional = step.end == 0;
  result.is_observer = step.assignments.empty();
  result.is_removal = is_removal && names.size() == 1;
  return result;
}

class group_search {
 public:
  group_search(std::vector<search_step> steps,
               name_state initial,
               const pass_limits &limits,
               const search_options &options)
      : steps_{std::move(steps)}, limits_{limits}, options_{options} {
    merge_unobserved(initial);
    for (value_id const value : initial)
      value_uses_[value].source_count++;
    for (uint32_t index = 0; index < steps_.size(); index++)
      add_step(index);
    std::sort(events_.begin(), events_.end());
    configurations_.push_back({0, std::move(initial), {}, {}, 0});
  }

  search_result run() {
    for (event const &item : events_) {
      if (!item.is_end) {
        open(item.step);
      } else if (!close(item.step)) {
        stop(search_result::verdict::rejected);
      }
      if (result_.outcome != search_result::verdict::accepted) {
        result_.step = item.step;
        result_.step_end = item.position;
        return std::move(result_);
      }
    }
    std::set<name_state> states;
    for (configuration const &item : configurations_)
      states.insert(item.state);
    result_.states.assign(states.begin(), states.end());
    result_.has_all_states = !has_guessed_;
    return std::move(result_);
  }
  // An explanation may have been excluded without proof.
  bool has_guessed() const {
    return has_guessed_;
  }

 private:
  struct event {
    uint64_t position;
    bool is_end;
    uint32_t step;

    auto operator<=>(const event &) const = default;
  };
  // Steps that put a value and those that expect it.
  struct value_use {
    uint32_t source_count = 0;
    uint32_t future_count = 0;  // observers that are not invoked yet
  };

  void merge_unobserved(name_state &initial);
  void add_step(uint32_t index);
  void open(uint32_t index);
  bool close(uint32_t index);
  void release(uint32_t index);
  void begin_close(uint32_t index);
  void end_close(std::vector<configuration> successors);
  void mark_related(uint32_t index);
  void extend(const configuration &base);
  void try_step(const configuration &base, uint32_t index);
  bool touch(configuration &changed, uint32_t index) const;
  void observe(configuration &changed) const;
  bool is_viable(const configuration &checked);
  bool has_follower(const configuration &checked, const step_list &optional) const;
  bool is_lost(value_id value, const configuration &holder) const;
  void merge_retired(uint32_t index);
  void drop_excess();
  void stop(search_result::verdict outcome);

  bool is_done(const configuration &subject, uint32_t index) const {
    return (subject.done >> footprints_[index].slot & 1) != 0;
  }
  // The first optional step of a class that can still take effect.
  std::optional<uint32_t> first_unused(const step_list &members, const step_list &used) const {
    for (uint32_t const item : members)
      if (!contains(used, item))
        return item;
    return std::nullopt;
  }
  bool touches(uint32_t index, uint32_t prior) const {
    for (uint32_t const name : footprints_[index].names)
      if (contains(footprints_[prior].names, name))
        return true;
    return false;
  }
  // Whether `index` can be the first step after the optional `prior` that touches its names. What
  // removes a value that an optional step put could take effect without it.
  bool can_follow(uint32_t index, uint32_t prior) const {
    footprint const &later = footprints_[index];
    footprint const &earlier = footprints_[prior];
    if (!touches(index, prior))
      return false;
    if (earlier.names.size() > 1)
      return true;
    if (later.is_optional && later.is_removal)
      return false;
    return contains(later.reads, earlier.names.front());
  }

  std::vector<search_step> steps_;
  std::vector<footprint> footprints_;
  std::vector<event> events_;
  pass_limits limits_;
  search_options options_;
  bool has_guessed_ = false;

  std::vector<configuration> configurations_;
  uint64_t slots_ = 0;   // bits: those in use
  step_list writers_;    // outstanding
  step_list observers_;  // outstanding
  using step_effect = std::tuple<std::vector<condition>, std::vector<assignment>>;
  std::map<step_effect, size_t> class_numbers_;
  std::vector<step_list> classes_;  // optional steps that were invoked, by effect
  std::unordered_map<value_id, value_use> value_uses_;

  // Of the response that is being explained.
  uint32_t target_ = 0;
  step_list related_names_;
  configuration_set visited_;
  configuration_set extended_;

  search_result result_;
};

// Values that no step expects become one value.
void group_search::merge_unobserved(name_state &initial) {
  if (options_.has_all_values)
    return;
  std::set<value_id> observed{value_absent};
  for (search_step const &item : steps_)
    for (condition const &required : item.conditions)
      if (required.expected.type == observation::kind::value)
        observed.insert(required.expected.id);
  for (search_step &item : steps_)
    for (assignment &effect : item.assignments)
      if (!observed.contains(effect.value))
        effect.value = value_unobserved;
  for (value_id &value : initial)
    if (!observed.contains(value))
      value = value_unobserved;
}

void group_search::add_step(uint32_t index) {
  search_step const &step = steps_[index];
  TND_ASSERT(step.end == 0 || step.begin < step.end);
  footprints_.push_back(footprint_of(step));
  events_.push_back({step.begin, false, index});
  if (step.end != 0)
    events_.push_back({step.end, true, index});
  for (condition const &item : step.conditions)
    if (item.expected.type == observation::kind::value && step.end != 0)
      value_uses_[item.expected.id].future_count++;
  for (assignment const &item : step.assignments)
    if (!item.source)
      value_uses_[item.value].source_count++;
}

void group_search::stop(search_result::verdict outcome) {
  result_.outcome = outcome;
  result_.alternative_count = configurations_.size();
  for (step_list const &item : classes_)
    result_.optional_count += item.size();
}

void group_search::open(uint32_t index) {
  footprint &opened = footprints_[index];
  if (opened.is_optional) {
    if (opened.is_observer)
      return;
    step_effect effect{steps_[index].conditions, steps_[index].assignments};
    auto const [entry, is_new] = class_numbers_.emplace(std::move(effect), classes_.size());
    if (is_new)
      classes_.emplace_back();
    insert(classes_[entry->second], index);
    return;
  }
  while (opened.slot < slot_count_max && (slots_ >> opened.slot & 1) != 0)
    opened.slot++;
  if (opened.slot == slot_count_max) {
    stop(search_result::verdict::undecided);
    return;
  }
  slots_ |= uint64_t{1} << opened.slot;
  for (condition const &item : steps_[index].conditions)
    if (item.expected.type == observation::kind::value)
      value_uses_[item.expected.id].future_count--;
  insert(opened.is_observer ? observers_ : writers_, index);
  if (opened.is_observer)
    for (configuration &item : configurations_)
      observe(item);
}

// Outstanding observers whose conditions hold take effect.
void group_search::observe(configuration &changed) const {
  for (uint32_t const item : observers_) {
    if (is_done(changed, item) || !holds(steps_[item], changed.state))
      continue;
    changed.done |= uint64_t{1} << footprints_[item].slot;
    std::erase_if(changed.untouched, [&](uint32_t prior) { return touches(item, prior); });
  }
}

// The names that steps connect with those of the step that responds. An observer connects names,
// since a step may have to precede it, and the observer the step that responds.
void group_search::mark_related(uint32_t index) {
  related_names_ = footprints_[index].names;
  step_list candidates = writers_;
  candidates.insert(candidates.end(), observers_.begin(), observers_.end());
  for (step_list const &item : classes_)
    if (!item.empty())
      candidates.push_back(item.front());
  bool has_grown = true;
  while (has_grown) {
    has_grown = false;
    std::erase_if(candidates, [&](uint32_t item) {
      auto const &names = footprints_[item].names;
      if (std::none_of(names.begin(), names.end(), [&](uint32_t name) {
            return contains(related_names_, name);
          }))
        return false;
      for (uint32_t const name : names)
        if (!contains(related_names_, name)) {
          insert(related_names_, name);
          has_grown = true;
        }
      return true;
    });
  }
}

void group_search::begin_close(uint32_t index) {
  target_ = index;
  visited_ = configuration_set{limits_.used_count_max};
  extended_ = configuration_set{limits_.used_count_max};
  mark_related(index);
  for (configuration &item : configurations_) {
    ++result_.configuration_count;
    item.added_count = 0;
    if (is_done(item, index)) {
      item.done &= ~(uint64_t{1} << footprints_[index].slot);
      extended_.insert(std::move(item));
    } else {
      visited_.insert(std::move(item));
    }
  }
}

// False: no configuration explains the response of the step.
bool group_search::close(uint32_t index) {
  begin_close(index);
  for (size_t next = 0; next < visited_.size(); next++) {
    if (result_.configuration_count > options_.configuration_count_max) {
      stop(search_result::verdict::undecided);
      return true;
    }
    if (next >= limits_.visited_count_max || extended_.size() / 2 >= limits_.kept_count_max) {
      has_guessed_ = true;
      break;
    }
    configuration const base = visited_.at(next);
    if (visited_.is_current(base))
      extend(base);
  }
  has_guessed_ = has_guessed_ || visited_.has_excess() || extended_.has_excess();
  if (extended_.size() == 0)
    return false;
  release(index);
  end_close(extended_.take());
  merge_retired(index);
  drop_excess();
  return true;
}

void group_search::drop_excess() {
  if (configurations_.size() <= limits_.kept_count_max)
    return;
  has_guessed_ = true;
  std::stable_sort(configurations_.begin(),
                   configurations_.end(),
                   [](const configuration &left, const configuration &right) {
                     return left.used.size() < right.used.size();
                   });
  configurations_.resize(limits_.kept_count_max);
}

// Values whose last observer responded become one value.
void group_search::merge_retired(uint32_t index) {
  if (options_.has_all_values)
    return;
  std::set<value_id> retired;
  for (condition const &item : steps_[index].conditions)
    if (item.expected.type == observation::kind::value &&
        value_uses_[item.expected.id].future_count == 0)
      retired.insert(item.expected.id);
  for (uint32_t const item : observers_)
    for (condition const &required : steps_[item].conditions)
      retired.erase(required.expected.id);
  if (retired.empty())
    return;
  configuration_set merged;
  for (configuration &item : configurations_) {
    for (value_id &value : item.state)
      if (retired.contains(value))
        value = value_unobserved;
    merged.insert(std::move(item));
  }
  configurations_ = merged.take();
}

void group_search::release(uint32_t index) {
  slots_ &= ~(uint64_t{1} << footprints_[index].slot);
  std::erase(footprints_[index].is_observer ? observers_ : writers_, index);
}

// Optional steps that took effect in all configurations are no longer outstanding.
void group_search::end_close(std::vector<configuration> successors) {
  configurations_ = std::move(successors);
  step_list common = configurations_.front().used;
  for (configuration const &item : configurations_)
    std::erase_if(common, [&](uint32_t used) { return !contains(item.used, used); });
  if (common.empty())
    return;
  auto const is_common = [&](uint32_t used) {
    return contains(common, used);
  };
  for (configuration &item : configurations_)
    std::erase_if(item.used, is_common);
  for (step_list &item : classes_)
    std::erase_if(item, is_common);
}

void group_search::extend(const configuration &base) {
  for (uint32_t const item : writers_)
    if (!is_done(base, item))
      try_step(base, item);
  for (step_list const &item : classes_)
    if (auto const unused = first_unused(item, base.used))
      try_step(base, *unused);
}

void group_search::try_step(const configuration &base, uint32_t index) {
  footprint const &tried = footprints_[index];
  if (!contains(related_names_, tried.names.front()) || !holds(steps_[index], base.state))
    return;
  ++result_.configuration_count;
  configuration next = base;
  if (!touch(next, index))
    return;
  next.state = state_after(steps_[index], base.state);
  if (tried.is_optional) {
    if (next.state == base.state)
      return;
    insert(next.used, index);
    if (next.added_count++ == limits_.added_count_max) {
      has_guessed_ = true;
      return;
    }
  } else {
    next.done |= uint64_t{1} << tried.slot;
  }
  if (index != target_)
    insert(next.untouched, index);
  observe(next);
  for (assignment const &item : steps_[index].assignments)
    if (is_lost(base.state[item.name], next))
      return;
  if (!is_done(next, target_)) {
    if (is_viable(next))
      visited_.insert(std::move(next));
    return;
  }
  next.done &= ~(uint64_t{1} << footprints_[target_].slot);
  if (next.untouched.empty())
    extended_.insert(std::move(next));
}

// Whether no name has the value any longer, which nothing else puts and an observer still needs.
bool group_search::is_lost(value_id value, const configuration &holder) const {
  if (value == value_absent || value == value_unobserved)
    return false;
  value_use const &use = value_uses_.at(value);
  if (use.source_count > 1 ||
      std::find(holder.state.begin(), holder.state.end(), value) != holder.state.end())
    return false;
  if (use.future_count > 0)
    return true;
  for (uint32_t const item : observers_)
    if (!is_done(holder, item))
      for (condition const &required : steps_[item].conditions)
        if (required.expected == observation::value(value))
          return true;
  return false;
}

// Removes the untouched steps that this one touches. False: one of them need not take effect here.
bool group_search::touch(configuration &changed, uint32_t index) const {
  for (uint32_t const item : changed.untouched)
    if (footprints_[item].is_optional && !can_follow(index, item))
      if (touches(index, item) || !footprints_[index].is_optional)
        return false;
  std::erase_if(changed.untouched, [&](uint32_t item) { return touches(index, item); });
  return true;
}

// Whether one step can follow the optional ones that were not touched. If each could be followed by
// a step of its own, then excluding the configuration is a guess.
bool group_search::is_viable(const configuration &checked) {
  step_list optional = checked.untouched;
  std::erase_if(optional, [&](uint32_t item) { return !footprints_[item].is_optional; });
  if (optional.empty() || has_follower(checked, optional))
    return true;
  if (limits_.is_exhaustive || optional.size() == 1)
    return optional.size() > 1;
  has_guessed_ = true;
  return false;
}

bool group_search::has_follower(const configuration &checked, const step_list &optional) const {
  auto const follows = [&](uint32_t index) {
    if (!std::all_of(optional.begin(), optional.end(), [&](uint32_t item) {
          return index != item && can_follow(index, item);
        }))
      return false;
    return footprints_[index].names.size() > 1 || holds(steps_[index], checked.state);
  };
  auto const is_writer_next = [&](uint32_t item) {
    return !is_done(checked, item) && follows(item);
  };
  // The conditions of an observer on one name do not hold, otherwise it had taken effect.
  auto const is_observer_next = [&](uint32_t item) {
    return footprints_[item].names.size() > 1 && is_writer_next(item);
  };
  auto const is_class_next = [&](const step_list &members) {
    auto const unused = first_unused(members, checked.used);
    return unused && follows(*unused);
  };
  return std::any_of(writers_.begin(), writers_.end(), is_writer_next) ||
         std::any_of(observers_.begin(), observers_.end(), is_observer_next) ||
         std::any_of(classes_.begin(), classes_.end(), is_class_next);
}

// The first response that observed a value which nothing put until then.
std::optional<uint32_t> find_baseless(const std::vector<search_step> &steps,
                                      const name_state &initial) {
  std::map<value_id, uint64_t> first_begins;
  for (value_id const value : initial)
    first_begins[value] = 0;
  for (search_step const &item : steps)
    for (assignment const &effect : item.assignments) {
      auto const [entry, is_new] = first_begins.emplace(effect.value, item.begin);
      entry->second = std::min(entry->second, item.begin);
    }
  std::optional<uint32_t> first;
  for (uint32_t index = 0; index < steps.size(); index++)
    for (condition const &item : steps[index].conditions) {
      auto const entry = first_begins.find(item.expected.id);
      if (item.expected.type != observation::kind::value || steps[index].end == 0)
        continue;
      if (entry != first_begins.end() && entry->second < steps[index].end)
        continue;
      if (!first || steps[index].end < steps[*first].end)
        first = index;
    }
  return first;
}

}  // namespace

search_result search(std::vector<search_step> steps,
                     name_state initial,
                     const search_options &options) {
  search_result result;
  uint64_t count = 0;
  for (pass_limits const &limits : passes) {
    search_options rest = options;
    rest.configuration_count_max -= count;
    group_search pass{steps, initial, limits, rest};
    search_result finding = pass.run();
    count += finding.configuration_count;
    bool const is_decided =
        finding.outcome == search_result::verdict::accepted ||
        (finding.outcome == search_result::verdict::rejected && !pass.has_guessed());
    bool const is_bounded = count >= options.configuration_count_max;
    // Of passes without a result, the one that came furthest is reported.
    if (is_decided || result.step_end <= finding.step_end)
      result = std::move(finding);
    if (!is_decided && is_bounded)
      result.outcome = search_result::verdict::undecided;
    if (is_decided || is_bounded)
      break;
  }
  result.configuration_count = count;
  if (result.outcome == search_result::verdict::undecided)
    if (auto const baseless = find_baseless(steps, initial)) {
      result.outcome = search_result::verdict::rejected;
      result.step = *baseless;
    }
  return result;
}

}  // namespace tanada::test
