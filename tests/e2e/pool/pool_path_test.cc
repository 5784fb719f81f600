// The path of each transfer, as reported by completions and counters, and the reads that only
// clients count.
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"

namespace tanada::test {
namespace {

struct route {
  const char *name;
  const char *fabric;  // libfabric provider; nullptr: none
  bool shared_memory, is_file;
  uint32_t bulk, small;  // tnd_pool_path of calls with more than 64 KiB, and of the others
};

constexpr uint32_t mapped = TND_POOL_PATH_SHARED_MEMORY;
constexpr route routes[] = {
    {"shared_memory", nullptr, true, false, mapped, TND_POOL_PATH_UNIX},
    {"unix", nullptr, true, true, TND_POOL_PATH_UNIX, TND_POOL_PATH_UNIX},
    {"tcp", nullptr, false, false, TND_POOL_PATH_TCP, TND_POOL_PATH_TCP},
#if defined(TND_TEST_FABRIC)
    {"fabric_tcp", "tcp;ofi_rxm", false, false, TND_POOL_PATH_FABRIC, TND_POOL_PATH_TCP},
    {"fabric_shm", "shm", false, false, TND_POOL_PATH_FABRIC, TND_POOL_PATH_TCP},
#endif
};

constexpr uint64_t bulk_size = 300'000, small_size = 1000;

tnd_pool_traffic traffic_of(tnd_pool *pool) {
  tnd_pool_traffic all{};
  all.struct_size = sizeof all;
  EXPECT_EQ(tnd_pool_get_traffic(pool, &all), TND_OK);
  return all;
}

uint64_t told_read_size(const poold::daemon &daemon, uint32_t path) {
  return daemon.report().transfers[path].read_size;
}

class pool_path : public testing::TestWithParam<route> {
 protected:
  void SetUp() override {
    auto options = small_pool();
    route const by = GetParam();
    if (by.is_file)
      options.backing = "file:" + file;
    if (by.fabric != nullptr) {
      options.fabric = by.fabric;
      options.fabric_node = by.fabric == std::string{"shm"} ? "" : "127.0.0.1";
    }
    daemon = started(options);
    ASSERT_NE(daemon, nullptr);
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.shared_memory = by.shared_memory;
    config.fabric = by.fabric;
    config.timeout_ns = 10'000'000'000;
    ASSERT_EQ(tnd_pool_connect(url_of(*daemon).c_str(), &config, &pool), TND_OK)
        << tnd_last_message();
  }
  void TearDown() override {
    tnd_pool_disconnect(pool);
    daemon.reset();
    std::filesystem::remove(file);
    std::filesystem::remove_all(file + ".journal");
  }

  // Runs one call that moves `size` bytes; checks that it used `path` and nothing else moved.
  template <class Call>
  void expect(uint32_t path, bool to_pool, uint64_t size, const Call &call) {
    auto const before = traffic_of(pool);
    ASSERT_EQ(call(), TND_OK) << tnd_last_message();
    auto const after = traffic_of(pool);
    EXPECT_EQ(after.last_path, path);
    EXPECT_EQ(after.last_is_staged, 0u);
    for (uint32_t i = 0; i < TND_POOL_PATH_COUNT; i++) {
      auto const &old = before.by_path[i], &now = after.by_path[i];
      bool const is_it = i == path;
      EXPECT_EQ(now.writes - old.writes, is_it && to_pool ? 1u : 0u) << i;
      EXPECT_EQ(now.written_size - old.written_size, is_it && to_pool ? size : 0u) << i;
      EXPECT_EQ(now.reads - old.reads, is_it && !to_pool ? 1u : 0u) << i;
      EXPECT_EQ(now.read_size - old.read_size, is_it && !to_pool ? size : 0u) << i;
    }
  }

