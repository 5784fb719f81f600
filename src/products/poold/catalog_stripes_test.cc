// Striped objects of the catalog: what they are charged for, and the ledger of those that exist.
#include <gtest/gtest.h>

#include <cstring>

#include "products/poold/catalog.hpp"
#include "products/poold/testing/sizes.hpp"

namespace tanada::poold {
namespace {

using wire::pool::stripe_manifest;
using wire::pool::striped_id;

class catalog_stripes : public testing::Test {
 protected:
  catalog_stripes() : space_{objects_.open_namespace("named", true).value()} {}

  // The manifest of an object of this size, with one stripe.
  static stripe_manifest manifest_of(striped_id id, uint64_t size) {
    stripe_manifest manifest;
    manifest.id = id;
    manifest.size = size;
    manifest.stripe_size = std::max<uint64_t>(size, 1);
    if (size > 0)
      manifest.partitions = {1};
    return manifest;
  }
  static void write(object &target, const stripe_manifest &manifest) {
    std::vector<std::byte> bytes;
    wire::encode(manifest, bytes);
    std::vector<iovec> parts;
    target.append_parts(0, bytes.size(), parts);
    ASSERT_EQ(parts.size(), 1u);
    std::memcpy(parts[0].iov_base, bytes.data(), bytes.size());
    target.metadata.size = bytes.size();
  }
  object_ref create(uint64_t number, uint64_t size, uint32_t flags = 0) {
    auto created = objects_.create_striped(space_, size, flags, {1, number});
    EXPECT_TRUE(created.ok());
    write(*created.value(), manifest_of({1, number}, size));
    return created.value();
  }
  void commit(const object_ref &object, const std::string &name) {
    ASSERT_EQ(objects_.complete_striped(*object), status::ok);
    auto const no_journal = [](const info &) {
      return journal_callback{};
    };
    ASSERT_TRUE(objects_.commit(object, name, 0, no_journal).ok());
  }
  bool is_known(uint64_t number) const {
    return objects_.striped()->contains({"named", {1, number}});
  }
  uint64_t used() {
    return objects_.statistics_for(space_).used;
  }

