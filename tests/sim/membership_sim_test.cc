// Goals: a proposal that treats a server as gone has no effect once the server is back; the
// protocol's version is one that all servers have, and only rises. Method: members over a simulated
// etcd, and proposals that are held back.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "products/poold/cluster/membership.hpp"
#include "sim/clock.hpp"
#include "sim/coordinator.hpp"
#include "sim/world.hpp"

namespace tanada::test {
namespace {

using namespace poold;

// A client whose transactions can be held back.
class delayed_coordinator final : public seams::coordinator {
 public:
  explicit delayed_coordinator(std::unique_ptr<seams::coordinator> inner)
      : inner_{std::move(inner)} {}
  void transact(std::vector<seams::transaction_condition> conditions,
                std::vector<seams::transaction_change> changes,
                transaction_callback done) override {
    auto send = [this, conditions, changes, done] {
      inner_->transact(conditions, changes, done);
    };
    if (holds_back)
      held.push_back(std::move(send));
    else
      send();
  }
  void read(const std::string &prefix, range_callback done) override {
    inner_->read(prefix, std::move(done));
  }
  void grant_lease(uint64_t ttl_s, lease_callback done) override {
    inner_->grant_lease(ttl_s, std::move(done));
  }
  void renew_lease(seams::lease_id lease, status_callback done) override {
    inner_->renew_lease(lease, std::move(done));
  }
  void revoke_lease(seams::lease_id lease, status_callback done) override {
    inner_->revoke_lease(lease, std::move(done));
  }
  void watch(const std::string &prefix, uint64_t after_revision, watch_handler handler) override {
    inner_->watch(prefix, after_revision, std::move(handler));
  }
  size_t progress() override {
    return inner_->progress();
  }
  status wait(uint64_t deadline_ns) override {
    return inner_->wait(deadline_ns);
  }
  void wake() noexcept override {
    inner_->wake();
  }
  const seams::coordinator &inner() const {
    return *inner_;
  }

  bool holds_back = false;
  std::deque<std::function<void()>> held;

 private:
  std::unique_ptr<seams::coordinator> const inner_;
};

struct member {
  member(sim::world &world,
         sim::coordinator_store &store,
         const std::string &name,
         uint32_t protocol = wire::pool::protocol_version)
      : clock{world}, client{store.open()} {
    membership_options options;
    options.protocol = protocol;
    options.prefix = "/tanada/test/";
    options.self.self = {name, 1};
    options.copies = 2;
    options.lease_s = 1;
    options.clock = &clock;
    self.reset(new membership{client,
                              options,
                              [](cluster_map &candidate) { return complete_all(candidate); },
                              [this] {
                                has_changed = true;
                              }});
  }
  // Every server that joins is up to date at once.
  static bool complete_all(cluster_map &candidate) {
    bool is_edited = false;
    for (uint32_t i = 0; i < partition_count; i++) {
      auto const joining = candidate.partitions[i].joining;
      for (const replica &run : joining)
        is_edited |= complete_join(candidate, i, run, false);
    }
    return is_edited;
  }
  void progress() {
    self->progress();
    if (std::exchange(has_changed, false))
      self->propose();
    self->confirm_applied();
  }
  bool is_primary() const {
    auto const map = self->map();
    return map != nullptr && map->partitions[0].replicas.front() == self->self();
  }

  sim::clock clock;
  delayed_coordinator client;
  std::unique_ptr<membership> self;
  bool has_changed = false;
};

class membership_sim : public testing::Test {
 protected:
  template <class Condition>
  bool run_until(Condition condition) {
    for (int i = 0; i < 20'000 && !condition(); i++) {
      world_.advance(1'000'000);
      first_.progress();
      second_.progress();
    }
    return condition();
  }
  bool has_lease(const member &candidate) {
    return candidate.self->lease_end_ns() > world_.now_ns();
  }

  sim::world world_{1};
  sim::coordinator_store store_{world_, {}};
  member first_{world_, store_, "first"}, second_{world_, store_, "second"};
};

TEST_F(membership_sim, a_server_that_is_back_is_not_replaced_by_an_old_proposal) {
  ASSERT_TRUE(run_until([&] {
    auto const map = second_.self->map();
    return map != nullptr && map->partitions[0].replicas.size() == 2;
  }));
  member &primary = first_.is_primary() ? first_ : second_;
  member &backup = first_.is_primary() ? second_ : first_;
  store_.set_reachable(primary.client.inner(), false);
  backup.client.holds_back = true;
  ASSERT_TRUE(run_until([&] { return !backup.client.held.empty(); }));
  EXPECT_FALSE(has_lease(primary));
  store_.set_reachable(primary.client.inner(), true);
  ASSERT_TRUE(run_until([&] { return has_lease(primary); }));
  EXPECT_TRUE(primary.is_primary());
  backup.client.holds_back = false;
  for (auto const &send : std::exchange(backup.client.held, {}))
    send();
  int rounds = 0;
  run_until([&] { return ++rounds > 200; });
  EXPECT_TRUE(has_lease(primary));
  EXPECT_TRUE(primary.is_primary()) << "it has served by its map meanwhile";

  // The backup takes over as soon as that is right.
  store_.set_reachable(primary.client.inner(), false);
  EXPECT_TRUE(run_until([&] { return backup.is_primary(); }));
}

class membership_protocol_sim : public testing::Test {
 protected:
  template <class Condition>
  bool run_until(Condition condition) {
    for (int i = 0; i < 20'000 && !condition(); i++) {
      world_.advance(1'000'000);
      for (auto const &running : members_)
        running->progress();
    }
    return condition();
  }
  member &add(const std::string &name, uint32_t protocol) {
    members_.push_back(std::make_unique<member>(world_, store_, name, protocol));
    return *members_.back();
  }
  bool has_version(uint32_t version) {
    return run_until([&] {
      return std::ranges::all_of(members_, [&](auto const &running) {
        return running->self->map() != nullptr && running->self->protocol() == version;
      });
    });
  }
  static constexpr uint32_t newest = wire::pool::protocol_version, older = newest - 1;

  sim::world world_{1};
  sim::coordinator_store store_{world_, {}};
  std::vector<std::unique_ptr<member>> members_;
};

TEST_F(membership_protocol_sim, what_is_new_waits_until_all_servers_have_it) {
  add("first", older);
  ASSERT_TRUE(has_version(older));
  member &second = add("second", newest);
  ASSERT_TRUE(has_version(older));
  ASSERT_EQ(second.self->describe_outdated().count("first"), 1u);

  // A server that is away may come back as it was.
  members_.front()->self->leave();
  ASSERT_TRUE(run_until([&] { return members_.front()->self->has_left(); }));
  members_.erase(members_.begin());
  int rounds = 0;
  run_until([&] { return ++rounds > 5'000; });
  EXPECT_EQ(second.self->protocol(), older);

  add("first", newest);
  EXPECT_TRUE(has_version(newest));
  EXPECT_TRUE(second.self->describe_outdated().empty());
}

TEST_F(membership_protocol_sim, a_server_without_the_clusters_version_is_refused) {
  member &first = add("first", newest);
  ASSERT_TRUE(has_version(newest));
  member &late = add("late", older);
  ASSERT_TRUE(run_until([&] { return late.self->refusal() != nullptr; }));
  EXPECT_NE(late.self->refusal()->find("the cluster uses version"), std::string::npos);
  EXPECT_TRUE(run_until([&] { return late.self->has_left(); }));
  EXPECT_EQ(first.self->protocol(), newest);
}

}  // namespace
}  // namespace tanada::test
