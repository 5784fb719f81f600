// Goal: after the log failed, what it keeps under an object's old name still goes where a rename sends it, also when the removal
// of that old name is being completed; a log that lost a removal still comes back. Method: the journal over a simulated store
// that fails for a while; then a new journal says what the store has.
#include "poold/durable.hpp"

#include <gtest/gtest.h>

#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::poold {
namespace {

constexpr uint64_t mib = 1 << 20;

class pool_durable : public testing::Test {
 protected:
  void SetUp() override { start(); }

  void start() {
    objects_.reset(), journal_.reset(), memory_.reset();
    memory_ = space::create({.capacity = 4 * mib, .segment_size = 2 * mib, .prefault = false}).value();
    durable_options keeping;
    keeping.folder = settings_.url, keeping.with_data = settings_.with_data;
    journal_ = durable_journal::open_on(store_, clock_, *memory_, keeping, settings_).value();
    objects_ = std::make_unique<catalog>(*memory_, journal_.get(), catalog_options{});
    ASSERT_EQ(journal_->restore(*objects_), status::ok);
    space_ = objects_->enter("s").value();
  }
  void drain() { ASSERT_EQ(journal_->drain(clock_.now_ns() + 1'000'000'000), status::ok); }
  void fail_writes(bool on) {
    sim::store_faults faults;
    if (on) faults.errors[size_t(port::store_op_kind::write)] = {100, status::io};
    store_.faults_set(faults);
  }
  journal_done told() {
    return [this](status code) { outcomes_.push_back(code); };
  }
  void put(const std::string &name) {
    auto made = objects_->begin(space_, 100, 0).value();
    ASSERT_TRUE(objects_->commit(made, name, 0, [&](const info &) { return told(); }).ok());
  }
  void rename(const std::string &name, const std::string &to) { ASSERT_EQ(objects_->rename(space_, name, to, 0, told()), status::ok); }
  void remove(const std::string &name) { ASSERT_EQ(objects_->remove(space_, name, told()), status::ok); }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    objects_->list(space_, "", "", [&](const std::string &name, const info &) {
      all.push_back(name);
      return true;
    });
    return all;
  }
  using outcomes = std::vector<status>;

  // One transaction after the other.
  pool::log_options settings_ = [] {
    pool::log_options made;
    made.url = "sim://log/", made.group_size_max = 1;
    return made;
  }();
  sim::world world_{1};
  sim::clock clock_{world_};
  sim::store store_{world_};
  std::unique_ptr<space> memory_;
  std::unique_ptr<durable_journal> journal_;
  std::unique_ptr<catalog> objects_;
  uint32_t space_ = 0;
  outcomes outcomes_;
};

TEST_F(pool_durable, what_a_failed_log_has_under_an_old_name_goes_with_its_removal) {
  put("a"), drain();
  fail_writes(true);
  rename("a", "b"), drain();
  put("a"), drain();
  fail_writes(false);
  EXPECT_EQ(std::exchange(outcomes_, {}), (outcomes{status::ok, status::io, status::io}));
  remove("a"), drain();
  EXPECT_EQ(outcomes_, outcomes{status::ok});
  start();
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(pool_durable, a_rename_on_its_way_saves_it_from_that_removal) {
  put("a"), put("c"), drain();
  fail_writes(true);
  rename("a", "b"), drain();
  put("a"), drain();
  fail_writes(false);
  outcomes_.clear();
  remove("a"), rename("b", "c"), drain();
  EXPECT_EQ(outcomes_, (outcomes{status::ok, status::ok}));
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
  start();
  EXPECT_EQ(names(), std::vector<std::string>{"c"});
}

// Objects stay in place in the space's file, and the log has where. An empty space has zeros there.
TEST_F(pool_durable, of_two_objects_in_the_same_place_one_comes_back) {
  objects_.reset(), journal_.reset();
  settings_.with_data = false;
  {
    auto log = pool::durable_log::open(store_, clock_, settings_).value();
    std::vector<std::byte> const zeros(128);
    pool::checksum sum{pool::checksum_kind::crc32c};
    sum.add(zeros.data(), zeros.size());
    for (uint64_t i = 0; i < 3; i++) {
      pool::change put;
      put.meta = {"s", "n" + std::to_string(i), 10 + i, zeros.size(), 0, 0, sum.kind(), sum.value()};
      put.extents = {{i == 2 ? 4096 : i * 64, zeros.size()}};
      ASSERT_EQ(log->append({put}, told()), status::ok);
    }
    ASSERT_EQ(log->drain(clock_.now_ns() + 1'000'000'000), status::ok);
  }
  EXPECT_EQ(outcomes_, outcomes(3, status::ok));
  start();
  EXPECT_EQ(names().size(), 2u);
}

}  // namespace
}  // namespace tanada::poold
