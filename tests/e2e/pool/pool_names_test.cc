// The contracts of tanada/pool.h about names, sets and space. pool_contract_test.cc has the list of
// paths.
#include <set>
#include <thread>

#include "e2e/pool/pool_contract.hpp"

namespace tanada::test {
namespace {

TEST_P(pool_contract, a_refusal_names_what_it_is_about) {
  std::string const space = url_of(*daemon);
  char byte = 0;
  handle object;
  auto const expect = [](const std::string &text) {
    EXPECT_EQ(tnd_last_message(), text);
  };
  EXPECT_EQ(tnd_pool_open(pool, "absent", 0, &object), -ENOENT);
  expect(space + "/absent: No such file or directory");
  EXPECT_EQ(tnd_pool_get(pool, "absent", &byte, 1, nullptr, 0), -ENOENT);
  expect(space + "/absent: No such file or directory");
  EXPECT_EQ(tnd_pool_set_commit(pool, "nobody's", 1, 0), -EAGAIN);
  EXPECT_EQ(std::string{tnd_last_message()}.rfind(space + ": ", 0), 0u) << tnd_last_message();
  ASSERT_EQ(tnd_pool_create(pool, "fresh", 1, 0, nullptr, &object), TND_OK);
  tnd_pool_commit_options durable = TND_POOL_COMMIT_OPTIONS_INIT;
  durable.flags = TND_POOL_DURABLE;
  EXPECT_EQ(tnd_pool_commit(object, &durable, nullptr), -EOPNOTSUPP);
  EXPECT_EQ(std::string{tnd_last_message()}.rfind(space + "/fresh: ", 0), 0u) << tnd_last_message();
}

TEST_P(pool_contract, names_are_listed_in_order_and_by_prefix) {
  std::set<std::string> expected;
  for (int i = 0; i < 3'000; i++) {
    std::string const name = "run/step " + std::to_string(i * 7919 % 3000);
    expected.insert(name);
    ASSERT_EQ(put(pool, name, {}), TND_OK);
  }
  ASSERT_EQ(put(pool, "other", {}), TND_OK);
  std::vector<std::string> found;
  auto const take = [](void *to, const char *name, const tnd_pool_info *) {
    static_cast<std::vector<std::string> *>(to)->push_back(name);
    return 0;
  };
  ASSERT_EQ(tnd_pool_list(pool, "run/", take, &found), TND_OK);
  EXPECT_EQ(found, std::vector<std::string>(expected.begin(), expected.end()));
}

// Entries of a level: a common prefix is followed by "*".
std::vector<std::string> level_of(tnd_pool *pool, const char *prefix, const char *delimiter) {
  std::vector<std::string> found;
  auto const take = [](void *to, const char *name, const tnd_pool_info *info) {
    EXPECT_TRUE(info == nullptr || info->version != 0) << name;
    static_cast<std::vector<std::string> *>(to)->push_back(std::string{name} +
                                                           (info == nullptr ? "*" : ""));
    return 0;
  };
  EXPECT_EQ(tnd_pool_list_delimited(pool, prefix, delimiter, take, &found), TND_OK);
  return found;
}

TEST_P(pool_contract, one_level_of_names_is_listed) {
  for (char const *const name : {"a",
                                 "a/",
                                 "a/1",
                                 "a/b/2",
                                 "a/b/3",
                                 "a/c",
                                 "a0",
                                 "b::x",
                                 "b::y::z",
                                 "c\xFF/1",
                                 "c\xFF/2",
                                 "c\xFF\xFF/1",
                                 "\xFF/1",
                                 "\xFF\xFF"})
    ASSERT_EQ(put(pool, name, {}), TND_OK);
  using names = std::vector<std::string>;
  EXPECT_EQ(
      level_of(pool, "", "/"),
      (names{"a", "a/*", "a0", "b::x", "b::y::z", "c\xFF/*", "c\xFF\xFF/*", "\xFF/*", "\xFF\xFF"}));
  EXPECT_EQ(level_of(pool, "a/", "/"), (names{"a/", "a/1", "a/b/*", "a/c"}));
  EXPECT_EQ(level_of(pool, "a/b", "/"), (names{"a/b/*"}));
  EXPECT_EQ(level_of(pool, "b", "::"), (names{"b::*"}));
  EXPECT_EQ(level_of(pool, "b::", "::"), (names{"b::x", "b::y::*"}));
  EXPECT_EQ(level_of(pool, "c\xFF", "\xFF/"), (names{"c\xFF/1", "c\xFF/2", "c\xFF\xFF/*"}));
  EXPECT_EQ(level_of(pool, "absent/", "/"), names{});
}

TEST_P(pool_contract, a_level_of_many_pages_is_listed_once) {
  std::set<std::string> expected;
  for (int i = 0; i < 1'500; i++) {
    std::string const folder = "many/folder " + std::to_string(i * 7919 % 1500) + '/';
    ASSERT_EQ(put(pool, folder + "first", {}), TND_OK);
    ASSERT_EQ(put(pool, folder + "second/below", {}), TND_OK);
    ASSERT_EQ(put(pool, folder + "\xFF", {}), TND_OK);
    expected.insert(folder + "*");
  }
  ASSERT_EQ(put(pool, "many", {}), TND_OK);
  ASSERT_EQ(put(pool, "other", {}), TND_OK);
  EXPECT_EQ(level_of(pool, "many/", "/"),
            std::vector<std::string>(expected.begin(), expected.end()));
}

TEST_P(pool_contract, a_list_with_invalid_arguments_is_refused) {
  std::string const long_name(TND_POOL_NAME_SIZE_MAX + 1, 'x');
  auto const take = [](void *, const char *, const tnd_pool_info *) {
    return 0;
  };
  EXPECT_EQ(tnd_pool_list_delimited(pool, "", nullptr, take, nullptr), -EINVAL);
  EXPECT_EQ(tnd_pool_list_delimited(pool, "", long_name.c_str(), take, nullptr), -ENAMETOOLONG);
  EXPECT_EQ(tnd_pool_list_delimited(pool, "", "/", nullptr, nullptr), -EINVAL);
}

TEST_P(pool_contract, rename_replaces_unless_told_not_to) {
  auto const a = pattern(1000, 1), b = pattern(2000, 2);
  ASSERT_EQ(put(pool, "a", a), TND_OK);
  ASSERT_EQ(put(pool, "b", b), TND_OK);
  EXPECT_EQ(get(pool, "b"), b);
  EXPECT_EQ(tnd_pool_rename(pool, "a", "b", TND_POOL_EXCLUSIVE), -EEXIST);
  EXPECT_EQ(tnd_pool_rename(pool, "a", "b", 0), TND_OK);
  EXPECT_EQ(get(pool, "b"), a);
  get(pool, "a", -ENOENT);
  EXPECT_EQ(tnd_pool_rename(pool, "a", "c", 0), -ENOENT);
  EXPECT_EQ(tnd_pool_put(pool, "b", a.data(), a.size(), TND_POOL_EXCLUSIVE, nullptr), -EEXIST);
  handle object;
  EXPECT_EQ(tnd_pool_create(pool, "b", 1, TND_POOL_EXCLUSIVE, nullptr, &object), -EEXIST);
}

TEST_P(pool_contract, a_set_commits_as_one) {
  connection other{url_of(*daemon), GetParam()};
  auto const prepare = [](tnd_pool *with, const char *name) {
    handle object;
    ASSERT_EQ(tnd_pool_create(with, name, 4, 0, "step 1", &object), TND_OK);
    ASSERT_EQ(tnd_pool_write(object, 0, name, 4, TND_POOL_MEMORY_HOST), TND_OK);
    ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  };
  prepare(pool, "r-00");
  prepare(other, "r-01");
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "r-00", 0, &info), -ENOENT);
  EXPECT_EQ(tnd_pool_set_commit(pool, "step 1", 3, 0), -EAGAIN);
  ASSERT_EQ(tnd_pool_set_commit(pool, "step 1", 2, 0), TND_OK);
  EXPECT_EQ(get(pool, "r-00").size(), 4u);
  EXPECT_EQ(get(other, "r-01").size(), 4u);
}

