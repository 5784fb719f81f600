// Goal: the checker of histories accepts every history of a linearizable store, and rejects every
// history that no order explains. Method: histories of a simulated store with delays and unknown
// outcomes; the same histories with one observation that is provably wrong; mistakes of stores one
// by one; and small random histories, whose verdict is that of all orders tried one after another.
#include "history.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>

namespace tanada::test {
namespace {

class random_source {
 public:
  explicit random_source(uint64_t seed) : engine_{seed} {}
  uint64_t below(uint64_t bound) {
    return engine_() % bound;
  }
  bool chance(uint64_t percent) {
    return below(100) < percent;
  }

 private:
  std::mt19937_64 engine_;
};

using name_map = std::map<std::string, value_id>;

// Whether an operation's target names are all absent.
bool is_free(const operation &op, const name_map &state) {
  for (size_t index = op.kind == operation_kind::rename_exclusive ? 1 : 0; index < op.names.size();
       index++)
    if (state.contains(op.names[index].first))
      return false;
  return true;
}

bool is_read(const operation &op) {
  return op.kind == operation_kind::get || op.kind == operation_kind::list;
}

bool is_exclusive(const operation &op) {
  return op.kind == operation_kind::put_exclusive || op.kind == operation_kind::rename_exclusive ||
         op.kind == operation_kind::commit_exclusive;
}

bool is_rename(const operation &op) {
  return op.kind == operation_kind::rename || op.kind == operation_kind::rename_exclusive;
}

std::optional<failure_cause> carry_out_rename(const operation &op, name_map &state) {
  std::string const &old_name = op.names[0].first;
  std::string const &new_name = op.names[1].first;
  auto const source = state.find(old_name);
  if (source == state.end())
    return failure_cause::not_found;
  if (is_exclusive(op) && old_name != new_name && !is_free(op, state))
    return failure_cause::exists;
  value_id const value = source->second;
  state.erase(source);
  state[new_name] = value;
  return std::nullopt;
}

// Carries an operation out. A definite failure is returned, and leaves the state as it was.
std::optional<failure_cause> carry_out(const operation &op, name_map &state) {
  if (is_read(op))
    return std::nullopt;
  if (is_rename(op))
    return carry_out_rename(op, state);
  if (op.kind == operation_kind::remove) {
    bool const is_removed = state.erase(op.names.front().first) == 1;
    return is_removed ? std::nullopt : std::optional{failure_cause::not_found};
  }
  if (is_exclusive(op) && !is_free(op, state))
    return failure_cause::exists;
  for (auto const &[target, observed] : op.names)
    state[target] = observed.id;
  return std::nullopt;
}

bool matches(const observation &observed, const std::string &name, const name_map &state) {
  auto const entry = state.find(name);
  if (entry == state.end())
    return observed.type == observation::kind::absent;
  return observed.type == observation::kind::present || observed.id == entry->second;
}

observation observe(const std::string &name, const name_map &state) {
  auto const entry = state.find(name);
  return entry == state.end() ? observation::absent() : observation::value(entry->second);
}

// Tries all orders of a small history, with atomic lists.
class order_search {
 public:
  explicit order_search(const history &searched) : operations_{searched.operations()} {
    is_used_.resize(operations_.size());
  }

  bool finds_order(const name_map &state = {}) {
    bool is_complete = true;
    for (size_t id = 0; id < operations_.size(); id++)
      is_complete = is_complete && (is_used_[id] || is_optional(id));
    if (is_complete)
      return true;
    for (size_t id = 0; id < operations_.size(); id++) {
      if (is_used_[id] || !can_be_next(id))
        continue;
      name_map next = state;
      if (!explains(operations_[id], next))
        continue;
      is_used_[id] = true;
      bool const is_found = finds_order(next);
      is_used_[id] = false;
      if (is_found)
        return true;
    }
    return false;
  }

 private:
  bool is_optional(size_t id) const {
    return operations_[id].status == operation_status::unknown;
  }
  bool can_be_next(size_t id) const {
    for (size_t peer = 0; peer < operations_.size(); peer++)
      if (peer != id && !is_used_[peer] && !is_optional(peer) &&
          operations_[peer].end_position < operations_[id].begin_position)
        return false;
    return true;
  }
  static bool explains(const operation &op, name_map &state) {
    if (op.status == operation_status::failed && op.cause == failure_cause::unspecified)
      return true;
    if (op.status == operation_status::failed && op.cause == failure_cause::exists)
      return !is_free(op, state);
    if (op.status == operation_status::failed)
      return !state.contains(op.names[0].first);
    if (is_read(op))
      return std::all_of(op.names.begin(), op.names.end(), [&](auto const &item) {
        return matches(item.second, item.first, state);
      });
    return carry_out(op, state) == std::nullopt;
  }

