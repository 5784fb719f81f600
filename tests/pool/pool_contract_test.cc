// The promises of tanada/pool.h, by shared memory and by TCP.
#include <cstring>
#include <set>
#include <thread>

#include "pool/checksum.hpp"
#include "pool/pool_fixture.hpp"

namespace tanada::test {
namespace {

class pool_contract : public testing::TestWithParam<way> {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool(GetParam()));
  connection pool{url_of(*daemon), GetParam()};

  tnd_pool_statistics statistics() {
    tnd_pool_statistics all{};
    all.struct_size = sizeof all;
    EXPECT_EQ(tnd_pool_get_statistics(pool, &all), TND_OK);
    return all;
  }
};

TEST_P(pool_contract, tells_its_path) {
  ASSERT_EQ(pool.code, TND_OK);
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  ASSERT_EQ(tnd_pool_get_connection(pool, &about), TND_OK);
  bool const is_rdma = GetParam() == way::fabric && test_fabric_is_rdma();
  tnd_pool_path const otherwise = is_rdma                     ? TND_POOL_PATH_RDMA
                                  : GetParam() == way::fabric ? TND_POOL_PATH_FABRIC
                                                              : TND_POOL_PATH_TCP;
  EXPECT_EQ(about.path, uint32_t(GetParam() == way::shared_memory ? TND_POOL_PATH_SHARED_MEMORY : otherwise));
  EXPECT_EQ(about.reason[0] == 0, GetParam() == way::shared_memory || is_rdma) << about.reason;
  EXPECT_EQ(about.can_write, 1u);
  EXPECT_EQ(about.is_durable, 0u);
}

TEST_P(pool_contract, a_refusal_names_what_it_is_about) {
  std::string const space = url_of(*daemon);
  char byte = 0;
  handle object;
  auto const expect = [](const std::string &text) { EXPECT_EQ(tnd_last_message(), text); };
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

TEST_P(pool_contract, what_is_put_is_got) {
  for (size_t const size : {0, 1, 63, 4096, 65536, 65537, 1'000'000, 9'000'001}) {
    auto const bytes = pattern(size, uint32_t(size));
    std::string const name = "object " + std::to_string(size);
    tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
    options.checksum_kind = size % 2 ? TND_POOL_CHECKSUM_CRC32C : TND_POOL_CHECKSUM_XXH3;
    options.flags = TND_POOL_VERIFY;
    ASSERT_EQ(tnd_pool_put(pool, name.c_str(), bytes.data(), size, 0, &options), TND_OK) << tnd_last_message();
    EXPECT_EQ(get(pool, name), bytes);
    EXPECT_EQ(get(pool, name), bytes);  // once more: it may come from a cache now
    tnd_pool_info info;
    ASSERT_EQ(tnd_pool_stat(pool, name.c_str(), 0, &info), TND_OK);
    EXPECT_EQ(info.size, size);
    EXPECT_EQ(info.checksum, pool::checksum_of(pool::checksum_kind(options.checksum_kind), bytes.data(), size));
  }
}

TEST_P(pool_contract, nobody_sees_an_object_before_its_commit) {
  auto const bytes = pattern(100'000, 1);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "new", bytes.size(), 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST), TND_OK);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "new", 0, &info), -ENOENT);
  get(pool, "new", -ENOENT);
  uint64_t version = 0;
  ASSERT_EQ(tnd_pool_commit(object, nullptr, &version), TND_OK);
  EXPECT_GT(version, 0u);
  EXPECT_EQ(get(pool, "new"), bytes);
  EXPECT_EQ(tnd_pool_write(object, 0, bytes.data(), 1, TND_POOL_MEMORY_HOST), -EBADF);
  std::vector<char> read(bytes.size());
  EXPECT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, nullptr), TND_OK);
  EXPECT_EQ(read, bytes);
}

TEST_P(pool_contract, what_is_not_committed_is_dropped) {
  uint64_t const before = statistics().used;
  {
    handle object;
    ASSERT_EQ(tnd_pool_create(pool, "gone", 1 << 20, 0, nullptr, &object), TND_OK);
    EXPECT_GT(statistics().used, before);
  }
  EXPECT_EQ(statistics().used, before);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "gone", 0, &info), -ENOENT);
}