TEST_P(pool_contract, a_set_whose_writers_have_gone_is_dropped) {
  uint64_t const before = statistics().used;
  {
    connection other{url_of(*daemon), GetParam()};
    handle object;
    ASSERT_EQ(tnd_pool_create(other, "r-00", 1 << 20, 0, "step 2", &object), TND_OK);
    ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  }
  for (int i = 0; i < 1000 && statistics().used != before; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(statistics().used, before);
  EXPECT_EQ(tnd_pool_set_commit(pool, "step 2", 1, 0), -EAGAIN);
}

TEST_P(pool_contract, what_may_be_dropped_makes_room_for_its_own_next_version) {
  uint64_t const size = statistics().capacity / 4 * 3;
  for (char const fill : {'1', '2', '3'}) {
    std::vector<char> const bytes(size, fill);
    ASSERT_EQ(put(pool, "large", bytes, TND_POOL_EVICTABLE), TND_OK) << tnd_last_message();
    EXPECT_TRUE(get(pool, "large", TND_OK, size) == bytes);
  }
}

TEST_P(pool_contract, a_full_pool_drops_what_may_be_dropped_longest_unused_first) {
  auto const part = pattern(10'000'000, 1);
  for (int i = 0; i < 6; i++)
    ASSERT_EQ(put(pool, "e" + std::to_string(i), part, TND_POOL_EVICTABLE), TND_OK);
  ASSERT_EQ(tnd_pool_set_flags(pool, "e1", TND_POOL_EVICTABLE | TND_POOL_PINNED), TND_OK);
  get(pool, "e0");
  ASSERT_EQ(put(pool, "new", part), TND_OK) << tnd_last_message();
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "e0", 0, &info), TND_OK);
  EXPECT_EQ(tnd_pool_stat(pool, "e1", 0, &info), TND_OK);
  EXPECT_EQ(tnd_pool_stat(pool, "e2", 0, &info), -ENOENT);
  EXPECT_GE(statistics().evictions, 1u);
  for (int i = 0; i < 4; i++)
    ASSERT_EQ(put(pool, "more" + std::to_string(i), part), TND_OK);
  EXPECT_EQ(put(pool, "too much", part), -ENOSPC);
  EXPECT_EQ(tnd_pool_stat(pool, "e1", 0, &info), TND_OK);
  EXPECT_EQ(get(pool, "new"), part);
}

TEST_P(pool_contract, what_cannot_fit_drops_nothing) {
  ASSERT_EQ(put(pool, "pinned", pattern(10'000'000, 1)), TND_OK);
  ASSERT_EQ(put(pool, "cached", pattern(10'000'000, 2), TND_POOL_EVICTABLE), TND_OK);
  handle object;
  EXPECT_EQ(tnd_pool_create(pool, "large", 60'000'000, 0, nullptr, &object), -ENOSPC);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "cached", 0, &info), TND_OK);
}

}  // namespace
}  // namespace tanada::test
