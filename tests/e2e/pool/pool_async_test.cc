// tnd_pool_post() and tnd_pool_poll().
#include <map>

#include "e2e/pool/pool_fixture.hpp"

namespace tanada::test {
namespace {

class pool_async : public testing::TestWithParam<way> {
 protected:
  std::unique_ptr<poold::daemon> daemon = started(small_pool(GetParam()));
  connection pool{url_of(*daemon), GetParam()};

  std::map<uint64_t, tnd_pool_completion> reap(size_t wanted) {
    std::map<uint64_t, tnd_pool_completion> all;
    while (all.size() < wanted) {
      tnd_pool_completion some[32];
      uint32_t count = 0;
      EXPECT_EQ(tnd_pool_poll(pool, some, 32, 10'000'000'000, &count), TND_OK);
      if (count == 0)
        break;
      for (uint32_t i = 0; i < count; i++)
        all[some[i].context] = some[i];
    }
    return all;
  }
};

tnd_pool_request request(tnd_pool_request_kind kind,
                         uint64_t context,
                         void *memory,
                         uint64_t size) {
  tnd_pool_request one{};
  one.struct_size = sizeof one;
  one.kind = kind;
  one.context = context;
  one.memory = memory;
  one.size = size;
  return one;
}

TEST_P(pool_async, every_request_completes_once) {
  constexpr int count = 300;
  std::vector<std::vector<char>> sources, targets;
  for (int i = 0; i < count; i++) {
    sources.push_back(pattern(size_t(i * 97), uint32_t(i)));
    targets.emplace_back(sources.back().size());
    auto one =
        request(TND_POOL_REQUEST_PUT, uint64_t(i), sources.back().data(), sources.back().size());
    std::string const name = std::to_string(i);
    one.name = name.c_str();
    ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  }
  for (auto const &[context, done] : reap(count))
    EXPECT_EQ(done.status, TND_OK);
  for (int i = 0; i < count; i++) {
    auto one = request(
        TND_POOL_REQUEST_GET, uint64_t(i), targets[size_t(i)].data(), targets[size_t(i)].size());
    std::string const name = std::to_string(i);
    one.name = name.c_str();
    ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  }
  auto const done = reap(count);
  EXPECT_EQ(done.size(), size_t(count));
  EXPECT_EQ(targets, sources);
}

TEST_P(pool_async, writes_and_the_commit_behind_them_keep_their_order) {
  auto const bytes = pattern(2'000'000, 1);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "ordered", 0, 0, nullptr, &object), TND_OK);
  for (uint64_t at = 0; at < bytes.size(); at += 500'000) {
    auto one = request(TND_POOL_REQUEST_WRITE, at, const_cast<char *>(bytes.data()) + at, 500'000);
    one.object = object;
    one.offset = at;
    ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  }
  auto commit = request(TND_POOL_REQUEST_COMMIT, 1, nullptr, 0);
  commit.object = object;
  ASSERT_EQ(tnd_pool_post(pool, &commit), TND_OK);
  auto const done = reap(5);
  ASSERT_EQ(done.size(), 5u);
  for (auto const &[context, one] : done)
    EXPECT_EQ(one.status, TND_OK);
  EXPECT_EQ(get(pool, "ordered"), bytes);
}

TEST_P(pool_async, requests_see_what_calls_have_written) {
  auto const bytes = pattern(300'000, 1);
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "mixed", bytes.size(), 0, nullptr, &object), TND_OK);
  ASSERT_EQ(tnd_pool_write(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST), TND_OK);
  std::vector<char> read(bytes.size());
  auto one = request(TND_POOL_REQUEST_READ, 1, read.data(), read.size());
  one.object = object;
  ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  EXPECT_EQ(reap(1)[1].status, TND_OK);
  EXPECT_EQ(read, bytes);
  auto more = request(TND_POOL_REQUEST_WRITE, 2, read.data(), read.size());
  more.object = object;
  more.offset = bytes.size();
  ASSERT_EQ(tnd_pool_post(pool, &more), TND_OK);
  EXPECT_EQ(reap(1)[2].status, TND_OK);
  ASSERT_EQ(tnd_pool_commit(object, nullptr, nullptr), TND_OK);
  std::vector<char> twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  EXPECT_EQ(get(pool, "mixed"), twice);
}

TEST_P(pool_async, a_commit_that_was_refused_leaves_a_writer) {
  handle object;
  ASSERT_EQ(tnd_pool_create(pool, "refused", 4, 0, nullptr, &object), TND_OK);
  auto commit = request(TND_POOL_REQUEST_COMMIT, 1, nullptr, 0);
  commit.object = object;
  commit.flags = TND_POOL_DURABLE;
  ASSERT_EQ(tnd_pool_post(pool, &commit), TND_OK);
  EXPECT_EQ(reap(1)[1].status, -EOPNOTSUPP);
  ASSERT_EQ(tnd_pool_write(object, 0, "data", 4, TND_POOL_MEMORY_HOST), TND_OK);
  commit.flags = 0;
  ASSERT_EQ(tnd_pool_post(pool, &commit), TND_OK);
  EXPECT_EQ(reap(1)[1].status, TND_OK);
  tnd_pool_info info;
  ASSERT_EQ(tnd_pool_get_info(object, &info), TND_OK);
  EXPECT_GT(info.version, 0u);
}

TEST_P(pool_async, errors_are_told_by_completions) {
  char byte;
  auto one = request(TND_POOL_REQUEST_GET, 1, &byte, 1);
  one.name = "nothing";
  ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  EXPECT_EQ(reap(1)[1].status, -ENOENT);
}

TEST_P(pool_async, too_many_are_refused) {
  auto one = request(TND_POOL_REQUEST_PUT, 0, nullptr, 0);
  one.name = "x";
  tnd_status code = TND_OK;
  int posted = 0;
  for (; posted < 100'000 && code == TND_OK; posted++)
    code = tnd_pool_post(pool, &one);
  EXPECT_EQ(code, -EAGAIN);
  for (int left = posted - 1; left > 0;) {
    tnd_pool_completion some[64];
    uint32_t count = 0;
    ASSERT_EQ(tnd_pool_poll(pool, some, 64, 10'000'000'000, &count), TND_OK);
    ASSERT_GT(count, 0u);
    left -= int(count);
  }
}

TEST_P(pool_async, a_lost_daemon_completes_everything) {
  std::vector<char> bytes(1 << 20);
  for (uint64_t i = 0; i < 20; i++) {
    auto one = request(TND_POOL_REQUEST_PUT, i, bytes.data(), bytes.size());
    one.name = "x";
    ASSERT_EQ(tnd_pool_post(pool, &one), TND_OK);
  }
  daemon.reset();
  EXPECT_EQ(reap(20).size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(paths, pool_async, all_ways(), way_name);

}  // namespace
}  // namespace tanada::test
