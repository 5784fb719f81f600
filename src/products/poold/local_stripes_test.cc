// Striped objects of a pool of one server: limits, removal, eviction, and what a restart finds.
#include "products/poold/local_stripes.hpp"

#include <gtest/gtest.h>

#include "core/base/message.hpp"
#include "products/poold/testing/manifest.hpp"
#include "products/poold/testing/sizes.hpp"
#include "sim/clock.hpp"
#include "sim/world.hpp"

namespace tanada::poold {
namespace {

using wire::pool::stripe_manifest;
using wire::pool::stripe_name;
using wire::pool::stripe_space_name;
using wire::pool::striped_id;

constexpr uint64_t stripe_size = 256 << 10;
constexpr uint8_t partition = 7;

// A log with room for some objects.
class small_store final : public cold_store {
 public:
  std::shared_ptr<cold_reader> open_reader(uint64_t) override {
    return nullptr;
  }
  bool is_writing() const override {
    return false;
  }
  uint64_t capacity() const override {
    return 2 * mib;
  }
};

class local_stripes_test : public testing::Test {
 protected:
  static journal_callback no_callback(const info &) {
    return {};
  }
  void put_stripe(striped_id id, size_t index, uint64_t size = stripe_size) {
    uint64_t const space =
        objects_.open_namespace(stripe_space_name("named", partition), true).value();
    auto const stripe = objects_.create_object(space, size, 0);
    ASSERT_TRUE(stripe.ok()) << last_message();
    ASSERT_TRUE(objects_.commit(stripe.value(), stripe_name(id, index), 0, no_callback).ok());
    objects_.close_namespace(space, true, 1);
  }
  // An object of so many stripes, some of which may be missing.
  object_ref begin(striped_id id, size_t count, uint32_t flags = 0) {
    uint64_t const size = count * stripe_size;
    object_ref const head = objects_.create_striped(space_, size, flags, id).value();
    stripe_manifest manifest;
    manifest.id = id;
    manifest.size = size;
    manifest.stripe_size = stripe_size;
    manifest.partitions.assign(count, partition);
    write_manifest(*head, manifest);
    return head;
  }
  void commit(const object_ref &head, const std::string &name) {
    ASSERT_EQ(objects_.complete_striped(*head), status::ok);
    ASSERT_TRUE(objects_.commit(head, name, 0, no_callback).ok());
  }
  void put(striped_id id, const std::string &name, size_t count, uint32_t flags = 0) {
    object_ref const head = begin(id, count, flags);
    for (size_t i = 0; i < count; i++)
      put_stripe(id, i);
    commit(head, name);
  }
  size_t stripe_count(striped_id id) {
    return objects_.find_stripes({"named", id}).size();
  }

  sim::world world_{1};
  sim::clock clock_{world_};
  small_store log_;
  std::unique_ptr<pool_memory> memory_ =
      pool_memory::create({.capacity = 8 * mib, .segment_size = 2 * mib}).value();
  catalog objects_{*memory_, nullptr, {.quotas = {}, .cold = &log_, .has_all_stripes = true}};
  local_stripes stripes_{{.memory_size = 8 * mib, .clock = &clock_}, objects_};
  uint64_t const space_ = objects_.open_namespace("named", true).value();
};

TEST_F(local_stripes_test, objects_larger_than_a_quarter_of_memory_are_striped) {
  EXPECT_EQ(stripes_.limits().object_size, 2 * mib);
  EXPECT_EQ(stripes_.limits().stripe_size, 512u << 10);
  local_stripes const off{{.memory_size = 8 * mib, .stripe_size = 0}, objects_};
  EXPECT_EQ(off.limits().object_size, 0u);
  local_stripes const large{{.memory_size = uint64_t{64} << 30}, objects_};
  EXPECT_EQ(large.limits().stripe_size, 64 * mib);
}

TEST_F(local_stripes_test, ids_are_not_used_again) {
  local_stripes other{{.memory_size = 8 * mib}, objects_};
  striped_id const first = stripes_.next_id(), second = stripes_.next_id();
  EXPECT_NE(first, second);
  EXPECT_NE(first.run, other.next_id().run);
}

TEST_F(local_stripes_test, stripes_of_a_removed_object_are_removed) {
  put({1, 1}, "a", 3);
  put({1, 2}, "b", 2);
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 3u);
  ASSERT_EQ(objects_.remove(space_, "a", {}), status::ok);
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 0u);
  EXPECT_EQ(stripe_count({1, 2}), 2u);
}

TEST_F(local_stripes_test, stripes_of_a_removed_object_stay_while_it_is_open) {
  put({1, 1}, "a", 2);
  object_ref reader = objects_.open(space_, "a", 0).value();
  ASSERT_EQ(objects_.remove(space_, "a", {}), status::ok);
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 2u);
  reader.reset();
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 0u);
}

TEST_F(local_stripes_test, stripes_without_an_object_are_found_by_a_search) {
  object_ref head = begin({1, 1}, 2);
  put_stripe({1, 1}, 0);
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 1u) << "it is being written";
  head.reset();
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 0u);
  put_stripe({1, 1}, 1);  // of a client that goes on
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 1u);
  world_.advance(6'000'000'000);
  stripes_.progress();
  EXPECT_EQ(stripe_count({1, 1}), 0u);
}

TEST_F(local_stripes_test, an_eviction_evicts_the_object_as_a_whole) {
  put({1, 1}, "old", 3, flag_evictable);
  put({1, 2}, "new", 3, flag_evictable);
  // The log has no room for another one of that size.
  auto const other = objects_.create_object(space_, 3 * stripe_size, 0);
  ASSERT_TRUE(other.ok()) << last_message();
  EXPECT_EQ(stripe_count({1, 1}), 0u);
  EXPECT_EQ(stripe_count({1, 2}), 3u);
  EXPECT_EQ(objects_.open(space_, "old", 0).error(), status::no_entry);
  EXPECT_TRUE(objects_.open(space_, "new", 0).ok());
}

TEST_F(local_stripes_test, an_object_that_is_open_is_not_evicted) {
  put({1, 1}, "a", 6, flag_evictable);
  object_ref const reader = objects_.open(space_, "a", 0).value();
  EXPECT_EQ(objects_.create_object(space_, 3 * stripe_size, 0).error(), status::no_space);
  EXPECT_EQ(stripe_count({1, 1}), 6u);
}

TEST_F(local_stripes_test, an_object_without_all_stripes_is_set_aside) {
  put({1, 1}, "whole", 2);
  object_ref lacking = begin({1, 2}, 2);
  put_stripe({1, 2}, 0);
  commit(lacking, "lacking");
  object_ref shorter = begin({1, 3}, 1);
  put_stripe({1, 3}, 0, stripe_size - 1);
  commit(shorter, "shorter");
  EXPECT_EQ(objects_.set_aside_incomplete(), 2u);
  EXPECT_TRUE(objects_.open(space_, "whole", 0).value()->is_intact());
  EXPECT_FALSE(lacking->is_intact());
  EXPECT_FALSE(shorter->is_intact());
}

}  // namespace
}  // namespace tanada::poold