  tnd_pool_completion done(const tnd_pool_request &request) {
    EXPECT_EQ(tnd_pool_post(pool, &request), TND_OK) << tnd_last_message();
    tnd_pool_completion one{};
    uint32_t count = 0;
    EXPECT_EQ(tnd_pool_poll(pool, &one, 1, 10'000'000'000, &count), TND_OK);
    EXPECT_EQ(count, 1u);
    return one;
  }

  std::string const file =
      (std::filesystem::temp_directory_path() / ("tanada-path-" + std::to_string(getpid())))
          .string();
  std::unique_ptr<poold::daemon> daemon;
  tnd_pool *pool = nullptr;
  std::vector<char> bytes = pattern(bulk_size, 1), target = std::vector<char>(bulk_size);
};

TEST_P(pool_path, every_call_counts_where_its_bytes_went) {
  route const by = GetParam();
  uint32_t const stream = by.small;
  for (uint64_t const size : {bulk_size, small_size}) {
    uint32_t const put_path = size == bulk_size ? by.bulk : by.small;
    uint32_t const get_path = by.bulk == mapped ? mapped : put_path;
    uint64_t got = 0;
    expect(put_path, true, size, [&] {
      return tnd_pool_put(pool, "a", bytes.data(), size, 0, nullptr);
    });
    for (int i = 0; i < 2; i++)  // the second may come from a cache
      expect(get_path, false, size, [&] {
        return tnd_pool_get(pool, "a", target.data(), bulk_size, &got, 0);
      });
    handle writer, reader;
    ASSERT_EQ(tnd_pool_create(pool, "b", 0, 0, nullptr, &writer), TND_OK);
    expect(get_path, true, size, [&] {
      return tnd_pool_write(writer, 0, bytes.data(), size, TND_POOL_MEMORY_HOST);
    });
    expect(stream, false, size, [&] {
      return tnd_pool_read(writer, 0, target.data(), size, TND_POOL_MEMORY_HOST, nullptr);
    });
    ASSERT_EQ(tnd_pool_commit(writer, nullptr, nullptr), TND_OK);
    ASSERT_EQ(tnd_pool_open(pool, "b", 0, &reader), TND_OK);
    expect(get_path, false, size, [&] {
      return tnd_pool_read(reader, 0, target.data(), size, TND_POOL_MEMORY_HOST, nullptr);
    });
    // A box of rows is not a single range, so it does not use a fabric.
    tnd_pool_box const box{0, size / 4, {2, 1}, {size / 2, 0}, {size / 2, 0}};
    uint32_t const box_path = by.bulk == mapped ? mapped : stream;
    expect(box_path, false, size / 2, [&] {
      return tnd_pool_read_box(reader, &box, target.data(), TND_POOL_MEMORY_HOST);
    });
  }
}

TEST_P(pool_path, completions_tell_it) {
  route const by = GetParam();
  uint32_t const stream = by.small, direct = by.bulk == mapped ? mapped : stream;
  tnd_pool_request request{};
  request.struct_size = sizeof request;
  request.name = "a";
  request.memory = bytes.data();
  request.size = bulk_size;
  EXPECT_EQ(done(request).path, stream);
  request.kind = TND_POOL_REQUEST_GET;
  request.memory = target.data();
  EXPECT_EQ(done(request).path, stream);
  request.size = 10;  // less than the object has
  auto const short_one = done(request);
  EXPECT_EQ(short_one.status, -ERANGE);
  EXPECT_EQ(short_one.path, uint32_t(TND_POOL_PATH_NONE));
  request.name = "nothing";
  EXPECT_EQ(done(request).path, uint32_t(TND_POOL_PATH_NONE));

  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "b", 0, 0, nullptr, &object), TND_OK);
  request.kind = TND_POOL_REQUEST_WRITE;
  request.object = object;
  request.memory = bytes.data();
  request.size = bulk_size;
  EXPECT_EQ(done(request).path, direct);
  request.kind = TND_POOL_REQUEST_COMMIT;
  auto const commit = done(request);
  EXPECT_EQ(commit.status, TND_OK);
  EXPECT_EQ(commit.path, uint32_t(TND_POOL_PATH_NONE));
  request.kind = TND_POOL_REQUEST_READ;
  request.memory = target.data();
  EXPECT_EQ(done(request).path, direct);
  request.offset = bulk_size;  // nothing is there
  auto const empty = done(request);
  EXPECT_EQ(empty.size, 0u);
  EXPECT_EQ(empty.path, uint32_t(TND_POOL_PATH_NONE));