  const std::vector<operation> &operations_;
  std::vector<bool> is_used_;
};

struct workload {
  uint64_t clients = 4;
  uint64_t operations = 60;
  uint64_t names = 3;
  uint64_t unknown_percent = 10;
  uint64_t read_percent = 40;
  bool has_groups = false;  // renames and commits, too
  uint64_t pause_max = 20;
};

// Invokes a random operation, and never uses a value twice.
class operation_source {
 public:
  operation_source(random_source &random, const workload &load) : random_{random}, load_{load} {}

  history::operation_id begin(history &log, history::invocation start) {
    if (random_.chance(load_.read_percent))
      return random_.chance(85) ? log.get(start, name()) : log.list(start, {name(), name()});
    uint64_t const choice = random_.below(load_.has_groups ? 12 : 8);
    if (choice < 4)
      return log.put(start, name(), ++value_);
    if (choice < 6)
      return log.put_exclusive(start, name(), ++value_);
    if (choice < 8)
      return log.remove(start, name());
    if (choice == 8)
      return log.rename(start, name(), name());
    if (choice == 9)
      return log.rename_exclusive(start, name(), name());
    uint64_t const first = random_.below(load_.names);
    value_ += 2;
    std::vector<name_value> const values{{name_of(first), value_ - 1},
                                         {name_of((first + 1) % load_.names), value_}};
    return choice == 10 ? log.commit(start, values) : log.commit_exclusive(start, values);
  }
  uint64_t value_count() const {
    return value_;
  }

 private:
  static std::string name_of(uint64_t index) {
    return "n" + std::to_string(index);
  }
  std::string name() {
    return name_of(random_.below(load_.names));
  }

  random_source &random_;
  workload load_;
  uint64_t value_ = 0;
};

// The observation that a mutation puts in the place of the right one.
struct mutation {
  history::operation_id id;
  observation observed;
};

// A linearizable store and its clients: each operation takes effect at one moment.
class store_run {
 public:
  store_run(uint64_t seed, const workload &load, std::optional<mutation> changed = {})
      : random_{seed}, load_{load}, source_{random_, load}, changed_{changed} {}

  history run() {
    for (uint32_t client = 0; client < load_.clients; client++)
      schedule(random_.below(20), [this, client] { invoke(client); });
    while (!events_.empty()) {
      auto const entry = events_.begin();
      time_ = entry->first.first;
      auto const action = std::move(entry->second);
      events_.erase(entry);
      action();
    }
    return std::move(history_);
  }

 private:
  struct reply {
    std::optional<failure_cause> failure;
    std::vector<name_observation> observed;
  };

  void schedule(uint64_t time, std::function<void()> action) {
    events_.emplace(std::pair{time, event_count_++}, std::move(action));
  }
  void invoke(uint32_t client) {
    if (history_.operations().size() == load_.operations)
      return;
    auto const id = source_.begin(history_, {client, time_});
    uint64_t const effect_time = time_ + random_.below(20);
    uint64_t const end_time = effect_time + random_.below(20);
    auto const next = [this, client] {
      schedule(time_ + random_.below(load_.pause_max), [this, client] { invoke(client); });
    };
    if (random_.chance(load_.unknown_percent)) {
      if (random_.chance(50))
        schedule(time_ + random_.below(200), [this, id] { carry_out_now(id); });
      bool const is_reported = random_.chance(50);
      schedule(end_time, [this, id, is_reported, next] {
        if (is_reported)
          history_.end_unknown(id, time_);
        next();
      });
      return;
    }
    schedule(effect_time, [this, id] { replies_[id] = carry_out_now(id); });
    schedule(end_time, [this, id, next] {
      end(id);
      next();
    });
  }
  reply carry_out_now(history::operation_id id) {
    operation const &op = history_.operations()[id];
    reply answer;
    answer.failure = carry_out(op, state_);
    for (auto const &item : op.names)
      answer.observed.emplace_back(item.first, observe(item.first, state_));
    return answer;
  }
  void end(history::operation_id id) {
    reply const &received = replies_[id];
    operation_kind const kind = history_.operations()[id].kind;
    if (received.failure) {
      history_.end_failed(id, time_, *received.failure);
    } else if (kind == operation_kind::get) {
      bool const is_changed = changed_ && changed_->id == id;
      history_.end_get(id, time_, is_changed ? changed_->observed : received.observed[0].second);
    } else if (kind == operation_kind::list) {
      history_.end_list(id, time_, received.observed);
    } else {
      history_.end_ok(id, time_);
    }
  }

