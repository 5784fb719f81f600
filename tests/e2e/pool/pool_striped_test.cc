// The calls of tanada/pool.h on striped objects. test_cluster.py runs this against a cluster with
// stripes of 1 MiB: TANADA_TEST_POOL_URL. Without it, there is nothing to test.
#include <gtest/gtest.h>
#include <tanada/pool.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "products/pool/checksum.hpp"

namespace tanada::test {
namespace {

constexpr uint64_t mib = 1 << 20;

std::vector<char> pattern(uint64_t size, uint32_t seed) {
  std::vector<char> bytes(size);
  for (char &byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = char(seed >> 24);
  }
  return bytes;
}

uint64_t sum_of(pool::checksum_kind kind, const std::vector<char> &bytes) {
  return pool::checksum_of(kind, bytes.data(), bytes.size());
}

class pool_striped : public testing::Test {
 protected:
  void SetUp() override {
    const char *const url = std::getenv("TANADA_TEST_POOL_URL");
    if (url == nullptr)
      GTEST_SKIP() << "TANADA_TEST_POOL_URL is not set";
    ASSERT_EQ(tnd_pool_connect(url, nullptr, &pool_), TND_OK) << tnd_last_message();
  }
  void TearDown() override {
    tnd_pool_disconnect(pool_);
  }

  tnd_pool_object *create(const char *name,
                          uint64_t size,
                          uint32_t flags = 0,
                          const char *set = nullptr) {
    tnd_pool_object *created = nullptr;
    EXPECT_EQ(tnd_pool_create(pool_, name, size, flags, set, &created), TND_OK)
        << tnd_last_message();
    return created;
  }
  tnd_pool_object *open(const char *name, uint64_t version = 0) {
    tnd_pool_object *opened = nullptr;
    EXPECT_EQ(tnd_pool_open(pool_, name, version, &opened), TND_OK) << tnd_last_message();
    return opened;
  }
  static void write(tnd_pool_object *object, uint64_t offset, const std::vector<char> &bytes) {
    EXPECT_EQ(tnd_pool_write(object, offset, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST),
              TND_OK)
        << tnd_last_message();
  }
  static void commit(tnd_pool_object *object, const tnd_pool_commit_options *options = nullptr) {
    EXPECT_EQ(tnd_pool_commit(object, options, nullptr), TND_OK) << tnd_last_message();
  }
  static std::vector<char> read(tnd_pool_object *object, uint64_t offset, uint64_t size) {
    std::vector<char> bytes(size);
    EXPECT_EQ(tnd_pool_read(object, offset, bytes.data(), size, TND_POOL_MEMORY_HOST, nullptr),
              TND_OK)
        << tnd_last_message();
    return bytes;
  }
  std::vector<char> get(const char *name, uint32_t flags = 0) {
    std::vector<char> bytes(16 * mib);
    uint64_t size = 0;
    EXPECT_EQ(tnd_pool_get(pool_, name, bytes.data(), bytes.size(), &size, flags), TND_OK)
        << tnd_last_message();
    bytes.resize(size);
    return bytes;
  }
  void put(const char *name, const std::vector<char> &bytes, uint32_t flags = 0) {
    EXPECT_EQ(tnd_pool_put(pool_, name, bytes.data(), bytes.size(), flags, nullptr), TND_OK)
        << tnd_last_message();
  }
  tnd_pool_info info(tnd_pool_object *object) {
    tnd_pool_info about{};
    EXPECT_EQ(tnd_pool_get_info(object, &about), TND_OK);
    return about;
  }