  auto const all = traffic_of(pool);
  uint64_t written = 0, read = 0;
  for (auto const &each : all.by_path) {
    written += each.writes;
    read += each.reads;
  }
  EXPECT_EQ(written, 2u);
  EXPECT_EQ(read, 2u);
}

// The daemon and the clients have the same counts, whichever side copied.
TEST_P(pool_path, the_daemon_counts_the_same) {
  uint64_t got = 0;
  ASSERT_EQ(put(pool, "a", bytes), TND_OK);
  for (int i = 0; i < 100; i++)
    ASSERT_EQ(tnd_pool_get(pool, "a", target.data(), bulk_size, &got, 0), TND_OK);
  tnd_pool_statistics told{};
  told.struct_size = sizeof told;
  ASSERT_EQ(tnd_pool_get_statistics(pool, &told), TND_OK);
  EXPECT_EQ(told.read_size, 100 * bulk_size);
  EXPECT_EQ(told.written_size, bulk_size);
  EXPECT_EQ(told_read_size(*daemon, GetParam().bulk), 100 * bulk_size);
  // Later reads are reported when the connection ends, at the latest.
  for (int i = 0; i < 3; i++)
    ASSERT_EQ(tnd_pool_get(pool, "a", target.data(), bulk_size, &got, 0), TND_OK);
  tnd_pool_disconnect(std::exchange(pool, nullptr));
  for (uint64_t const until = raw_client::soon(); seams::monotonic_clock().now_ns() < until;) {
    if (told_read_size(*daemon, GetParam().bulk) == 103 * bulk_size)
      break;
    usleep(1000);
  }
  EXPECT_EQ(told_read_size(*daemon, GetParam().bulk), 103 * bulk_size);
}

INSTANTIATE_TEST_SUITE_P(routes, pool_path, testing::ValuesIn(routes), [](auto const &which) {
  return which.param.name;
});

TEST(pool_path_counters, views_are_counted_once) {
  auto const daemon = started(small_pool());
  connection pool{url_of(*daemon), true};
  auto const bytes = pattern(100'000, 1);
  ASSERT_EQ(put(pool, "a", bytes), TND_OK);
  handle object;
  const void *addr = nullptr;
  uint64_t size = 0;
  ASSERT_EQ(tnd_pool_open(pool, "a", 0, &object), TND_OK);
  ASSERT_EQ(tnd_pool_map(object, &addr, &size), TND_OK);
  auto const all = traffic_of(pool);
  EXPECT_EQ(all.maps, 1u);
  EXPECT_EQ(all.mapped_size, bytes.size());
  EXPECT_EQ(all.by_path[mapped].reads, 0u);
  tnd_pool_traffic small{};
  small.struct_size = 8;
  EXPECT_EQ(tnd_pool_get_traffic(pool, &small), -EINVAL);
}

// Clients' numbers are claims: 2^64 bytes in a moment are rejected, and no two of them overflow the
// sum.
TEST(pool_path_counters, claims_are_bounded) {
  auto const daemon = started(small_pool());
  {
    raw_client local{daemon->port(), true};
    ASSERT_EQ(local.greet("test"), status::ok);
    for (int i = 0; i < 3; i++)
      ASSERT_TRUE(local.send(wire::pool::kind::mapped_reads,
                             wire::pool::mapped_reads_note{~uint64_t{0}, ~uint64_t{0}}));
    ASSERT_EQ(local.ask(wire::pool::kind::statistics, wire::pool::empty_message{}), status::ok);
  }
  for (uint32_t const path : {TND_POOL_PATH_SHARED_MEMORY, TND_POOL_PATH_GPU_DIRECT}) {
    EXPECT_GT(told_read_size(*daemon, path), 0u);
    EXPECT_LT(told_read_size(*daemon, path), uint64_t{20'000'000'000'000})
        << "more than 20 s of a terabyte each";
  }
  // A client without shared memory has nothing to report.
  raw_client remote{daemon->port()};
  ASSERT_EQ(remote.greet("test"), status::ok);
  ASSERT_TRUE(remote.send(wire::pool::kind::mapped_reads, wire::pool::mapped_reads_note{1, 1}));
  EXPECT_TRUE(remote.is_closed());
}

// A slow daemon receives their reports one right after the other.
TEST(pool_path_counters, reads_that_are_told_late_count_in_full) {
  auto const daemon = started(small_pool());
  raw_client local{daemon->port(), true};
  ASSERT_EQ(local.greet("test"), status::ok);
  seams::monotonic_clock().sleep_ns(50'000'000);
  for (uint64_t const size : {uint64_t{1}, uint64_t{30'000'000'000}})
    ASSERT_TRUE(local.send(wire::pool::kind::mapped_reads, wire::pool::mapped_reads_note{size, 0}));
  ASSERT_EQ(local.ask(wire::pool::kind::statistics, wire::pool::empty_message{}), status::ok);
  EXPECT_EQ(told_read_size(*daemon, TND_POOL_PATH_SHARED_MEMORY), 30'000'000'001u);
}

}  // namespace
}  // namespace tanada::test
