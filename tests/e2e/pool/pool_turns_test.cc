// The daemon processes gigabytes in turns, so that other clients of the same thread are answered
// meanwhile.
#include <atomic>
#include <chrono>
#include <thread>

#include "e2e/pool/pool_fixture.hpp"

namespace tanada::test {
namespace {

constexpr uint64_t large = uint64_t{384} << 20;
constexpr uint64_t turn_count = large / (4 << 20);

// On a busy machine the other client may not get a processor in each turn. A daemon without turns
// answers none or one.
constexpr uint64_t answer_count_min = turn_count / 4;
constexpr int trial_count_max = 20;

class pool_turns : public testing::Test {
 protected:
  pool_turns() {
    auto options = small_pool(large * 2 + (64 << 20));
    options.segment_size = 64 << 20;
    options.worker_count = 1;
    daemon_ = started(options);
  }

  // How many requests of another client are answered while `work` waits for its answer.
  template <class Work>
  uint64_t answered_during(const Work &work) {
    connection other{url_of(*daemon_), false};
    EXPECT_EQ(put(other, "small", pattern(100, 1)), TND_OK);
    std::atomic<bool> done{false};
    std::thread at_work{[&] {
      work();
      done = true;
    }};
    uint64_t count = 0;
    for (tnd_pool_info about; !done; count++)
      EXPECT_EQ(tnd_pool_stat(other, "small", 0, &about), TND_OK);
    at_work.join();
    return count;
  }

  uint64_t answered_during_clearing(bool commits);

  std::unique_ptr<poold::daemon> daemon_;
};

TEST_F(pool_turns, keeping_the_bytes_of_a_large_object) {
  connection pool{url_of(*daemon_), true, 60'000'000'000};
  auto const head = pattern(1 << 20, 3);
  handle before, after;
  ASSERT_EQ(tnd_pool_create(pool, "large", large, 0, nullptr, &before), TND_OK);
  for (uint64_t at : {uint64_t{0}, large / 2 - 12345, large - head.size()}) {
    ASSERT_EQ(tnd_pool_write(before, at, head.data(), head.size(), TND_POOL_MEMORY_HOST), TND_OK);
  }
  ASSERT_EQ(tnd_pool_commit(before, nullptr, nullptr), TND_OK);
  uint64_t count = 0;
  for (int trial = 0; trial < trial_count_max && count <= answer_count_min; trial++) {
    tnd_pool_close(after.object);
    after.object = nullptr;
    count = answered_during([&] {
      EXPECT_EQ(tnd_pool_create(pool, "large", large, TND_POOL_KEEP, nullptr, &after), TND_OK)
          << tnd_last_message();
    });
  }
  EXPECT_GT(count, answer_count_min);
  ASSERT_EQ(tnd_pool_commit(after, nullptr, nullptr), TND_OK);
  std::vector<char> bytes(head.size());
  for (uint64_t at : {uint64_t{0}, large / 2 - 12345, large - head.size()}) {
    uint64_t size = 0;
    ASSERT_EQ(tnd_pool_read(after, at, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST, &size),
              TND_OK);
    EXPECT_EQ(bytes, head);
  }
}

// Requests answered while the daemon clears unwritten ranges of an object, at its commit or when a
// reader opens it.
uint64_t pool_turns::answered_during_clearing(bool commits) {
  connection pool{url_of(*daemon_), false, 60'000'000'000};
  handle object;
  EXPECT_EQ(tnd_pool_create(pool, "gaps", large, 0, nullptr, &object), TND_OK)
      << tnd_last_message();
  EXPECT_EQ(tnd_pool_write(object, large / 2, "x", 1, TND_POOL_MEMORY_HOST), TND_OK);
  char read[3] = "??";
  uint64_t size = 0;
  uint64_t const count = answered_during([&] {
    tnd_status const code =
        commits ? tnd_pool_commit(object, nullptr, nullptr)
                : tnd_pool_read(object, large / 2 - 1, read, 3, TND_POOL_MEMORY_HOST, &size);
    EXPECT_EQ(code, TND_OK) << tnd_last_message();
  });
  EXPECT_TRUE(commits || std::string(read, 3) == std::string("\0x\0", 3));
  return count;
}

TEST_F(pool_turns, clearing_what_nobody_wrote) {
  for (bool const commits : {true, false}) {
    uint64_t count = 0;
    for (int trial = 0; trial < trial_count_max && count <= answer_count_min; trial++)
      count = answered_during_clearing(commits);
    EXPECT_GT(count, answer_count_min) << (commits ? "commit" : "read");
  }
}

class pool_ranges : public testing::TestWithParam<way> {};

// More ranges than the daemon keeps: where it may clear the gaps, and where it must not.
TEST_P(pool_ranges, many_that_do_not_touch) {
  auto const daemon = started(small_pool(GetParam()));
  connection pool{url_of(*daemon), GetParam()};
  constexpr uint64_t rows = 150'000;
  auto const memory = pattern(rows * 3, 6);
  for (int round = 0; round < 2; round++) {
    tnd_pool_box const box{.offset = 0,
                           .size = 3,
                           .count = {rows, 1},
                           .object_stride = {7, 0},
                           .memory_stride = {3, 0}};
    handle object;
    ASSERT_EQ(tnd_pool_create(pool, "rows", rows * 7, 0, nullptr, &object), TND_OK);
    ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data(), TND_POOL_MEMORY_HOST), TND_OK);
    ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
    std::vector<char> expected(rows * 7);
    for (size_t i = 0; i < rows * 3; i++)
      expected[i / 3 * 7 + i % 3] = memory[i];
    EXPECT_TRUE(get(pool, "rows") == expected);
    // The next round's memory has other bytes in unwritten ranges.
    ASSERT_EQ(put(pool, "rows", pattern(rows * 7, 9)), TND_OK);
    ASSERT_EQ(tnd_pool_remove(pool, "rows", 0), TND_OK);
  }
}

INSTANTIATE_TEST_SUITE_P(paths, pool_ranges, all_ways(), way_name);

TEST(pool_ranges_bound, too_many_are_refused_by_the_commit) {
  auto const daemon = started(small_pool());
  connection pool{url_of(*daemon), way::shared_memory};
  constexpr uint64_t rows = (1 << 20) + 2 * 2048;
  std::vector<char> const memory(rows, 'r');
  tnd_pool_box const box{
      .offset = 0, .size = 1, .count = {rows, 1}, .object_stride = {2, 0}, .memory_stride = {1, 0}};
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "rows", rows * 2, 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write_box(object, &box, memory.data(), TND_POOL_MEMORY_HOST), TND_OK);
  EXPECT_EQ(tnd_pool_commit(object, nullptr, nullptr), -EFBIG);
  EXPECT_EQ(put(pool, "other", pattern(100, 1)), TND_OK);
}

}  // namespace
}  // namespace tanada::test