  random_source random_;
  workload load_;
  operation_source source_;
  std::optional<mutation> changed_;
  history history_;
  name_map state_;
  std::map<std::pair<uint64_t, uint64_t>, std::function<void()>> events_;
  std::map<history::operation_id, reply> replies_;
  uint64_t event_count_ = 0;
  uint64_t time_ = 0;
};

workload draw_workload(uint64_t seed) {
  random_source random{seed + 1'000'000};
  workload load;
  load.clients = 1 + random.below(8);
  load.operations = 5 + random.below(80);
  load.names = 2 + random.below(4);
  load.unknown_percent = random.below(3) * 20;
  load.read_percent = 20 + random.below(60);
  load.has_groups = random.chance(50);
  load.pause_max = 1 + random.below(100);
  return load;
}

// Ends an operation with a random response.
class response_source {
 public:
  response_source(random_source &random, uint64_t unknown_percent)
      : random_{random}, unknown_percent_{unknown_percent} {}

  void end(history &log, history::operation_id id, uint64_t time, uint64_t value_count) {
    operation const op = log.operations()[id];
    if (is_read(op))
      end_read(log, id, time, value_count);
    else if (random_.chance(unknown_percent_))
      log.end_unknown(id, time);
    else if (is_exclusive(op) && random_.chance(20))
      log.end_failed(id, time, failure_cause::exists);
    else if ((is_rename(op) || op.kind == operation_kind::remove) && random_.chance(20))
      log.end_failed(id, time, failure_cause::not_found);
    else
      log.end_ok(id, time);
  }

 private:
  void end_read(history &log, history::operation_id id, uint64_t time, uint64_t value_count) {
    operation const op = log.operations()[id];
    std::vector<name_observation> observed;
    for (auto const &item : op.names)
      observed.emplace_back(item.first, draw(value_count));
    if (op.kind == operation_kind::get)
      log.end_get(id, time, observed.front().second);
    else
      log.end_list(id, time, observed);
  }
  observation draw(uint64_t value_count) {
    if (random_.chance(10))
      return observation::present();
    uint64_t const value = random_.below(value_count + 1);
    return value == 0 ? observation::absent() : observation::value(value);
  }

  random_source &random_;
  uint64_t unknown_percent_;
};

// A small history with random responses, which no store has to explain.
history draw_small_history(uint64_t seed) {
  random_source random{seed};
  workload load;
  load.names = 1 + random.below(3);
  load.read_percent = 20 + random.below(40);
  load.has_groups = load.names > 1 && random.chance(70);
  operation_source source{random, load};
  response_source responses{random, random.below(80)};
  history drawn;
  std::vector<history::operation_id> open;
  uint64_t const count = 3 + random.below(5);
  uint64_t time = 0;
  while (drawn.operations().size() < count || !open.empty()) {
    time++;
    if (drawn.operations().size() < count && (open.empty() || random.chance(50))) {
      open.push_back(source.begin(drawn, {uint32_t(time), time}));
      continue;
    }
    size_t const index = random.below(open.size());
    responses.end(drawn, open[index], time, source.value_count());
    open.erase(open.begin() + ptrdiff_t(index));
  }
  return drawn;
}

std::string describe_all(const history &source) {
  std::string text;
  for (size_t id = 0; id < source.operations().size(); id++)
    text += describe(source, id) + "\n";
  return text;
}

TEST(history_check, verdicts_are_those_of_all_orders_of_small_histories) {
  uint64_t accepted_count = 0;
  uint64_t const seed_count = 12'000;
  for (uint64_t seed = 0; seed < seed_count; seed++) {
    history const drawn = draw_small_history(seed);
    bool const has_order = order_search{drawn}.finds_order();
    check_options options;
    options.has_atomic_lists = true;
    options.reduction_count_max = 0;
    std::string const text = check(drawn, options);
    ASSERT_EQ(text.empty(), has_order) << "seed " << seed << "\n" << describe_all(drawn) << text;
    accepted_count += has_order ? 1 : 0;
  }
  EXPECT_GT(accepted_count, seed_count / 10);
  EXPECT_LT(accepted_count, seed_count * 9 / 10);
}

TEST(history_check, histories_of_a_linearizable_store_are_accepted) {
  for (uint64_t seed = 0; seed < 1500; seed++) {
    history const log = store_run{seed, draw_workload(seed)}.run();
    check_options options;
    options.has_atomic_lists = seed % 2 == 0;
    ASSERT_EQ(check(log, options), "") << "seed " << seed << "\n" << describe_all(log);
  }
}

TEST(history_check, long_histories_with_many_unknown_outcomes_are_decided) {
  for (uint64_t seed = 0; seed < 2; seed++) {
    workload load;
    load.clients = 8;
    load.operations = 2000;
    load.has_groups = seed % 2 == 1;
    load.names = load.has_groups ? 6 : 1;
    load.unknown_percent = load.has_groups ? 10 : 30;
    history const log = store_run{seed, load}.run();
    EXPECT_EQ(check(log), "") << "seed " << seed;
  }
}

// Makes a history event by event. The time is the number of the event.
class script {
 public:
  history::invocation next(uint32_t client = 0) {
    return {client, ++time_};
  }
  void put(const std::string &name, value_id value) {
    auto const id = log.put(next(), name, value);
    log.end_ok(id, ++time_);
  }
  void get(const std::string &name, observation observed, uint32_t client = 1) {
    auto const id = log.get(next(client), name);
    log.end_get(id, ++time_, observed);
  }
  void end_ok(history::operation_id id) {
    log.end_ok(id, ++time_);
  }