TEST_P(pool_contract, a_reader_keeps_the_version_it_opened) {
  auto const old_bytes = pattern(300'000, 1), new_bytes = pattern(200'000, 2);
  ASSERT_EQ(put(pool, "name", old_bytes), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_open(pool, "name", 0, &object), TND_OK);
  tnd_pool_info info;
  ASSERT_EQ(tnd_pool_get_info(object, &info), TND_OK);
  ASSERT_EQ(put(pool, "name", new_bytes), TND_OK);
  EXPECT_EQ(get(pool, "name"), new_bytes);
  ASSERT_EQ(tnd_pool_remove(pool, "name", 0), TND_OK);
  EXPECT_EQ(put(pool, "filler", pattern(1'000'000, 9)), TND_OK);
  std::vector<char> read(old_bytes.size());
  uint64_t size = 0;
  ASSERT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, &size), TND_OK);
  EXPECT_EQ(read, old_bytes);
  handle again;
  EXPECT_EQ(tnd_pool_open(pool, "name", info.version, &again), -ENOENT);
}

TEST_P(pool_contract, unwritten_bytes_are_zero) {
  // Fill the memory first, so that old bytes are there to be seen.
  ASSERT_EQ(put(pool, "old", pattern(10'000'000, 3)), TND_OK);
  ASSERT_EQ(tnd_pool_remove(pool, "old", 0), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "sparse", 8'000'000, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 5'000'000, "x", 1, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 10, "y", 1, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(8'000'000);
  expected[5'000'000] = 'x', expected[10] = 'y';
  EXPECT_EQ(get(pool, "sparse"), expected);
}

TEST_P(pool_contract, writes_behind_the_end_make_it_larger) {
  auto const bytes = pattern(3'000'000, 4);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "grown", 0, 0, nullptr, &object), TND_OK);
  for (size_t at = 0; at < bytes.size(); at += 70'000) {
    size_t const size = std::min<size_t>(70'000, bytes.size() - at);
    ASSERT_EQ(tnd_pool_write(object, at, bytes.data() + at, size, TND_POOL_MEMORY_HOST), TND_OK);
  }
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  EXPECT_EQ(get(pool, "grown"), bytes);
}