  memory_options const room_{.capacity = 8 * mib, .segment_size = 2 * mib};
  std::unique_ptr<pool_memory> memory_ = pool_memory::create(room_).value();
  catalog objects_{*memory_, nullptr, {.quotas = {{"named", 100 * mib}}}};
  uint64_t space_;
};

TEST_F(catalog_stripes, the_namespace_is_charged_for_the_whole_size) {
  object_ref object = create(1, 60 * mib);
  EXPECT_EQ(used(), 60 * mib);
  commit(object, "a");
  EXPECT_EQ(used(), 60 * mib);
  EXPECT_EQ(object->client_metadata().size, 60 * mib);
  EXPECT_LT(object->metadata.size, 1'000u);
  EXPECT_EQ(objects_.create_striped(space_, 60 * mib, 0, {1, 2}).error(), status::no_space);
  EXPECT_EQ(objects_.resize_striped(*object, 101 * mib), status::no_space);
  object.reset();
  ASSERT_EQ(objects_.remove(space_, "a", {}), status::ok);
  EXPECT_EQ(used(), 0u);
}

TEST_F(catalog_stripes, a_quota_evicts_striped_objects) {
  commit(create(1, 60 * mib, flag_evictable), "a");
  ASSERT_TRUE(is_known(1));
  create(2, 60 * mib);
  EXPECT_FALSE(is_known(1));
  EXPECT_EQ(objects_.open(space_, "a", 0).error(), status::no_entry);
}

// Its bytes are elsewhere. Evicting it would lose it, and free 4 KiB.
TEST_F(catalog_stripes, memory_for_other_objects_evicts_no_striped_ones) {
  commit(create(1, mib, flag_evictable), "1");
  uint64_t const free = memory_->capacity() - memory_->used();
  EXPECT_EQ(objects_.create_object(space_, free + 1, 0, allocation::immediate).error(),
            status::no_space);
  EXPECT_TRUE(is_known(1));
}

TEST_F(catalog_stripes, memory_for_a_new_one_evicts_the_least_recently_used_one) {
  commit(create(1, mib, flag_evictable), "1");
  commit(create(2, mib, flag_evictable), "2");
  std::vector<object_ref> rest;
  for (;;) {
    auto filler = objects_.create_object(space_, 4096, 0, allocation::immediate);
    if (!filler.ok())
      break;
    rest.push_back(std::move(filler).value());
  }
  ASSERT_TRUE(is_known(1) && is_known(2));
  commit(create(3, mib, flag_evictable), "3");
  EXPECT_FALSE(is_known(1));
  EXPECT_TRUE(is_known(2) && is_known(3));
}

TEST_F(catalog_stripes, evicts_the_least_recently_used_ones_on_request) {
  for (uint64_t i = 1; i <= 3; i++)
    commit(create(i, mib, flag_evictable), std::to_string(i));
  commit(create(4, mib), "4");
  object_ref const reader = objects_.open(space_, "1", 0).value();
  EXPECT_EQ(objects_.evict_striped(space_, 1), mib);
  EXPECT_FALSE(is_known(2));
  EXPECT_EQ(objects_.evict_striped(space_, 100 * mib), mib);
  EXPECT_TRUE(is_known(1)) << "it is open";
  EXPECT_FALSE(is_known(3));
  EXPECT_TRUE(is_known(4)) << "it is not evictable";
}

TEST_F(catalog_stripes, an_object_is_known_from_its_creation_until_nobody_has_it_open) {
  object_ref object = create(1, mib);
  EXPECT_TRUE(is_known(1)) << "being written";
  commit(object, "a");
  object.reset();
  EXPECT_TRUE(is_known(1)) << "committed";
  object_ref reader = objects_.open(space_, "a", 0).value();
  ASSERT_EQ(objects_.remove(space_, "a", {}), status::ok);
  EXPECT_TRUE(is_known(1)) << "open";
  reader.reset();
  EXPECT_FALSE(is_known(1));
  auto const dropped = objects_.striped()->take_dropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0], (striped_key{"named", {1, 1}}));
}

TEST_F(catalog_stripes, a_replaced_object_is_dropped) {
  commit(create(1, mib), "a");
  commit(create(2, mib), "a");
  EXPECT_FALSE(is_known(1));
  EXPECT_TRUE(is_known(2));
}

TEST_F(catalog_stripes, a_manifest_must_be_its_objects) {
  auto created = objects_.create_striped(space_, mib, 0, {1, 1});
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(objects_.complete_striped(*created.value()), status::protocol);
  write(*created.value(), manifest_of({1, 2}, mib));
  EXPECT_EQ(objects_.complete_striped(*created.value()), status::protocol);
  write(*created.value(), manifest_of({1, 1}, mib));
  EXPECT_EQ(objects_.complete_striped(*created.value()), status::ok);
}

TEST_F(catalog_stripes, a_copy_of_another_server_knows_its_object) {
  object_ref const source = create(1, mib);
  auto copy = objects_.create_restored(space_, source->metadata.size, flag_striped);
  ASSERT_TRUE(copy.ok());
  write(*copy.value(), manifest_of({1, 9}, 3 * mib));
  change put;
  put.object = copy.value();
  put.name = "a";
  put.object->metadata.version = 7;
  std::vector<change> changes;
  changes.push_back(std::move(put));
  auto const always = [] {
    return status::ok;
  };
  ASSERT_EQ(objects_.apply(space_, always, std::move(changes), {}), status::ok);
  EXPECT_TRUE(is_known(9));
  EXPECT_EQ(copy.value()->client_metadata().size, 3 * mib);
}

TEST_F(catalog_stripes, flags_of_clients_do_not_change_what_an_object_is) {
  commit(create(1, mib), "a");
  ASSERT_EQ(objects_.set_flags(space_, "a", flag_pinned, {}), status::ok);
  uint32_t const flags = objects_.open(space_, "a", 0).value()->flags;
  EXPECT_EQ(flags & flags_of_objects, flag_pinned | flag_striped);
}

TEST_F(catalog_stripes, finds_the_stripes_of_one_object) {
  striped_id const id{1, 1}, neighbor{1, 2};
  auto const no_journal = [](const info &) {
    return journal_callback{};
  };
  for (auto const &[space, name] : {std::pair{"named/7", stripe_name(id, 0)},
                                    {"named/9", stripe_name(id, 1)},
                                    {"named/9", stripe_name(neighbor, 0)},
                                    {"other/9", stripe_name(id, 2)}}) {
    uint64_t const hidden = objects_.open_namespace(space, true).value();
    auto stripe = objects_.create_object(hidden, 100, 0);
    ASSERT_TRUE(objects_.commit(stripe.value(), name, 0, no_journal).ok());
    objects_.close_namespace(hidden, true, 1);
  }
  auto const places = objects_.find_stripes({"named", id});
  ASSERT_EQ(places.size(), 2u);
  EXPECT_EQ(places[0].namespace_name, "named/7");
  EXPECT_EQ(places[1].name, stripe_name(id, 1));
}

}  // namespace
}  // namespace tanada::poold