  tnd_pool *pool_ = nullptr;
};

TEST_F(pool_striped, is_put_and_got_as_a_whole) {
  auto const bytes = pattern(5 * mib + 123, 1);
  put("whole", bytes);
  EXPECT_EQ(get("whole"), bytes);
  uint64_t size = 0;
  char byte = 0;
  EXPECT_EQ(tnd_pool_get(pool_, "whole", &byte, 1, &size, 0), -ERANGE);
  EXPECT_EQ(size, bytes.size());
  tnd_pool_info about{};
  ASSERT_EQ(tnd_pool_stat(pool_, "whole", 0, &about), TND_OK);
  EXPECT_EQ(about.size, bytes.size());
  EXPECT_EQ(about.flags & ~uint32_t(TND_POOL_EVICTABLE | TND_POOL_PINNED | TND_POOL_DURABLE), 0u);
}

TEST_F(pool_striped, is_written_in_any_order_and_read_in_ranges) {
  auto const bytes = pattern(6 * mib, 2);
  tnd_pool_object *const object = create("ranges", bytes.size());
  for (uint64_t offset : {4 * mib, uint64_t{0}, 2 * mib})
    write(object, offset, {bytes.begin() + long(offset), bytes.begin() + long(offset + 2 * mib)});
  EXPECT_EQ(read(object, 3 * mib - 10, 20),
            std::vector<char>(bytes.begin() + 3 * mib - 10, bytes.begin() + 3 * mib + 10));
  commit(object);
  EXPECT_EQ(read(object, mib - 1, 3 * mib),
            std::vector<char>(bytes.begin() + mib - 1, bytes.begin() + 4 * mib - 1));
  char byte = 0;
  uint64_t size = 1;
  EXPECT_EQ(tnd_pool_read(object, bytes.size(), &byte, 1, TND_POOL_MEMORY_HOST, &size), TND_OK);
  EXPECT_EQ(size, 0u);
  EXPECT_EQ(tnd_pool_read(object, bytes.size(), &byte, 1, TND_POOL_MEMORY_HOST, nullptr), -ERANGE);
  EXPECT_EQ(tnd_pool_write(object, 0, &byte, 1, TND_POOL_MEMORY_HOST), -EBADF);
  tnd_pool_close(object);
}

TEST_F(pool_striped, bytes_that_are_never_written_are_zeros) {
  tnd_pool_object *const object = create("zeros", 4 * mib);
  write(object, 3 * mib, {'x'});
  EXPECT_EQ(read(object, 2 * mib, 16), std::vector<char>(16));
  commit(object);
  tnd_pool_close(object);
  std::vector<char> expected(4 * mib);
  expected[3 * mib] = 'x';
  EXPECT_EQ(get("zeros"), expected);
}

TEST_F(pool_striped, boxes_cross_stripes) {
  // Rows of 1,000 bytes, 3 KiB apart in the object and packed in memory; 40 planes.
  auto const bytes = pattern(1'000 * 100 * 40, 3);
  tnd_pool_object *const object = create("box", 100 * 3072 * 40);
  tnd_pool_box const box{0, 1'000, {100, 40}, {3072, 100 * 3072}, {1'000, 100'000}};
  ASSERT_EQ(tnd_pool_write_box(object, &box, bytes.data(), TND_POOL_MEMORY_HOST), TND_OK)
      << tnd_last_message();
  commit(object);
  std::vector<char> back(bytes.size());
  ASSERT_EQ(tnd_pool_read_box(object, &box, back.data(), TND_POOL_MEMORY_HOST), TND_OK)
      << tnd_last_message();
  EXPECT_EQ(back, bytes);
  tnd_pool_box outside = box;
  outside.count[1] = 41;
  EXPECT_EQ(tnd_pool_read_box(object, &outside, back.data(), TND_POOL_MEMORY_HOST), -ERANGE);
  tnd_pool_close(object);
}

TEST_F(pool_striped, grows_and_shrinks) {
  auto const bytes = pattern(5 * mib, 4);
  tnd_pool_object *const object = create("sizes", 0);
  // From an object that lies on one server to a striped one, by small writes.
  for (uint64_t offset = 0; offset < bytes.size(); offset += 300'000) {
    uint64_t const end = std::min<uint64_t>(offset + 300'000, bytes.size());
    write(object, offset, {bytes.begin() + long(offset), bytes.begin() + long(end)});
  }
  EXPECT_EQ(info(object).size, bytes.size());
  ASSERT_EQ(tnd_pool_resize(object, 2 * mib + 7), TND_OK) << tnd_last_message();
  ASSERT_EQ(tnd_pool_resize(object, 4 * mib), TND_OK) << tnd_last_message();
  commit(object);
  tnd_pool_close(object);
  auto expected = bytes;
  expected.resize(2 * mib + 7);
  expected.resize(4 * mib);
  EXPECT_EQ(get("sizes"), expected);
}

TEST_F(pool_striped, starts_with_the_bytes_of_the_version_before) {
  auto bytes = pattern(4 * mib, 5);
  put("kept", bytes);
  tnd_pool_object *object = create("kept", 0, TND_POOL_KEEP);
  EXPECT_EQ(info(object).size, bytes.size());
  write(object, 2 * mib - 2, {'a', 'b', 'c', 'd'});
  commit(object);
  tnd_pool_close(object);
  std::copy_n("abcd", 4, bytes.begin() + 2 * mib - 2);
  EXPECT_EQ(get("kept"), bytes);
  object = create("kept", 0, TND_POOL_KEEP);
  ASSERT_EQ(tnd_pool_resize(object, 10), TND_OK);
  commit(object);
  tnd_pool_close(object);
  bytes.resize(10);
  EXPECT_EQ(get("kept"), bytes);
}

TEST_F(pool_striped, checksums_are_computed_and_compared) {
  auto const bytes = pattern(5 * mib - 9, 6);
  for (auto kind : {pool::checksum_kind::crc32c, pool::checksum_kind::xxh3}) {
    SCOPED_TRACE(uint32_t(kind));
    tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
    options.checksum_kind = uint32_t(kind);
    tnd_pool_object *object = create("sum", bytes.size());
    write(object, 0, bytes);
    commit(object, &options);
    EXPECT_EQ(info(object).checksum, sum_of(kind, bytes));
    tnd_pool_close(object);
    EXPECT_EQ(get("sum", TND_POOL_VERIFY), bytes);

    options.flags = TND_POOL_VERIFY;
    options.has_checksum = 1;
    options.checksum = sum_of(kind, bytes) + 1;
    object = create("sum2", bytes.size());
    write(object, 0, bytes);
    EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), -TND_ECORRUPT);
    options.checksum--;
    commit(object, &options);
    tnd_pool_close(object);
    EXPECT_EQ(tnd_pool_put(pool_, "sum3", bytes.data(), bytes.size(), 0, &options), TND_OK);
    EXPECT_EQ(get("sum3", TND_POOL_VERIFY), bytes);
    options.checksum++;
    EXPECT_EQ(tnd_pool_put(pool_, "sum3", bytes.data(), bytes.size(), 0, &options), -TND_ECORRUPT);
  }
}

TEST_F(pool_striped, an_open_version_stays_readable) {
  auto const first = pattern(4 * mib, 7), second = pattern(3 * mib, 8);
  put("versions", first);
  tnd_pool_object *const reader = open("versions");
  uint64_t const version = info(reader).version;
  put("versions", second);
  EXPECT_EQ(get("versions"), second);
  EXPECT_EQ(read(reader, 0, first.size()), first);
  ASSERT_EQ(tnd_pool_remove(pool_, "versions", 0), TND_OK);
  EXPECT_EQ(read(reader, mib - 5, 10),
            std::vector<char>(first.begin() + mib - 5, first.begin() + mib + 5));
  tnd_pool_object *gone = nullptr;
  EXPECT_EQ(tnd_pool_open(pool_, "versions", version, &gone), -ENOENT);
  tnd_pool_close(reader);
}

TEST_F(pool_striped, exclusive_names_are_kept) {
  auto const bytes = pattern(3 * mib, 9);
  tnd_pool_object *const late = create("exclusive", bytes.size(), TND_POOL_EXCLUSIVE);
  put("exclusive", bytes, TND_POOL_EXCLUSIVE);
  EXPECT_EQ(tnd_pool_commit(late, nullptr, nullptr), -EEXIST);
  tnd_pool_close(late);
  EXPECT_EQ(
      tnd_pool_put(pool_, "exclusive", bytes.data(), bytes.size(), TND_POOL_EXCLUSIVE, nullptr),
      -EEXIST);
  EXPECT_EQ(get("exclusive"), bytes);
}

TEST_F(pool_striped, commits_with_its_set) {
  auto const bytes = pattern(3 * mib, 10);
  tnd_pool_object *objects[2];
  const char *const names[2] = {"set/0", "set/1"};
  for (int i = 0; i < 2; i++) {
    objects[i] = create(names[i], bytes.size(), 0, "checkpoint");
    write(objects[i], 0, bytes);
    commit(objects[i]);
  }
  tnd_pool_info about{};
  EXPECT_EQ(tnd_pool_stat(pool_, "set/0", 0, &about), -ENOENT);
  for (tnd_pool_object *const object : objects)
    tnd_pool_close(object);
  ASSERT_EQ(tnd_pool_set_commit(pool_, "checkpoint", 2, 0), TND_OK) << tnd_last_message();
  for (const char *const name : names)
    EXPECT_EQ(get(name), bytes);
}

// The other ranks' objects may still be missing. Asking too early changes nothing.
TEST_F(pool_striped, an_incomplete_set_waits_for_its_objects) {
  auto const bytes = pattern(3 * mib, 15);
  tnd_pool_object *const first = create("early/0", bytes.size(), 0, "early");
  write(first, 0, bytes);
  commit(first);
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tnd_pool_set_commit(pool_, "early", 2, 0), -EAGAIN);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{5});
  tnd_pool_object *const second = create("early/1", 5, 0, "early");
  write(second, 0, {'s', 'm', 'a', 'l', 'l'});
  commit(second);
  ASSERT_EQ(tnd_pool_set_commit(pool_, "early", 2, 0), TND_OK) << tnd_last_message();
  EXPECT_EQ(get("early/0"), bytes);
  tnd_pool_close(first);
  tnd_pool_close(second);
}

TEST_F(pool_striped, sizes_around_a_stripe_and_names_of_any_bytes) {
  const char *const names[] = {"a b?#%", "//", "../x", "\xc3\xa4\xff", "n\n", "255", "fragments"};
  uint64_t const sizes[] = {0, 1, mib - 1, mib, mib + 1, 2 * mib, 3 * mib + 1};
  for (size_t i = 0; i < std::size(sizes); i++) {
    SCOPED_TRACE(names[i]);
    auto const bytes = pattern(sizes[i], uint32_t(20 + i));
    put(names[i], bytes);
    EXPECT_EQ(get(names[i], TND_POOL_VERIFY), bytes);
    tnd_pool_object *const object = create(names[i], 0);
    write(object, 0, bytes);
    commit(object);
    EXPECT_EQ(info(object).size, sizes[i]);
    EXPECT_EQ(read(object, 0, sizes[i]), bytes);
    tnd_pool_close(object);
    std::string const new_name = std::string{names[i]} + " renamed";
    ASSERT_EQ(tnd_pool_rename(pool_, names[i], new_name.c_str(), 0), TND_OK);
    EXPECT_EQ(get(new_name.c_str()), bytes);
    ASSERT_EQ(tnd_pool_remove(pool_, new_name.c_str(), 0), TND_OK);
  }
}

TEST_F(pool_striped, posted_requests_complete) {
  auto bytes = pattern(3 * mib, 11), target = std::vector<char>(3 * mib);
  tnd_pool_object *const object = create("posted", 0);
  std::vector<tnd_pool_request> requests(5);
  for (tnd_pool_request &request : requests)
    request.struct_size = sizeof request;
  requests[0].kind = TND_POOL_REQUEST_PUT;
  requests[0].name = "posted/put";
  requests[1].kind = TND_POOL_REQUEST_WRITE;
  requests[1].object = object;
  requests[2].kind = TND_POOL_REQUEST_COMMIT;
  requests[2].object = object;
  requests[3].kind = TND_POOL_REQUEST_GET;
  requests[3].name = "posted";
  requests[4].kind = TND_POOL_REQUEST_READ;
  requests[4].object = object;
  for (size_t i = 0; i < requests.size(); i++) {
    bool const is_read = i > 2;
    requests[i].context = i;
    requests[i].memory = i == 2 ? nullptr : is_read ? target.data() : bytes.data();
    requests[i].size = i == 2 ? 0 : bytes.size();
    ASSERT_EQ(tnd_pool_post(pool_, &requests[i]), TND_OK) << i << tnd_last_message();
    tnd_pool_completion done{};
    uint32_t count = 0;
    ASSERT_EQ(tnd_pool_poll(pool_, &done, 1, 10'000'000'000, &count), TND_OK);
    ASSERT_EQ(count, 1u);
    EXPECT_EQ(done.status, TND_OK) << i;
    EXPECT_EQ(done.context, i);
    EXPECT_EQ(done.size, bytes.size()) << i;
    if (is_read) {
      EXPECT_EQ(target, bytes);
    }
    std::fill(target.begin(), target.end(), 0);
  }
  tnd_pool_close(object);
  EXPECT_EQ(get("posted/put"), bytes);
}

TEST_F(pool_striped, is_not_mapped) {
  put("unmapped", pattern(3 * mib, 12));
  tnd_pool_object *const object = open("unmapped");
  const void *addr = nullptr;
  uint64_t size = 0;
  EXPECT_EQ(tnd_pool_map(object, &addr, &size), -EOPNOTSUPP);
  tnd_pool_close(object);
}

TEST_F(pool_striped, durable_commits_are_refused_by_a_pool_in_memory) {
  auto const bytes = pattern(3 * mib, 13);
  EXPECT_EQ(tnd_pool_put(pool_, "durable", bytes.data(), bytes.size(), TND_POOL_DURABLE, nullptr),
            -EOPNOTSUPP);
  tnd_pool_commit_options options = TND_POOL_COMMIT_OPTIONS_INIT;
  options.flags = TND_POOL_DURABLE;
  tnd_pool_object *const object = create("durable", bytes.size());
  write(object, 0, bytes);
  EXPECT_EQ(tnd_pool_commit(object, &options, nullptr), -EOPNOTSUPP);
  commit(object);
  tnd_pool_close(object);
  EXPECT_EQ(get("durable"), bytes);
}

TEST_F(pool_striped, a_handle_ends_with_its_connection) {
  put("ended", pattern(3 * mib, 14));
  tnd_pool_object *const object = open("ended");
  tnd_pool_disconnect(pool_);
  pool_ = nullptr;
  char byte = 0;
  EXPECT_EQ(tnd_pool_read(object, 0, &byte, 1, TND_POOL_MEMORY_HOST, nullptr), -ESTALE);
  tnd_pool_close(object);
}

}  // namespace
}  // namespace tanada::test
