// The contracts of tanada/pool.h about objects, by shared memory, TCP and a fabric.
#include <cstring>

#include "e2e/pool/pool_contract.hpp"
#include "products/pool/checksum.hpp"

namespace tanada::test {
namespace {

TEST_P(pool_contract, tells_its_path) {
  ASSERT_EQ(pool.code, TND_OK);
  tnd_pool_connection about{};
  about.struct_size = sizeof about;
  ASSERT_EQ(tnd_pool_get_connection(pool, &about), TND_OK);
  bool const is_rdma = GetParam() == way::fabric && test_fabric_is_rdma();
  tnd_pool_path const otherwise = is_rdma                     ? TND_POOL_PATH_RDMA
                                  : GetParam() == way::fabric ? TND_POOL_PATH_FABRIC
                                                              : TND_POOL_PATH_TCP;
  EXPECT_EQ(about.path,
            uint32_t(maps_memory(GetParam()) ? TND_POOL_PATH_SHARED_MEMORY : otherwise));
  EXPECT_EQ(about.reason[0] == 0, maps_memory(GetParam()) || is_rdma) << about.reason;
  EXPECT_EQ(about.can_write, 1u);
  EXPECT_EQ(about.is_durable, 0u);
}

TEST_P(pool_contract, what_is_put_is_got) {
  for (size_t const size : {0, 1, 63, 4096, 65536, 65537, 1'000'000, 9'000'001}) {
    auto const bytes = pattern(size, uint32_t(size));
    std::string const name = "object " + std::to_string(size);
    tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
    options.checksum_kind = size % 2 ? TND_POOL_CHECKSUM_CRC32C : TND_POOL_CHECKSUM_XXH3;
    options.flags = TND_POOL_VERIFY;
    ASSERT_EQ(tnd_pool_put(pool, name.c_str(), bytes.data(), size, 0, &options), TND_OK)
        << tnd_last_message();
    EXPECT_EQ(get(pool, name), bytes);
    EXPECT_EQ(get(pool, name), bytes);  // again, because it may come from a cache now
    tnd_pool_info info;
    ASSERT_EQ(tnd_pool_stat(pool, name.c_str(), 0, &info), TND_OK);
    EXPECT_EQ(info.size, size);
    EXPECT_EQ(info.checksum,
              pool::checksum_of(pool::checksum_kind(options.checksum_kind), bytes.data(), size));
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
  EXPECT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, nullptr),
            TND_OK);
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
  ASSERT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, &size),
            TND_OK);
  EXPECT_EQ(read, old_bytes);
  handle again;
  EXPECT_EQ(tnd_pool_open(pool, "name", info.version, &again), -ENOENT);
}

TEST_P(pool_contract, unwritten_bytes_are_zero) {
  // Fills the memory first, so that old bytes would be visible.
  ASSERT_EQ(put(pool, "old", pattern(10'000'000, 3)), TND_OK);
  ASSERT_EQ(tnd_pool_remove(pool, "old", 0), TND_OK);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "sparse", 8'000'000, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 5'000'000, "x", 1, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 10, "y", 1, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(8'000'000);
  expected[5'000'000] = 'x';
  expected[10] = 'y';
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
  ASSERT_EQ(tnd_pool_read(object, 0, read.data(), read.size(), TND_POOL_MEMORY_HOST, nullptr),
            TND_OK);
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
  tnd_pool_box const box{.offset = 2 * 48 + 8 + 3,
                         .size = 5,
                         .count = {4, 3},
                         .object_stride = {8, 48},
                         .memory_stride = {10, 100}};
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "box", 6 * 48, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data() + 123, TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(6 * 48);
  for (size_t z = 0; z < 3; z++)
    for (size_t y = 0; y < 4; y++)
      for (size_t x = 0; x < 5; x++)
        expected[(2 + z) * 48 + (1 + y) * 8 + 3 + x] = memory[123 + z * 100 + y * 10 + x];
  EXPECT_EQ(get(pool, "box"), expected);
  std::vector<char> back(1000), wanted(1000);
  ASSERT_EQ(tnd_pool_read_box(object, &box, back.data() + 123, TND_POOL_MEMORY_HOST), TND_OK);
  for (size_t z = 0; z < 3; z++)
    for (size_t y = 0; y < 4; y++)
      for (size_t x = 0; x < 5; x++)
        wanted[123 + z * 100 + y * 10 + x] = memory[123 + z * 100 + y * 10 + x];
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
  tnd_pool_box const box{
      .offset = 0, .size = 3, .count = {rows, 1}, .object_stride = {7, 0}, .memory_stride = {3, 0}};
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "rows", rows * 7, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data(), TND_POOL_MEMORY_HOST), TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> expected(rows * 7), back(rows * 3);
  for (size_t i = 0; i < rows * 3; i++)
    expected[i / 3 * 7 + i % 3] = memory[i];
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
  options.flags = TND_POOL_VERIFY;
  options.checksum_kind = TND_POOL_CHECKSUM_XXH3;
  options.has_checksum = 1;
  options.checksum = 1;
  EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), -TND_ECORRUPT);
  tnd_pool_info info;
  EXPECT_EQ(tnd_pool_stat(pool, "summed", 0, &info), -ENOENT);
  options.checksum = pool::checksum_of(pool::checksum_kind::xxh3, bytes.data(), bytes.size());
  EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), TND_OK);
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
  if (!maps_memory(GetParam())) {
    EXPECT_EQ(tnd_pool_map(object, &addr, &size), -EOPNOTSUPP);
    return;
  }
  ASSERT_EQ(tnd_pool_map(object, &addr, &size), TND_OK);
  ASSERT_EQ(size, bytes.size());
  EXPECT_EQ(std::memcmp(addr, bytes.data(), size), 0);
}

TEST_P(pool_contract, a_view_outlives_the_daemon) {
  if (!maps_memory(GetParam()))
    GTEST_SKIP() << "no shared memory";
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
    ASSERT_EQ(tnd_pool_write(object, at, bytes.data() + at, 1'000'000, TND_POOL_MEMORY_HOST),
              TND_OK);
  }
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  auto const expected = bytes;
  std::fill(bytes.begin(), bytes.end(), 0);
  ASSERT_EQ(tnd_pool_read(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST, nullptr),
            TND_OK);
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
