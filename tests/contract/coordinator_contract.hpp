// tests/contract/coordinator_contract.hpp: the contract of every coordinator. Each binary that
// includes this instantiates the suite with the stores it runs:
// INSTANTIATE_TEST_SUITE_P(name, coordinator_contract, testing::ValuesIn(...)).
#pragma once

#include <map>
#include <thread>

#include "contract/coordinator_subject.hpp"

namespace tanada::contract {

class coordinator_contract : public testing::TestWithParam<coordinator_case> {
 protected:
  static constexpr uint64_t second_ns = coordinator_driver::second_ns;
  // The shortest ttl that every store grants as it is.
  static constexpr uint64_t ttl_s = 2;

  void SetUp() override {
    subject_ = GetParam().create();
    ASSERT_NE(subject_, nullptr);
    driver_ = std::make_unique<coordinator_driver>(*subject_);
    auto const *const test = testing::UnitTest::GetInstance()->current_test_info();
    prefix_ = std::string{test->name()} + '/';
  }
  void TearDown() override {
    driver_.reset();
    subject_.reset();
  }
  coordinator_driver &driver() {
    return *driver_;
  }
  std::string key(const std::string &name) const {
    return prefix_ + name;
  }
  static seams::transaction_change put_change(const std::string &key,
                                              const std::string &value,
                                              seams::lease_id lease = seams::no_lease) {
    return {seams::transaction_change::kind::put, key, value, lease};
  }
  uint64_t put_or_fail(seams::coordinator &client,
                       const std::string &key,
                       const std::string &value,
                       seams::lease_id lease = seams::no_lease) {
    auto const outcome = driver().put(client, key, value, lease);
    EXPECT_TRUE(outcome.ok() && outcome.value().is_applied) << int(outcome.error());
    return outcome.ok() ? outcome.value().store_revision : 0;
  }
  seams::coordinated_range read_or_fail(seams::coordinator &client, const std::string &prefix) {
    auto const range = driver().read(client, prefix);
    EXPECT_TRUE(range.ok()) << int(range.error());
    return range.ok() ? range.value() : seams::coordinated_range{};
  }
  seams::lease_id grant_or_fail(seams::coordinator &client) {
    auto const lease = driver().grant(client, ttl_s);
    EXPECT_TRUE(lease.ok()) << int(lease.error());
    return lease.ok() ? lease.value() : seams::no_lease;
  }

  // Increments the counter `count` times, by compare-and-swap.
  struct incrementer {
    seams::coordinator *client;
    std::string key;
    uint32_t left;
    uint32_t lost_count = 0;

    void start() {
      if (left == 0)
        return;
      client->read(key, [this](const result<seams::coordinated_range> &range) {
        ASSERT_TRUE(range.ok());
        ASSERT_EQ(range.value().entries.size(), 1u);
        auto const &entry = range.value().entries[0];
        std::string const next = std::to_string(std::stoul(entry.value) + 1);
        client->transact({{key, entry.revision}},
                         {{seams::transaction_change::kind::put, key, next}},
                         [this](const result<seams::transaction_outcome> &outcome) {
                           ASSERT_TRUE(outcome.ok());
                           (outcome.value().is_applied ? left : lost_count) +=
                               outcome.value().is_applied ? ~0u : 1u;
                           start();
                         });
      });
    }
  };