TEST_P(pool_contract, a_writer_reads_what_it_has_and_cuts_it) {
  ASSERT_EQ(put(pool, "old", pattern(1'000'000, 3)), TND_OK);
  ASSERT_EQ(tnd_pool_remove(pool, "old", 0), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "cut", 0, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 100'000, "abcdef", 6, TND_POOL_MEMORY_HOST), TND_OK);
  std::vector<char> read(100'006), expected(100'006);
  std::copy_n("abcdef", 6, expected.begin() + 100'000);
  ASSERT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, nullptr), TND_OK);
  EXPECT_EQ(read, expected);
  ASSERT_EQ(tnd_pool_resize(object, 100'003), TND_OK);
  ASSERT_EQ(tnd_pool_resize(object, 200'000), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  EXPECT_EQ(tnd_pool_resize(object, 1), -EBADF);
  expected.assign(200'000, 0);
  std::copy_n("abc", 3, expected.begin() + 100'000);
  EXPECT_EQ(get(pool, "cut"), expected);
}

TEST_P(pool_contract, boxes_are_strided_on_both_sides) {
  // A 3 x 4 x 5 block out of a 10 x 10 x 10 array of memory into a 6 x 6 x 8 array in the object.
  auto const memory = pattern(1000, 5);
  tnd_pool_box const box{.offset = 2 * 48 + 8 + 3, .size = 5, .count = {4, 3}, .object_stride = {8, 48}, .memory_stride = {10, 100}};
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "box", 6 * 48, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data() + 123, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(6 * 48);
  for (size_t z = 0; z < 3; z++)
    for (size_t y = 0; y < 4; y++)
      for (size_t x = 0; x < 5; x++) expected[(2 + z) * 48 + (1 + y) * 8 + 3 + x] = memory[123 + z * 100 + y * 10 + x];
  EXPECT_EQ(get(pool, "box"), expected);
  std::vector<char> back(1000), wanted(1000);
  ASSERT_EQ(tnd_pool_read_box(object, &box, back.data() + 123, TND_POOL_MEMORY_HOST), TND_OK);
  for (size_t z = 0; z < 3; z++)
    for (size_t y = 0; y < 4; y++)
      for (size_t x = 0; x < 5; x++) wanted[123 + z * 100 + y * 10 + x] = memory[123 + z * 100 + y * 10 + x];
  EXPECT_EQ(back, wanted);
  tnd_pool_box outside = box;
  outside.offset = 6 * 48;
  EXPECT_EQ(tnd_pool_read_box(object, &outside, back.data(), TND_POOL_MEMORY_HOST), -ERANGE);
  outside.object_stride[1] = ~uint64_t{0};
  EXPECT_EQ(tnd_pool_read_box(object, &outside, back.data(), TND_POOL_MEMORY_HOST), -EOVERFLOW);
}

TEST_P(pool_contract, many_rows_are_many_ranges) {
  constexpr size_t rows = 5'000;
  auto const memory = pattern(rows * 3, 6);
  tnd_pool_box const box{.offset = 0, .size = 3, .count = {rows, 1}, .object_stride = {7, 0}, .memory_stride = {3, 0}};
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "rows", rows * 7, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data(), TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(rows * 7), back(rows * 3);
  for (size_t i = 0; i < rows * 3; i++) expected[i / 3 * 7 + i % 3] = memory[i];
  EXPECT_EQ(get(pool, "rows"), expected);
  ASSERT_EQ(tnd_pool_read_box(object, &box, back.data(), TND_POOL_MEMORY_HOST), TND_OK);
  EXPECT_EQ(back, memory);
}

TEST_P(pool_contract, reads_end_with_the_object) {
  ASSERT_EQ(put(pool, "short", pattern(100, 7)), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_open(pool, "short", 0, &object), TND_OK);
  char bytes[200];
  uint64_t size = 0;
  EXPECT_EQ(tnd_pool_read(object, 40, bytes, 200, TND_POOL_MEMORY_HOST, &size), TND_OK);
  EXPECT_EQ(size, 60u);
  EXPECT_EQ(tnd_pool_read(object, 500, bytes, 200, TND_POOL_MEMORY_HOST, &size), TND_OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(tnd_pool_read(object, 40, bytes, 200, TND_POOL_MEMORY_HOST, nullptr), -ERANGE);
  EXPECT_EQ(tnd_pool_get(pool, "short", bytes, 50, &size, 0), -ERANGE);
  EXPECT_EQ(size, 100u);
}

TEST_P(pool_contract, a_wrong_checksum_publishes_nothing) {
  auto const bytes = pattern(100'000, 8);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "summed", bytes.size(), 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST), TND_OK);
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = TND_POOL_VERIFY, options.checksum_kind = TND_POOL_CHECKSUM_XXH3, options.has_checksum = 1, options.checksum = 1;
  EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), -TND_ECORRUPT);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "summed", 0, &info), -ENOENT);
  options.checksum = pool::checksum_of(pool::checksum_kind::xxh3, bytes.data(), bytes.size());
  EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), TND_OK);
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

TEST_P(pool_contract, a_kept_object_starts_with_the_old_bytes) {
  auto bytes = pattern(200'000, 1);
  ASSERT_EQ(put(pool, "kept", bytes), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "kept", 0, TND_POOL_KEEP, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 1234, "new", 3, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::copy_n("new", 3, bytes.begin() + 1234);
  EXPECT_EQ(get(pool, "kept"), bytes);
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
  for (int i = 0; i < 1000 && statistics().used != before; i++) std::this_thread::sleep_for(std::chrono::milliseconds(5));
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
  for (int i = 0; i < 6; i++) ASSERT_EQ(put(pool, "e" + std::to_string(i), part, TND_POOL_EVICTABLE), TND_OK);
  ASSERT_EQ(tnd_pool_set_flags(pool, "e1", TND_POOL_EVICTABLE | TND_POOL_PINNED), TND_OK);
  get(pool, "e0");
  ASSERT_EQ(put(pool, "new", part), TND_OK) << tnd_last_message();
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "e0", 0, &info), TND_OK);
  EXPECT_EQ(tnd_pool_stat(pool, "e1", 0, &info), TND_OK);
  EXPECT_EQ(tnd_pool_stat(pool, "e2", 0, &info), -ENOENT);
  EXPECT_GE(statistics().evictions, 1u);
  for (int i = 0; i < 4; i++) ASSERT_EQ(put(pool, "more" + std::to_string(i), part), TND_OK);
  EXPECT_EQ(put(pool, "too much", part), -ENOSPC);
  EXPECT_EQ(tnd_pool_stat(pool, "e1", 0, &info), TND_OK);
  EXPECT_EQ(get(pool, "new"), part);
}

TEST_P(pool_contract, durable_is_refused_by_a_pool_that_keeps_nothing) {
  EXPECT_EQ(put(pool, "kept", pattern(10, 1), TND_POOL_DURABLE), -EOPNOTSUPP);
  get(pool, "kept", -ENOENT);
}

TEST_P(pool_contract, a_mapping_is_the_object) {
  auto const bytes = pattern(5'000'000, 1);
  ASSERT_EQ(put(pool, "mapped", bytes), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_open(pool, "mapped", 0, &object), TND_OK);
  const void *addr = nullptr;
  uint64_t size = 0;
  if (GetParam() != way::shared_memory) {
    EXPECT_EQ(tnd_pool_map(object, &addr, &size), -EOPNOTSUPP);
    return;
  }
  ASSERT_EQ(tnd_pool_map(object, &addr, &size), TND_OK);
  ASSERT_EQ(size, bytes.size());
  EXPECT_EQ(std::memcmp(addr, bytes.data(), size), 0);
}

TEST_P(pool_contract, a_view_outlives_the_daemon) {
  if (GetParam() != way::shared_memory) GTEST_SKIP() << "no shared memory";
  auto const bytes = pattern(100'000, 1);
  ASSERT_EQ(put(pool, "viewed", bytes), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_open(pool, "viewed", 0, &object), TND_OK);
  const void *addr = nullptr;
  uint64_t size = 0;
  ASSERT_EQ(tnd_pool_map(object, &addr, &size), TND_OK);
  auto options = small_pool(GetParam());
  options.port = daemon->port();
  daemon.reset();
  get(pool, "viewed", -TND_EPEER);
  daemon = started(options);
  get(pool, "viewed", -ENOENT);
  EXPECT_EQ(std::memcmp(addr, bytes.data(), size), 0);
}

TEST_P(pool_contract, what_cannot_fit_drops_nothing) {
  ASSERT_EQ(put(pool, "pinned", pattern(10'000'000, 1)), TND_OK);
  ASSERT_EQ(put(pool, "cached", pattern(10'000'000, 2), TND_POOL_EVICTABLE), TND_OK);
  handle object;
  EXPECT_EQ(tnd_pool_create(pool, "large", 60'000'000, 0, nullptr, &object), -ENOSPC);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "cached", 0, &info), TND_OK);
}

TEST_P(pool_contract, a_daemon_that_comes_back_is_found_again) {
  ASSERT_EQ(put(pool, "before", pattern(10, 1)), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_open(pool, "before", 0, &object), TND_OK);
  auto options = small_pool(GetParam());
  options.port = daemon->port();
  daemon.reset();
  get(pool, "before", -TND_EPEER);
  daemon = started(options);
  char byte;
  EXPECT_EQ(tnd_pool_read(object, 0, &byte, 1, TND_POOL_MEMORY_HOST, nullptr), -ESTALE);
  get(pool, "before", -ENOENT);
  EXPECT_EQ(put(pool, "after", pattern(10, 1)), TND_OK);
}

TEST_P(pool_contract, registered_memory_serves_all_transfers) {
  auto bytes = pattern(3'000'000, 1);
  ASSERT_EQ(tnd_pool_register(pool, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST), TND_OK);
  if (GetParam() == way::fabric) {
    EXPECT_EQ(tnd_pool_register(pool, bytes.data() + 100, 100, TND_POOL_MEMORY_HOST), -EEXIST);
  }
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "a", bytes.size(), 0, nullptr, &object), TND_OK);
  for (uint64_t at = 0; at < bytes.size(); at += 1'000'000) {
    ASSERT_EQ(tnd_pool_write(object, at, bytes.data() + at, 1'000'000, TND_POOL_MEMORY_HOST), TND_OK);
  }
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  auto const expected = bytes;
  std::fill(bytes.begin(), bytes.end(), 0);
  ASSERT_EQ(tnd_pool_read(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST, nullptr), TND_OK);
  EXPECT_EQ(bytes, expected);
  EXPECT_EQ(tnd_pool_unregister(pool, bytes.data()), TND_OK);
}

