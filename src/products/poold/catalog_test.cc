// Namespaces: their lifetime, and their limit.
#include "products/poold/catalog.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/log.hpp"
#include "products/poold/testing/sizes.hpp"

namespace tanada::poold {
namespace {

class catalog_namespaces : public testing::Test {
 protected:
  status try_enter(const std::string &name, bool can_write = true) {
    auto entered = objects_.open_namespace(name, can_write);
    if (!entered.ok())
      return entered.error();
    ids_[name] = entered.value();
    return status::ok;
  }
  void leave(const std::string &name) {
    objects_.close_namespace(ids_.at(name), true, 1);
  }
  object_ref put(const std::string &namespace_name, const std::string &name, uint32_t flags = 0) {
    auto object = objects_.create_object(ids_.at(namespace_name), 100, flags);
    EXPECT_TRUE(object.ok());
    auto const no_journal = [](const info &) {
      return journal_callback{};
    };
    EXPECT_TRUE(objects_.commit(object.value(), name, 0, no_journal).ok());
    return object.value();
  }
  void remove(const std::string &namespace_name, const std::string &name) {
    EXPECT_EQ(objects_.remove(ids_.at(namespace_name), name, {}), status::ok);
  }

  memory_options const room_{.capacity = 8 * mib, .segment_size = 2 * mib};
  std::unique_ptr<pool_memory> memory_ = pool_memory::create(room_).value();
  catalog objects_{*memory_, nullptr, {.quotas = {{"named", mib}}, .namespace_count_max = 3}};
  std::map<std::string, uint64_t> ids_;
};

TEST_F(catalog_namespaces, an_empty_one_without_clients_takes_no_place) {
  for (int i = 0; i < 100; i++) {
    ASSERT_EQ(try_enter(std::to_string(i)), status::ok) << i;
    leave(std::to_string(i));
  }
  EXPECT_TRUE(objects_.all_namespaces().empty());
}

TEST_F(catalog_namespaces, a_set_replaces_objects_unless_one_of_its_own_is_exclusive) {
  ASSERT_EQ(try_enter("a"), status::ok);
  uint64_t const space = ids_.at("a");
  auto const prepare = [&](const std::string &name, const std::string &set, uint32_t flags) {
    object_ref const object = objects_.create_object(space, 100, 0).value();
    EXPECT_EQ(objects_.prepare(object, name, set, 1, flags), status::ok);
    return object;
  };
  object_ref const first = put("a", "x");
  prepare("y", "exclusive", 0);
  prepare("x", "exclusive", flag_exclusive);
  EXPECT_EQ(objects_.commit_set(space, "exclusive", 2, {}), status::exists);
  EXPECT_EQ(objects_.open(space, "x", 0).value(), first);
  EXPECT_EQ(objects_.open(space, "y", 0).error(), status::no_entry);
  object_ref const other = prepare("x", "other", 0);
  EXPECT_EQ(objects_.commit_set(space, "other", 1, {}), status::ok);
  EXPECT_EQ(objects_.open(space, "x", 0).value(), other);
  remove("a", "x");
  EXPECT_EQ(objects_.commit_set(space, "exclusive", 2, {}), status::ok);
}

TEST_F(catalog_namespaces, one_with_a_client_or_objects_keeps_its_place) {
  for (const char *name : {"a", "b", "c"})
    ASSERT_EQ(try_enter(name), status::ok);
  put("a", "object");
  leave("a");
  leave("b");
  ASSERT_EQ(try_enter("d"), status::ok);
  EXPECT_EQ(try_enter("e"), status::no_space);
  EXPECT_NE(std::string(last_message()).find("3 namespaces"), std::string::npos) << last_message();
  ASSERT_EQ(try_enter("a"), status::ok);
  EXPECT_TRUE(objects_.open(ids_["a"], "object", 0).ok());
  remove("a", "object");
  EXPECT_EQ(try_enter("e"), status::no_space) << "it still has a client";
  leave("a");
  EXPECT_EQ(try_enter("e"), status::ok);
}

TEST_F(catalog_namespaces, whoever_only_reads_takes_no_place_and_sees_what_comes) {
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(try_enter(std::to_string(i), false), status::ok);
  EXPECT_TRUE(objects_.all_namespaces().empty());
  for (const char *name : {"7", "b", "c"})
    ASSERT_EQ(try_enter(name), status::ok);
  put("7", "object");
  EXPECT_TRUE(objects_.open(ids_["7"], "object", 0).ok());
  EXPECT_EQ(try_enter("8"), status::no_space);
  EXPECT_EQ(try_enter("8", false), status::ok);
  EXPECT_EQ(objects_.all_namespaces().size(), 3u);
}

TEST_F(catalog_namespaces, those_with_a_quota_or_restored_objects_are_never_refused) {
  for (const char *name : {"a", "b", "c", "named"})
    ASSERT_EQ(try_enter(name), status::ok);
  EXPECT_EQ(try_enter("other"), status::no_space);
  for (const char *name : {"x", "y"}) {
    ids_[name] = objects_.open_restored_namespace(name);
    objects_.restore("object", objects_.create_restored(ids_[name], 100, 0).value());
  }
  EXPECT_EQ(try_enter("x"), status::ok);
  objects_.replace_quotas({{"other", mib}});
  EXPECT_EQ(try_enter("other"), status::ok);
  EXPECT_EQ(try_enter("named"), status::ok) << "it exists already";
}

TEST_F(catalog_namespaces, a_place_comes_back_once_the_last_evictable_object_was_dropped) {
  for (const char *name : {"a", "b"})
    ASSERT_EQ(try_enter(name), status::ok);
  put("a", "object", flag_evictable);
  leave("a");
  EXPECT_TRUE(objects_.create_object(ids_["b"], 8 * mib, 0).ok());
  for (const char *name : {"c", "d"})
    EXPECT_EQ(try_enter(name), status::ok);
}

TEST_F(catalog_namespaces, a_full_pool_reports_what_is_bound_to_others) {
  for (const char *name : {"a", "b"})
    ASSERT_EQ(try_enter(name), status::ok);
  auto const first = objects_.create_object(ids_["a"], 3 * mib, 0).value();
  auto view = memory_->export_segment(ids_["a"], first->pieces().back().segment, true);
  ASSERT_TRUE(view.ok());
  close(view.value().descriptor);
  namespace_statistics const usage = objects_.statistics_for(ids_["a"]);
  EXPECT_EQ(usage.used, 3 * mib);
  EXPECT_GT(usage.owned, usage.used);
  EXPECT_GT(usage.segment_count, 0u);
  EXPECT_EQ(objects_.create_object(ids_["b"], 9 * mib, 0).error(), status::no_space);
  std::string const text = last_message();
  EXPECT_NE(text.find("of its 8388608 bytes 3145728 are in use, " +
                      std::to_string(usage.owned - usage.used) + " unused are bound to other"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("--size"), std::string::npos) << text;
}

TEST_F(catalog_namespaces, a_message_about_space_names_the_namespace_of_the_user) {
  std::string const hidden = wire::pool::stripe_space_name("runs", 3);
  ASSERT_EQ(try_enter(hidden), status::ok);
  EXPECT_EQ(objects_.create_object(ids_[hidden], 9 * mib, 0).error(), status::no_space);
  EXPECT_TRUE(last_message().starts_with("namespace runs: ")) << last_message();
}

TEST_F(catalog_namespaces, a_number_is_never_used_again) {
  ASSERT_EQ(try_enter("a"), status::ok);
  uint64_t const before = ids_["a"];
  object_ref const held = put("a", "object");
  remove("a", "object");
  leave("a");
  ASSERT_EQ(try_enter("b"), status::ok);
  EXPECT_NE(ids_["b"], before);
  ASSERT_EQ(try_enter("a"), status::ok);
  EXPECT_EQ(objects_.statistics_for(ids_["a"]).used, held->allocated_size())
      << "an object in use counts towards the quota";
}

// Two servers of a cluster that know of the same last version, with equal clocks.
TEST(catalog_versions, those_of_different_servers_differ_in_their_tags) {
  struct stopped_clock final : seams::clock {
    uint64_t now_ns() noexcept override {
      return 0;
    }
    void sleep_ns(uint64_t) noexcept override {}
  } clock;
  auto const memory = pool_memory::create({.capacity = 8 * mib, .segment_size = 2 * mib}).value();
  auto const commit = [&](uint64_t tag, uint64_t highest) {
    catalog_options limits;
    limits.clock = &clock;
    limits.version_tag = [tag](const std::string &) {
      return tag;
    };
    catalog objects{*memory, nullptr, std::move(limits)};
    objects.raise_version(highest);
    uint64_t const space = objects.open_namespace("space", true).value();
    auto const object = objects.create_object(space, 100, 0);
    auto const no_journal = [](const info &) {
      return journal_callback{};
    };
    return objects.commit(object.value(), "object", 0, no_journal).value();
  };
  uint64_t const tag_max = (uint64_t{1} << version_tag_bits) - 1;
  for (uint64_t const highest : {uint64_t{0}, uint64_t{1'800'000'000'000'000}, uint64_t{1} << 61}) {
    uint64_t const version = commit(5, highest), rival = commit(tag_max, highest);
    EXPECT_NE(version, rival);
    EXPECT_GT(version, highest);
    EXPECT_GT(rival, highest);
    EXPECT_GT(commit(0, rival), rival);
  }
}

}  // namespace
}  // namespace tanada::poold