  std::string prefix_;
  std::unique_ptr<coordinator_subject> subject_;
  std::unique_ptr<coordinator_driver> driver_;
};

TEST_P(coordinator_contract, bytes_of_keys_and_values_come_back) {
  auto &client = driver().client();
  std::string bytes;
  for (int i = 0; i < 256; i++)
    bytes.push_back(char(i));
  std::string const zero(1, '\0');
  std::map<std::string, std::string> const expected{{key(""), ""},
                                                    {key(zero), zero},
                                                    {key(zero + zero), "\xff"},
                                                    {key(bytes), bytes},
                                                    {key("\xff\xff"), bytes + bytes}};
  for (auto const &[name, value] : expected)
    put_or_fail(client, name, value);
  auto const range = read_or_fail(client, prefix_);
  ASSERT_EQ(range.entries.size(), expected.size());
  auto entry = range.entries.begin();
  for (auto const &[name, value] : expected) {
    EXPECT_EQ(entry->key, name);
    EXPECT_EQ(entry->value, value);
    EXPECT_EQ(entry->lease, seams::no_lease);
    EXPECT_LE(entry->revision, range.store_revision);
    ++entry;
  }
}

TEST_P(coordinator_contract, a_read_returns_the_keys_of_its_prefix) {
  auto &client = driver().client();
  for (auto const *name : {"a", "b", "b\xff", "b\xff\xff", "ba", "c"})
    put_or_fail(client, key(name), name);
  put_or_fail(client, "\xff\xff" + prefix_, "high");
  EXPECT_EQ(read_or_fail(client, key("b")).entries.size(), 4u);
  EXPECT_EQ(read_or_fail(client, key("b\xff")).entries.size(), 2u);
  EXPECT_EQ(read_or_fail(client, key("d")).entries.size(), 0u);
  EXPECT_GE(read_or_fail(client, key("d")).store_revision, 1u);
  EXPECT_EQ(read_or_fail(client, "\xff").entries.size(), 1u);
  EXPECT_EQ(read_or_fail(client, "\xff\xff").entries.size(), 1u);
  auto const all = read_or_fail(client, "");
  EXPECT_GE(all.entries.size(), 7u);
  EXPECT_TRUE(std::ranges::is_sorted(all.entries, {}, &seams::coordinated_entry::key));
  driver().remove(client, "\xff\xff" + prefix_).ok();
}

TEST_P(coordinator_contract, a_transaction_whose_condition_fails_changes_nothing) {
  auto &client = driver().client();
  uint64_t const revision = put_or_fail(client, key("a"), "1");
  put_or_fail(client, key("b"), "1");
  auto const attempt = [&](std::vector<seams::transaction_condition> conditions) {
    auto const outcome = driver().transact(
        client,
        conditions,
        {put_change(key("a"), "2"), {seams::transaction_change::kind::remove, key("b"), {}}});
    EXPECT_TRUE(outcome.ok());
    return outcome.ok() && outcome.value().is_applied;
  };
  EXPECT_FALSE(attempt({{key("a"), 0}}));
  EXPECT_FALSE(attempt({{key("a"), revision + 1}}));
  EXPECT_FALSE(attempt({{key("missing"), revision}}));
  EXPECT_FALSE(attempt({{key("a"), revision}, {key("missing"), 1}}));
  auto const range = read_or_fail(client, prefix_);
  ASSERT_EQ(range.entries.size(), 2u);
  EXPECT_EQ(range.entries[0].value, "1");
  EXPECT_EQ(range.entries[0].revision, revision);
  EXPECT_TRUE(attempt({{key("a"), revision}, {key("missing"), 0}}));
  auto const changed = read_or_fail(client, prefix_);
  ASSERT_EQ(changed.entries.size(), 1u);
  EXPECT_EQ(changed.entries[0].value, "2");
}

TEST_P(coordinator_contract, a_key_that_was_removed_is_as_one_that_never_was) {
  auto &client = driver().client();
  uint64_t const first = put_or_fail(client, key("a"), "1");
  ASSERT_TRUE(driver().remove(client, key("a")).ok());
  auto const outcome = driver().transact(client, {{key("a"), 0}}, {put_change(key("a"), "2")});
  ASSERT_TRUE(outcome.ok() && outcome.value().is_applied);
  EXPECT_GE(outcome.value().store_revision, first + 2);
  EXPECT_EQ(read_or_fail(client, key("a")).entries[0].revision, outcome.value().store_revision);
}

TEST_P(coordinator_contract, two_clients_that_race_lose_no_increment) {
  constexpr uint32_t count = 30;
  incrementer left{&driver().client(), key("counter"), count};
  incrementer right{&driver().client(), key("counter"), count};
  put_or_fail(*left.client, key("counter"), "0");
  left.start();
  right.start();
  ASSERT_TRUE(driver().until([&] { return left.left == 0 && right.left == 0; }));
  auto const range = read_or_fail(*left.client, key("counter"));
  ASSERT_EQ(range.entries.size(), 1u);
  EXPECT_EQ(range.entries[0].value, std::to_string(2 * count));
}

TEST_P(coordinator_contract, transactions_beyond_a_limit_are_refused) {
  auto &client = driver().client();
  using seams::coordinated_key_size_max, seams::coordinated_value_size_max;
  std::string const largest(coordinated_value_size_max, 'v');
  std::string const longest_key = key(std::string(coordinated_key_size_max - prefix_.size(), 'k'));
  put_or_fail(client, longest_key, largest);
  EXPECT_EQ(driver().put(client, key("a"), largest + "v").error(), status::too_big);
  EXPECT_EQ(driver().put(client, longest_key + "k", "").error(), status::too_big);
  EXPECT_EQ(driver().put(client, "", "v").error(), status::invalid);
  EXPECT_EQ(driver()
                .transact(client, {}, {put_change(key("a"), largest), put_change(key("b"), "v")})
                .error(),
            status::too_big);
  EXPECT_EQ(
      driver().transact(client, {}, {put_change(key("a"), "1"), put_change(key("a"), "2")}).error(),
      status::invalid);
  std::vector<seams::transaction_change> changes;
  std::vector<seams::transaction_condition> conditions;
  for (size_t i = 0; i < seams::transaction_entry_count_max; i++) {
    changes.push_back(put_change(key("n" + std::to_string(i)), "v"));
    conditions.push_back({changes.back().key, 0});
  }
  auto const outcome = driver().transact(client, conditions, changes);
  EXPECT_TRUE(outcome.ok() && outcome.value().is_applied) << int(outcome.error());
  changes.push_back(put_change(key("one more"), "v"));
  EXPECT_EQ(driver().transact(client, {}, changes).error(), status::too_big);
  auto const range = read_or_fail(client, prefix_);
  EXPECT_EQ(range.entries.size(), 1 + seams::transaction_entry_count_max);
  EXPECT_EQ(range.entries[0].value, largest);
}

TEST_P(coordinator_contract, a_thousand_keys_are_read_together) {
  auto &client = driver().client();
  constexpr size_t count = 1'000, value_size = 100;
  for (size_t i = 0; i < count;) {
    std::vector<seams::transaction_change> changes;
    for (; i < count && changes.size() < 100; i++)
      changes.push_back(
          put_change(key(std::to_string(10'000 + i)), std::string(value_size, char('a' + i % 26))));
    auto const outcome = driver().transact(client, {}, changes);
    ASSERT_TRUE(outcome.ok() && outcome.value().is_applied) << int(outcome.error());
  }
  auto const range = read_or_fail(client, prefix_);
  ASSERT_EQ(range.entries.size(), count);
  for (size_t i = 0; i < count; i++) {
    EXPECT_EQ(range.entries[i].key, key(std::to_string(10'000 + i)));
    EXPECT_EQ(range.entries[i].value, std::string(value_size, char('a' + i % 26)));
  }
}

TEST_P(coordinator_contract, the_end_of_a_lease_removes_its_keys_and_a_watch_reports_it) {
  auto &client = driver().client(), &observer = driver().client();
  seams::lease_id const lease = grant_or_fail(client);
  uint64_t const begin_ns = driver().now_ns();
  put_or_fail(client, key("a"), "1", lease);
  put_or_fail(client, key("b"), "2", lease);
  uint64_t const revision = put_or_fail(client, key("c"), "3");
  auto const before = read_or_fail(client, prefix_);
  ASSERT_EQ(before.entries.size(), 3u);
  EXPECT_EQ(before.entries[0].lease, lease);
  auto const &record = driver().watch(observer, prefix_, revision);
  ASSERT_TRUE(driver().until([&] { return record.events.size() == 2; }));
  // The lease was granted shortly before the answer came.
  EXPECT_GE(driver().now_ns() - begin_ns, ttl_s * second_ns * 9 / 10);
  EXPECT_TRUE(record.events[0].is_removed && record.events[1].is_removed);
  EXPECT_EQ(record.events[0].entry.key, key("a"));
  EXPECT_EQ(record.events[1].entry.key, key("b"));
  EXPECT_EQ(record.events[0].entry.revision, record.events[1].entry.revision);
  auto const after = read_or_fail(client, prefix_);
  ASSERT_EQ(after.entries.size(), 1u);
  EXPECT_EQ(after.entries[0].key, key("c"));
  EXPECT_EQ(driver().renew(client, lease), status::no_entry);
}

TEST_P(coordinator_contract, a_lease_that_is_renewed_stays) {
  auto &client = driver().client();
  seams::lease_id const lease = grant_or_fail(client);
  put_or_fail(client, key("a"), "1", lease);
  for (uint64_t i = 0; i < 4 * ttl_s; i++) {
    driver().settle(second_ns / 2);
    ASSERT_EQ(driver().renew(client, lease), status::ok) << i;
  }
  EXPECT_EQ(read_or_fail(client, prefix_).entries.size(), 1u);
  ASSERT_TRUE(driver().until([&] { return read_or_fail(client, prefix_).entries.empty(); }));
}

TEST_P(coordinator_contract, a_lease_that_is_revoked_is_gone_with_its_keys) {
  auto &client = driver().client();
  seams::lease_id const lease = grant_or_fail(client), other = grant_or_fail(client);
  EXPECT_NE(lease, other);
  put_or_fail(client, key("a"), "1", lease);
  put_or_fail(client, key("b"), "1", lease);
  put_or_fail(client, key("b"), "2", other);
  put_or_fail(client, key("c"), "1", lease);
  put_or_fail(client, key("c"), "2");
  EXPECT_EQ(driver().revoke(client, lease), status::ok);
  auto const range = read_or_fail(client, prefix_);
  ASSERT_EQ(range.entries.size(), 2u);
  EXPECT_EQ(range.entries[0].key, key("b"));
  EXPECT_EQ(range.entries[0].lease, other);
  EXPECT_EQ(driver().revoke(client, lease), status::no_entry);
  EXPECT_EQ(driver().renew(client, lease), status::no_entry);
  EXPECT_EQ(driver()
                .transact(client, {}, {put_change(key("d"), "1"), put_change(key("e"), "1", lease)})
                .error(),
            status::no_entry);
  EXPECT_EQ(read_or_fail(client, prefix_).store_revision, range.store_revision);
  EXPECT_EQ(driver().grant(client, 0).error(), status::invalid);
}

TEST_P(coordinator_contract, a_watch_reports_every_change_once_and_in_order) {
  constexpr size_t count = 60;
  auto &writer = driver().client(), &observer = driver().client();
  put_or_fail(writer, key("first"), "before");
  std::vector<seams::watch_event> expected;
  size_t written = 0;
  std::function<void()> const write_next = [&] {
    if (written == count)
      return;
    std::string const name = key("k" + std::to_string(written % 7));
    bool const removes = written % 5 == 4;
    std::string const value = removes ? "" : std::to_string(written);
    // Keys of a neighbour are not reported.
    std::vector<seams::transaction_change> changes{
        {removes ? seams::transaction_change::kind::remove : seams::transaction_change::kind::put,
         name,
         value},
        put_change("z" + prefix_, value)};
    written++;
    writer.transact({}, changes, [&, name, value, removes](const auto &outcome) {
      ASSERT_TRUE(outcome.ok() && outcome.value().is_applied);
      expected.push_back({removes, {name, value, outcome.value().store_revision, seams::no_lease}});
      write_next();
    });
  };
  write_next();
  ASSERT_TRUE(driver().until([&] { return expected.size() >= count / 3; }));
  auto const range = read_or_fail(observer, prefix_);
  auto const &record = driver().watch(observer, prefix_, range.store_revision);
  ASSERT_TRUE(driver().until([&] { return expected.size() == count; }));
  // Removals of a key that does not exist are no changes.
  std::map<std::string, bool> exists;
  std::vector<seams::watch_event> changes;
  for (auto const &event : expected) {
    bool const is_change = !event.is_removed || exists[event.entry.key];
    exists[event.entry.key] = !event.is_removed;
    if (is_change && event.entry.revision > range.store_revision)
      changes.push_back(event);
  }
  EXPECT_TRUE(
      driver().until([&] { return record.events.size() >= changes.size(); }, 10 * second_ns));
  driver().settle(second_ns / 5);
  ASSERT_EQ(record.events.size(), changes.size());
  for (size_t i = 0; i < changes.size(); i++) {
    EXPECT_EQ(record.events[i].entry.key, changes[i].entry.key) << i;
    EXPECT_EQ(record.events[i].entry.value, changes[i].entry.value) << i;
    EXPECT_EQ(record.events[i].entry.revision, changes[i].entry.revision) << i;
    EXPECT_EQ(record.events[i].is_removed, changes[i].is_removed) << i;
  }
  EXPECT_FALSE(record.end.has_value());
}

TEST_P(coordinator_contract, changes_of_one_revision_come_in_one_call) {
  auto &writer = driver().client(), &observer = driver().client();
  uint64_t const revision = read_or_fail(writer, prefix_).store_revision;
  auto const &record = driver().watch(observer, prefix_, revision);
  for (int i = 0; i < 5; i++) {
    std::vector<seams::transaction_change> changes;
    for (int k = 0; k < 20; k++)
      changes.push_back(put_change(key(std::to_string(100 + k)), std::to_string(i)));
    auto const outcome = driver().transact(writer, {}, changes);
    ASSERT_TRUE(outcome.ok() && outcome.value().is_applied);
  }
  ASSERT_TRUE(driver().until([&] { return record.events.size() == 100; }));
  for (auto const &call : record.calls)
    EXPECT_EQ(call.size() % 20, 0u);
}

TEST_P(coordinator_contract, a_watch_from_an_old_revision_reports_what_was_before_it) {
  auto &client = driver().client();
  uint64_t const first = put_or_fail(client, key("a"), "1");
  put_or_fail(client, key("a"), "2");
  ASSERT_TRUE(driver().remove(client, key("a")).ok());
  auto const &record = driver().watch(client, prefix_, first);
  ASSERT_TRUE(driver().until([&] { return record.events.size() == 2; }));
  EXPECT_EQ(record.events[0].entry.value, "2");
  EXPECT_TRUE(record.events[1].is_removed);
}

TEST_P(coordinator_contract, a_new_watch_replaces_the_old_one) {
  auto &client = driver().client();
  uint64_t const revision = put_or_fail(client, key("a"), "0");
  auto const &first = driver().watch(client, key("a"), revision);
  put_or_fail(client, key("a"), "1");
  ASSERT_TRUE(driver().until([&] { return first.events.size() == 1; }));
  auto const &second = driver().watch(client, key("b"), revision);
  put_or_fail(client, key("a"), "2");
  put_or_fail(client, key("b"), "3");
  ASSERT_TRUE(driver().until([&] { return second.events.size() == 1; }));
  EXPECT_EQ(second.events[0].entry.value, "3");
  driver().settle(second_ns / 5);
  EXPECT_EQ(first.events.size(), 1u);
  EXPECT_FALSE(first.end.has_value());
}

TEST_P(coordinator_contract, a_handler_may_begin_another_watch) {
  auto &client = driver().client();
  uint64_t const revision = put_or_fail(client, key("a"), "0");
  uint32_t second_count = 0;
  client.watch(key("a"), revision, [&](const auto &) {
    client.watch(key("b"), revision, [&](const auto &) { second_count++; });
  });
  put_or_fail(client, key("a"), "1");
  put_or_fail(client, key("b"), "1");
  EXPECT_TRUE(driver().until([&] { return second_count == 1; }));
}

TEST_P(coordinator_contract, a_watch_of_removed_history_is_stale) {
  auto &client = driver().client();
  uint64_t const revision = put_or_fail(client, key("a"), "1");
  put_or_fail(client, key("a"), "2");
  ASSERT_TRUE(driver().remove(client, key("a")).ok());
  subject_->compact();
  auto const &record = driver().watch(client, prefix_, revision);
  ASSERT_TRUE(driver().until([&] { return record.end.has_value(); }));
  EXPECT_EQ(*record.end, status::stale);
  EXPECT_TRUE(record.events.empty());
  // From the current revision on, nothing is missing.
  auto const &next = driver().watch(client, prefix_, read_or_fail(client, prefix_).store_revision);
  put_or_fail(client, key("a"), "3");
  ASSERT_TRUE(driver().until([&] { return next.events.size() == 1; }));
  EXPECT_EQ(next.events[0].entry.value, "3");
}

TEST_P(coordinator_contract, nothing_is_lost_when_the_store_is_restarted_during_a_watch) {
  auto &writer = driver().client(), &observer = driver().client();
  std::map<std::string, std::string> view;
  uint64_t revision = 0;
  bool needs_read = true;
  std::function<void()> const begin = [&] {
    needs_read = false;
    observer.read(prefix_, [&](const result<seams::coordinated_range> &range) {
      if (!range.ok()) {
        needs_read = true;
        return;
      }
      view.clear();
      for (auto const &entry : range.value().entries)
        view[entry.key] = entry.value;
      revision = range.value().store_revision;
      observer.watch(prefix_, revision, [&](const result<std::vector<seams::watch_event>> &heard) {
        if (!heard.ok()) {
          needs_read = true;
          return;
        }
        for (auto const &event : heard.value()) {
          EXPECT_GE(event.entry.revision, revision);
          revision = event.entry.revision;
          if (event.is_removed)
            view.erase(event.entry.key);
          else
            view[event.entry.key] = event.entry.value;
        }
      });
    });
  };
  auto const drive_until = [&](const std::function<bool()> &condition) {
    return driver().until([&] {
      if (needs_read)
        begin();
      return condition();
    });
  };
  put_or_fail(writer, key("a"), "1");
  ASSERT_TRUE(drive_until([&] { return view[key("a")] == "1"; }));
  subject_->restart();
  // A change whose answer was lost may be there. The next one has another value.
  std::string value = "1";
  for (int i = 2; i < 300 && value == "1"; i++) {
    if (driver().put(writer, key("a"), std::to_string(i)).ok())
      value = std::to_string(i);
    else
      driver().settle(second_ns / 10);
  }
  ASSERT_NE(value, "1") << "the store has not come back";
  EXPECT_TRUE(drive_until([&] { return view[key("a")] == value; }));
  ASSERT_TRUE(driver().remove(writer, key("a")).ok());
  EXPECT_TRUE(drive_until([&] { return !view.contains(key("a")); }));
}

TEST_P(coordinator_contract, a_store_that_answers_nothing_is_found_out) {
  auto &client = driver().client();
  uint64_t const revision = put_or_fail(client, key("a"), "1");
  auto const &record = driver().watch(client, prefix_, revision);
  put_or_fail(client, key("a"), "2");
  ASSERT_TRUE(driver().until([&] { return record.events.size() == 1; }));
  subject_->set_frozen(client, true);
  uint64_t const begin_ns = driver().now_ns();
  status const code = driver().read(client, prefix_).error();
  EXPECT_TRUE(code == status::timed_out || code == status::peer_lost) << int(code);
  EXPECT_LE(driver().now_ns() - begin_ns, 4 * second_ns);
  EXPECT_TRUE(driver().until([&] { return record.end.has_value(); }, 15 * second_ns));
  EXPECT_LE(driver().now_ns() - begin_ns, 12 * second_ns);
  subject_->set_frozen(client, false);
  EXPECT_TRUE(driver().until([&] { return driver().read(client, prefix_).ok(); }));
}

TEST_P(coordinator_contract, waits_end_with_an_answer_with_a_wake_or_at_the_deadline) {
  auto &client = driver().client();
  put_or_fail(client, key("a"), "1");
  driver().settle(second_ns / 20);
  uint64_t const begin_ns = driver().now_ns();
  EXPECT_EQ(client.wait(begin_ns + 30'000'000), status::timed_out);
  EXPECT_GE(driver().now_ns(), begin_ns + 30'000'000);
  EXPECT_EQ(client.wait(1), status::timed_out) << "a deadline that has passed";
  client.wake();
  EXPECT_EQ(client.wait(driver().now_ns() + second_ns), status::ok) << "a wake before the wait";
  EXPECT_EQ(client.wait(driver().now_ns() + 1'000'000), status::timed_out) << "one wake, two ends";
  bool is_read = false;
  client.read(prefix_, [&](const auto &) { is_read = true; });
  EXPECT_EQ(client.wait(driver().now_ns() + 10 * second_ns), status::ok);
  EXPECT_FALSE(is_read);
  EXPECT_EQ(client.wait(driver().now_ns() + 10 * second_ns), status::ok) << "still due";
  EXPECT_GE(client.progress(), 1u);
  EXPECT_TRUE(is_read);
}

TEST_P(coordinator_contract, a_client_may_be_destroyed_with_requests_outstanding) {
  uint32_t count = 0;
  {
    auto client = subject_->open();
    for (int i = 0; i < 20; i++) {
      client->read("", [&](const auto &) { count++; });
      client->transact({}, {put_change(key("a"), "1")}, [&](const auto &) { count++; });
      client->renew_lease(1, [&](status) { count++; });
    }
    client->watch("", 1, [&](const auto &) { count++; });
  }
  auto &other = driver().client();
  put_or_fail(other, key("b"), "1");
  driver().settle(second_ns / 5);
  EXPECT_EQ(count, 0u);
}

}  // namespace tanada::contract