TEST_P(pool_contract, bad_arguments_are_refused) {
  handle object;
  std::string const long_name(513, 'x');
  EXPECT_EQ(tnd_pool_create(pool, "", 0, 0, nullptr, &object), -EINVAL);
  EXPECT_EQ(tnd_pool_create(pool, long_name.c_str(), 0, 0, nullptr, &object), -ENAMETOOLONG);
  EXPECT_EQ(tnd_pool_create(pool, "x", 0, 1 << 20, nullptr, &object), -EINVAL);
  EXPECT_EQ(tnd_pool_create(pool, "x", ~uint64_t{0}, 0, nullptr, &object), -EFBIG);
  EXPECT_EQ(tnd_pool_create(pool, "x", uint64_t{1} << 40, 0, nullptr, &object), -ENOSPC);
  EXPECT_EQ(tnd_pool_put(pool, "x", nullptr, 1, 0, nullptr), -EINVAL);
  EXPECT_EQ(tnd_pool_put(nullptr, "x", nullptr, 0, 0, nullptr), -EINVAL);
  EXPECT_EQ(put(pool, "still here", pattern(10, 1)), TND_OK);
}

INSTANTIATE_TEST_SUITE_P(paths, pool_contract, all_ways(), way_name);

}  // namespace
}  // namespace tanada::test