  history log;

 private:
  uint64_t time_ = 0;
};

// The explanation of a rejected history.
std::string rejection(const script &run) {
  std::string text = check(run.log);
  EXPECT_EQ(text.find("not linearizable"), 0u) << text << describe_all(run.log);
  return text;
}

size_t count_operations(const std::string &text) {
  size_t count = 0;
  for (size_t place = text.find("\n  #"); place != std::string::npos;
       place = text.find("\n  #", place + 1))
    count++;
  return count;
}

TEST(history_check, stale_read_is_rejected_with_the_operations_that_exclude_it) {
  script run;
  for (value_id value = 100; value < 200; value++) {
    run.put("a", value);
    run.get("a", observation::value(value));
  }
  run.put("a", 1);
  run.put("b", 5);
  run.put("a", 2);
  run.get("a", observation::value(1), 7);
  run.put("a", 3);
  std::string const text = rejection(run);
  EXPECT_NE(text.find("explains the response of #203\n"), std::string::npos) << text;
  EXPECT_NE(text.find("#203 client 7 [407, 408] get a: 1: ok"), std::string::npos) << text;
  EXPECT_NE(text.find("#200 client 0 [401, 402] put a = 1: ok"), std::string::npos) << text;
  EXPECT_NE(text.find("#202 client 0 [405, 406] put a = 2: ok"), std::string::npos) << text;
  EXPECT_EQ(count_operations(text), 3u) << text;
}

TEST(history_check, lost_acknowledged_put_is_rejected) {
  script run;
  run.put("a", 1);
  run.get("a", observation::absent());
  EXPECT_EQ(count_operations(rejection(run)), 2u);
}

TEST(history_check, value_that_nothing_put_is_rejected) {
  script run;
  run.put("a", 1);
  run.get("a", observation::value(9));
  std::string const text = rejection(run);
  EXPECT_NE(text.find("value 9 is put by no operation"), std::string::npos) << text;
  EXPECT_EQ(count_operations(text), 1u) << text;
}

TEST(history_check, read_that_goes_back_after_a_newer_one_is_rejected) {
  script run;
  run.put("a", 1);
  auto const slow = run.log.put(run.next(), "a", 2);
  run.get("a", observation::value(2), 1);
  run.get("a", observation::value(1), 2);
  run.end_ok(slow);
  EXPECT_EQ(count_operations(rejection(run)), 4u);
}

TEST(history_check, reads_during_a_put_may_see_the_old_value_until_the_new_one_is_seen) {
  script run;
  run.put("a", 1);
  auto const slow = run.log.put(run.next(), "a", 2);
  run.get("a", observation::value(1), 1);
  run.get("a", observation::value(2), 2);
  run.end_ok(slow);
  EXPECT_EQ(check(run.log), "");
}

TEST(history_check, removed_value_that_returns_is_rejected) {
  script run;
  run.put("a", 1);
  auto const removal = run.log.remove(run.next(), "a");
  run.end_ok(removal);
  run.get("a", observation::absent());
  run.get("a", observation::value(1));
  rejection(run);
}

TEST(history_check, remove_of_an_absent_name_is_rejected_unless_it_is_idempotent) {
  script run;
  auto const removal = run.log.remove(run.next(), "a");
  run.end_ok(removal);
  rejection(run);
  check_options options;
  options.has_idempotent_remove = true;
  EXPECT_EQ(check(run.log, options), "");
}

TEST(history_check, half_of_a_set_is_rejected) {
  script run;
  run.put("a", 1);
  auto const set = run.log.commit(run.next(), {{"a", 2}, {"b", 3}});
  run.get("b", observation::value(3));
  run.get("a", observation::value(1));
  run.log.end_unknown(set, 100);
  EXPECT_EQ(count_operations(rejection(run)), 4u);
}

TEST(history_check, exclusive_put_that_succeeded_twice_is_rejected) {
  script run;
  auto const first = run.log.put_exclusive(run.next(1), "a", 1);
  auto const second = run.log.put_exclusive(run.next(2), "a", 2);
  run.end_ok(first);
  run.end_ok(second);
  EXPECT_EQ(count_operations(rejection(run)), 2u);
}

TEST(history_check, exclusive_put_that_failed_on_an_absent_name_is_rejected) {
  script run;
  auto const put = run.log.put_exclusive(run.next(), "a", 1);
  run.log.end_failed(put, 10, failure_cause::exists);
  EXPECT_EQ(count_operations(rejection(run)), 1u);
}

TEST(history_check, failed_put_has_no_effect) {
  for (observation const read : {observation::absent(), observation::value(1)}) {
    script run;
    auto const put = run.log.put(run.next(), "a", 1);
    run.log.end_failed(put, 2, failure_cause::unspecified);
    run.get("a", read, 2);
    EXPECT_EQ(check(run.log).empty(), read == observation::absent());
  }
}

TEST(history_check, rename_that_leaves_both_names_is_rejected) {
  script run;
  run.put("a", 1);
  auto const move = run.log.rename(run.next(), "a", "b");
  run.end_ok(move);
  run.get("b", observation::value(1));
  run.get("a", observation::value(1));
  rejection(run);
}

TEST(history_check, unknown_put_may_take_effect_late_or_never) {
  for (observation const last : {observation::value(1), observation::value(2)}) {
    script run;
    run.put("a", 1);
    auto const lost = run.log.put(run.next(), "a", 2);
    run.log.end_unknown(lost, 4);
    run.get("a", observation::value(1), 2);
    run.get("a", last, 3);
    EXPECT_EQ(check(run.log), "");
  }
}

TEST(history_check, unknown_put_that_takes_effect_before_its_invocation_is_rejected) {
  script run;
  run.get("a", observation::value(1));
  run.log.put(run.next(), "a", 1);
  std::string const text = rejection(run);
  EXPECT_NE(text.find("#1 client 0 [3, no response] put a = 1"), std::string::npos) << text;
}

TEST(history_check, unknown_put_that_takes_effect_twice_is_rejected) {
  script run;
  auto const lost = run.log.put(run.next(), "a", 1);
  run.log.end_unknown(lost, 2);
  run.get("a", observation::value(1));
  run.put("a", 2);
  run.get("a", observation::value(1));
  rejection(run);
}

TEST(history_check, list_is_one_moment_only_if_it_is_atomic) {
  script run;
  auto const list = run.log.list(run.next(2), {"a", "b"});
  run.put("a", 1);
  run.put("b", 2);
  run.log.end_list(list, 10, {{"b", observation::value(2)}});
  EXPECT_EQ(check(run.log), "");
  check_options options;
  options.has_atomic_lists = true;
  EXPECT_NE(check(run.log, options), "");
}

TEST(history_check, preset_values_are_read_and_do_not_return) {
  script run;
  run.log.preset("a", 1);
  run.get("a", observation::value(1));
  EXPECT_EQ(check(run.log), "");
  run.put("a", 2);
  run.get("a", observation::value(1));
  rejection(run);
}

TEST(history_check, bound_is_reported_with_numbers) {
  workload load;
  load.operations = 200;
  load.has_groups = true;
  check_options options;
  options.configuration_count_max = 100;
  std::string const text = check(store_run{1, load}.run(), options);
  EXPECT_EQ(text.find("undecided: "), 0u) << text;
  EXPECT_NE(text.find("the bound of 100 configurations"), std::string::npos) << text;
}

TEST(history_check, many_outstanding_operations_are_reported) {
  script run;
  std::vector<history::operation_id> puts;
  for (value_id value = 1; value <= 65; value++)
    puts.push_back(run.log.put(run.next(), "a", value));
  for (auto const id : puts)
    run.end_ok(id);
  std::string const text = check(run.log);
  EXPECT_EQ(text.find("undecided: "), 0u) << text;
  EXPECT_NE(text.find("have too many outstanding ones"), std::string::npos) << text;
}

bool is_acknowledged_put(const operation &op) {
  bool const is_put = op.kind == operation_kind::put || op.kind == operation_kind::put_exclusive;
  return is_put && op.status == operation_status::ok;
}

bool has_name(const operation &op, const std::string &name) {
  return op.kind != operation_kind::list && op.names.front().first == name;
}

// Wrong observations of a get: a value that was overwritten before or put afterwards, or the
// absence of a value that nothing may have removed.
void add_mutations(std::vector<mutation> &possible,
                   const std::vector<operation> &operations,
                   history::operation_id id) {
  operation const &get = operations[id];
  std::string const &name = get.names.front().first;
  uint64_t last_begin = 0;  // of the puts before the get
  bool is_removed = false;
  for (operation const &item : operations) {
    if (!has_name(item, name))
      continue;
    bool const is_removal = item.kind == operation_kind::remove;
    is_removed = is_removed || (is_removal && item.begin_position < get.end_position);
    if (is_acknowledged_put(item) && item.end_position < get.begin_position)
      last_begin = std::max(last_begin, item.begin_position);
  }
  for (operation const &item : operations)
    if (has_name(item, name) && is_acknowledged_put(item))
      if (item.end_position < last_begin || item.begin_position > get.end_position)
        possible.push_back({id, item.names.front().second});
  if (last_begin != 0 && !is_removed)
    possible.push_back({id, observation::absent()});
}

// A wrong observation for one get of a history without operations on several names.
std::optional<mutation> draw_mutation(const history &source, random_source &random) {
  auto const &operations = source.operations();
  std::vector<mutation> possible;
  for (size_t id = 0; id < operations.size(); id++)
    if (operations[id].kind == operation_kind::get && operations[id].status == operation_status::ok)
      add_mutations(possible, operations, id);
  if (possible.empty())
    return std::nullopt;
  return possible[random.below(possible.size())];
}

TEST(history_check, one_wrong_observation_in_a_right_history_is_rejected) {
  uint64_t count = 0;
  for (uint64_t seed = 0; seed < 700; seed++) {
    workload load = draw_workload(seed);
    load.has_groups = false;
    history const right = store_run{seed, load}.run();
    random_source random{seed};
    auto const changed = draw_mutation(right, random);
    if (!changed)
      continue;
    history const wrong = store_run{seed, load, changed}.run();
    std::string const text = check(wrong);
    ASSERT_EQ(text.find("not linearizable"), 0u) << "seed " << seed << ", #" << changed->id << "\n"
                                                 << text << describe_all(wrong);
    count++;
  }
  EXPECT_GT(count, 350u);
}

TEST(history_check, value_of_a_later_put_is_rejected_among_operations_on_several_names) {
  uint64_t count = 0;
  for (uint64_t seed = 0; seed < 300; seed++) {
    workload load = draw_workload(seed);
    load.has_groups = true;
    history const right = store_run{seed, load}.run();
    auto const &operations = right.operations();
    auto const is_get = [](const operation &item) {
      return item.kind == operation_kind::get && item.status == operation_status::ok;
    };
    auto const get = std::find_if(operations.begin(), operations.end(), is_get);
    auto const put = std::find_if(operations.rbegin(), operations.rend(), is_acknowledged_put);
    if (get == operations.end() || put == operations.rend() ||
        put->begin_position < get->end_position)
      continue;
    auto const id = history::operation_id(get - operations.begin());
    mutation const changed{id, put->names.front().second};
    std::string const text = check(store_run{seed, load, changed}.run());
    ASSERT_EQ(text.find("not linearizable"), 0u) << "seed " << seed << "\n" << text;
    count++;
  }
  EXPECT_GT(count, 100u);
}

}  // namespace
}  // namespace tanada::test
