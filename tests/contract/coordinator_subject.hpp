// tests/contract/coordinator_subject.hpp: a coordinator under test, and the calls with which the
// suite drives it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seams/clock/clock.hpp"
#include "seams/coordination/coordinator.hpp"

namespace tanada::contract {

// One store, for one test. The keys of earlier tests may still be there.
class coordinator_subject {
 public:
  virtual ~coordinator_subject() = default;
  virtual std::unique_ptr<seams::coordinator> open() = 0;
  // Kills the store, and starts it again with its data.
  virtual void restart() = 0;
  // Removes the history up to the current revision.
  virtual void compact() = 0;
  // While the store is frozen, it answers nothing, and connections stay.
  virtual void set_frozen(seams::coordinator &client, bool is_frozen) = 0;
  virtual seams::clock &time() {
    return seams::monotonic_clock();
  }
};

struct coordinator_case {
  std::string name;
  std::function<std::unique_ptr<coordinator_subject>()> create;
};

inline void PrintTo(const coordinator_case &tested, std::ostream *out) {
  *out << tested.name;
}

// What a client's watch has reported.
struct watch_record {
  std::vector<seams::watch_event> events;
  std::vector<std::vector<seams::watch_event>> calls;
  std::optional<status> end;
};

// Calls of clients that wait for the answer.
class coordinator_driver {
 public:
  static constexpr uint64_t second_ns = 1'000'000'000;
  static constexpr uint64_t patience_ns = 60 * second_ns;
  static constexpr uint64_t step_ns = 5'000'000;

  explicit coordinator_driver(coordinator_subject &subject) : subject_{subject} {}

  seams::coordinator &client() {
    clients_.push_back(subject_.open());
    return *clients_.back();
  }
  void destroy_clients() {
    clients_.clear();
  }
  uint64_t now_ns() {
    return subject_.time().now_ns();
  }

  // Drives all clients until the condition holds.
  bool until(const std::function<bool()> &condition, uint64_t limit_ns = patience_ns) {
    for (uint64_t const end_ns = now_ns() + limit_ns; now_ns() < end_ns;) {
      size_t count = 0;
      for (auto const &driven : clients_)
        count += driven->progress();
      if (condition())
        return true;
      if (count == 0)
        (void)clients_.front()->wait(std::min(now_ns() + step_ns, end_ns));
    }
    return condition();
  }
  void settle(uint64_t duration_ns) {
    (void)until([] { return false; }, duration_ns);
  }

  result<seams::coordinated_range> read(seams::coordinator &client, const std::string &prefix) {
    return await<result<seams::coordinated_range>>([&](auto done) { client.read(prefix, done); });
  }
  result<seams::transaction_outcome> transact(
      seams::coordinator &client,
      const std::vector<seams::transaction_condition> &conditions,
      const std::vector<seams::transaction_change> &changes) {
    return await<result<seams::transaction_outcome>>(
        [&](auto done) { client.transact(conditions, changes, done); });
  }
  result<seams::transaction_outcome> put(seams::coordinator &client,
                                         const std::string &key,
                                         const std::string &value,
                                         seams::lease_id lease = seams::no_lease) {
    return transact(client, {}, {{seams::transaction_change::kind::put, key, value, lease}});
  }
  result<seams::transaction_outcome> remove(seams::coordinator &client, const std::string &key) {
    return transact(client, {}, {{seams::transaction_change::kind::remove, key, {}}});
  }
  result<seams::lease_id> grant(seams::coordinator &client, uint64_t ttl_s) {
    return await<result<seams::lease_id>>([&](auto done) { client.grant_lease(ttl_s, done); });
  }
  status renew(seams::coordinator &client, seams::lease_id lease) {
    return await<status>([&](auto done) { client.renew_lease(lease, done); });
  }
  status revoke(seams::coordinator &client, seams::lease_id lease) {
    return await<status>([&](auto done) { client.revoke_lease(lease, done); });
  }

  // The record stays valid as long as the driver.
  watch_record &watch(seams::coordinator &client, const std::string &prefix, uint64_t revision) {
    records_.push_back(std::make_unique<watch_record>());
    watch_record &record = *records_.back();
    client.watch(prefix, revision, [&record](const result<std::vector<seams::watch_event>> &heard) {
      EXPECT_FALSE(record.end.has_value()) << "a call after the last one";
      if (!heard.ok()) {
        record.end = heard.error();
        return;
      }
      EXPECT_FALSE(heard.value().empty());
      record.calls.push_back(heard.value());
      record.events.insert(record.events.end(), heard.value().begin(), heard.value().end());
    });
    return record;
  }

 private:
  template <class Answer, class Post>
  Answer await(const Post &post) {
    auto const answers = std::make_shared<std::vector<Answer>>();
    post([answers](const Answer &answer) { answers->push_back(answer); });
    EXPECT_TRUE(answers->empty()) << "a callback outside of progress()";
    EXPECT_TRUE(until([&] { return !answers->empty(); })) << "no answer";
    EXPECT_LE(answers->size(), 1u);
    return answers->empty() ? Answer{status::bad_state} : answers->front();
  }

  coordinator_subject &subject_;
  std::vector<std::unique_ptr<watch_record>> records_;
  std::vector<std::unique_ptr<seams::coordinator>> clients_;
};

}  // namespace tanada::contract
