// The file behind the pool's memory is truncated or removed: the daemon survives, reports what is
// lost, and serves the rest.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>

#include "e2e/pool/daemon_process.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"
#include "sim/world.hpp"

namespace tanada::test {
namespace {

constexpr size_t object_size = 1 << 20, object_count = 16;
constexpr uint64_t kept_size = (10 << 20) + 1000;  // in the middle of an object and of a page

std::string name_of(size_t index) {
  return "n" + std::to_string(index);
}
std::vector<char> contents(size_t index) {
  return pattern(object_size, uint32_t(index));
}

size_t count_of(const std::string &text, const std::string &wanted) {
  size_t count = 0;
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1))
    count++;
  return count;
}

tnd_status get_code(tnd_pool *pool, const std::string &name, std::vector<char> &bytes) {
  uint64_t size = 0;
  bytes.resize(object_size);
  tnd_status const code =
      tnd_pool_get(pool, name.c_str(), bytes.data(), bytes.size(), &size, TND_POOL_VERIFY);
  if (code == TND_OK)
    bytes.resize(size);
  return code;
}

class pool_loss : public testing::TestWithParam<bool>, protected folder_of_its_own {
 protected:
  void SetUp() override {
    daemon_.environment["TND_LOG"] = "info";  // the tests read its lines
    daemon_.start();
    connection pool{daemon_.url(), by_unix()};
    for (size_t i = 0; i < object_count; i++)
      ASSERT_EQ(put(pool, name_of(i), contents(i), TND_POOL_DURABLE), TND_OK);
  }
  bool by_unix() const {
    return GetParam();
  }
  void cut(uint64_t size) {
    ASSERT_EQ(truncate((folder_ + "/backing").c_str(), off_t(size)), 0);
  }

  // The objects that cannot be read; the others have their bytes.
  std::set<size_t> damaged(tnd_pool *pool) {
    std::set<size_t> found;
    for (size_t i = 0; i < object_count; i++) {
      std::vector<char> bytes;
      tnd_status const code = get_code(pool, name_of(i), bytes);
      if (code == TND_OK)
        EXPECT_EQ(bytes, contents(i)) << name_of(i);
      else
        EXPECT_EQ(code, -EIO) << name_of(i);
      if (code != TND_OK)
        found.insert(i);
    }
    return found;
  }
  bool comes(const std::string &line, size_t count) {
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{30};
    while (count_of(daemon_.said(), line) < count) {
      if (std::chrono::steady_clock::now() > limit)
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
    }
    return true;
  }

  daemon_process daemon_{folder_, "file:" + folder_ + "/backing"};
};

TEST_P(pool_loss, an_idle_daemon_notices_and_serves_the_rest) {
  cut(kept_size);
  ASSERT_TRUE(comes("are lost", 1)) << daemon_.said();
  ASSERT_TRUE(comes("has lost bytes", object_count - 10)) << daemon_.said();
  connection pool{daemon_.url(), by_unix()};
  auto const gone = damaged(pool);
  EXPECT_EQ(gone.size(), object_count - 10);
  EXPECT_EQ(count_of(daemon_.said(), "has lost bytes"), gone.size()) << daemon_.said();
  tnd_pool_info about;
  EXPECT_EQ(tnd_pool_stat(pool, name_of(*gone.begin()).c_str(), 0, &about), TND_OK);
  handle kept;
  EXPECT_EQ(tnd_pool_create(pool, name_of(*gone.begin()).c_str(), 0, TND_POOL_KEEP, nullptr, &kept),
            -EIO);
  // New objects get remaining memory and never lost memory. Then there is no space, and never an
  // unreadable object.
  ASSERT_EQ(tnd_pool_remove(pool, name_of(*gone.rbegin()).c_str(), TND_POOL_DURABLE), TND_OK);
  ASSERT_EQ(tnd_pool_remove(pool, name_of(0).c_str(), TND_POOL_DURABLE), TND_OK);
  ASSERT_EQ(tnd_pool_remove(pool, name_of(1).c_str(), TND_POOL_DURABLE), TND_OK);
  EXPECT_EQ(put(pool, name_of(*gone.begin()), contents(77), TND_POOL_DURABLE), TND_OK);
  EXPECT_EQ(get(pool, name_of(*gone.begin())), contents(77));
  tnd_status code = TND_OK;
  for (int i = 0; i < 60 && code == TND_OK; i++)
    code = put(pool, "more" + std::to_string(i), pattern(100'000, 3));
  EXPECT_EQ(code, -ENOSPC);
  EXPECT_EQ(get(pool, "more0"), pattern(100'000, 3));
  EXPECT_TRUE(daemon_.is_alive());
}

TEST_P(pool_loss, a_restart_brings_back_what_was_left) {
  cut(kept_size);
  std::set<size_t> gone;
  {
    connection pool{daemon_.url(), by_unix()};
    gone = damaged(pool);
    ASSERT_FALSE(gone.empty());
    ASSERT_LT(gone.size(), object_count);
    ASSERT_EQ(put(pool, name_of(0), contents(0), TND_POOL_DURABLE), -ENOSPC)
        << "there is no room beside the old one";
    ASSERT_EQ(tnd_pool_remove(pool, name_of(1).c_str(), TND_POOL_DURABLE), TND_OK);
    ASSERT_EQ(put(pool, "after", contents(50), TND_POOL_DURABLE), TND_OK);
  }
  daemon_.end(SIGKILL);
  daemon_.start();
  EXPECT_EQ(count_of(daemon_.said(), "kept aside; reading it is EIO"), gone.size())
      << daemon_.said();
  connection pool{daemon_.url(), by_unix()};
  for (size_t i = 2; i < object_count; i++) {
    if (gone.contains(i))
      get(pool, name_of(i), -EIO);
    else
      EXPECT_EQ(get(pool, name_of(i)), contents(i));
  }
  EXPECT_EQ(get(pool, "after"), contents(50));
  // It is listed, and can be removed like any other.
  tnd_pool_info about;
  for (size_t i : gone) {
    EXPECT_EQ(tnd_pool_stat(pool, name_of(i).c_str(), 0, &about), TND_OK);
    EXPECT_EQ(about.size, object_size);
    EXPECT_EQ(tnd_pool_remove(pool, name_of(i).c_str(), TND_POOL_DURABLE), TND_OK);
  }
}

TEST_P(pool_loss, a_file_that_grows_again_is_not_trusted) {
  connection pool{daemon_.url(), by_unix()};
  handle before;
  ASSERT_EQ(tnd_pool_open(pool, name_of(object_count - 1).c_str(), 0, &before), TND_OK);
  cut(kept_size);
  ASSERT_EQ(damaged(pool).size(), object_count - 10);
  cut(48 << 20);
  EXPECT_EQ(damaged(pool).size(), object_count - 10);
  char byte = 'x';
  uint64_t size = 0;
  EXPECT_EQ(tnd_pool_read(before, 0, &byte, 1, 0, &size), -EIO);
}

TEST_P(pool_loss, what_is_being_written_is_refused_at_the_latest_by_the_commit) {
  connection pool{daemon_.url(), by_unix()};
  handle early, late;
  auto const bytes = pattern(object_size, 5);
  ASSERT_EQ(tnd_pool_create(pool, "early", object_size, 0, nullptr, &early), TND_OK);
  ASSERT_EQ(tnd_pool_create(pool, "late", object_size, 0, nullptr, &late), TND_OK);
  ASSERT_EQ(tnd_pool_write(early, 0, bytes.data(), bytes.size(), 0), TND_OK);
  cut(kept_size);
  EXPECT_EQ(tnd_pool_write(late, 0, bytes.data(), bytes.size(), 0), -EIO);
  for (auto *one : {&early, &late}) {
    EXPECT_EQ(tnd_pool_commit(*one, nullptr, nullptr), -EIO);
  }
  get(pool, "early", -ENOENT);
  EXPECT_EQ(get(pool, name_of(0)), contents(0));
}

TEST_P(pool_loss, under_load_nobody_gets_wrong_bytes) {
  std::atomic<bool> ending{false};
  std::atomic<uint64_t> good{0}, refused{0};
  std::vector<std::thread> clients;
  for (uint32_t who = 0; who < 4; who++) {
    clients.emplace_back([&, who] {
      connection pool{daemon_.url(), who % 2 == 0};
      sim::prng random{who + 1};
      uint64_t mine = 0;
      while (!ending) {
        std::string const own = "own" + std::to_string(who);
        tnd_status code = TND_OK;
        std::vector<char> bytes;
        bool const reads = random.chance(50);
        if (reads) {
          size_t const which = random.below(object_count);
          code = get_code(pool, name_of(which), bytes);
          EXPECT_TRUE(code != TND_OK || bytes == contents(which));
        } else {
          mine++;
          code = put(pool,
                     own,
                     pattern(200'000 + mine % 7 * 1000, uint32_t(mine * 8 + who)),
                     random.chance(50) ? uint32_t(TND_POOL_DURABLE) : 0u);
          // Lost between the put and the get, or too late for the put's own answer.
          if (code == TND_OK)
            code = get_code(pool, own, bytes);
          if (code == TND_OK) {
            EXPECT_EQ(bytes, pattern(200'000 + mine % 7 * 1000, uint32_t(mine * 8 + who)));
          }
        }
        bool const expected = code == TND_OK || code == -EIO || code == -ENOSPC ||
                              code == -TND_EPEER || code == -TND_ECORRUPT;
        EXPECT_TRUE(expected) << tnd_status_name(code);
        (code == TND_OK ? good : refused)++;
      }
    });
  }
  for (uint64_t size : {uint64_t{40} << 20, uint64_t{17} << 20, uint64_t{9} << 20, kept_size / 2}) {
    std::this_thread::sleep_for(std::chrono::milliseconds{150});
    cut(size);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  ending = true;
  for (auto &one : clients)
    one.join();
  EXPECT_TRUE(daemon_.is_alive()) << daemon_.said();
  EXPECT_GT(good, 20u);
  EXPECT_GT(refused, 20u);
  connection pool{daemon_.url(), by_unix()};
  auto const gone = damaged(pool);
  EXPECT_GE(gone.size(), object_count - 6);
  EXPECT_LT(gone.size(), object_count);
}

INSTANTIATE_TEST_SUITE_P(ways, pool_loss, testing::Bool(), [](auto const &which) {
  return which.param ? "unix" : "tcp";
});

using pool_loss_raw = pool_loss;

// The bytes of a put whose memory vanishes during it are skipped, and the connection continues.
TEST_P(pool_loss_raw, a_put_under_way_is_answered_in_order) {
  raw_client client{daemon_.port()};
  ASSERT_EQ(client.greet("test"), status::ok);
  wire::pool::put_request request;
  request.name = "half";
  constexpr size_t size = 8 << 20;
  auto const frame = wire::pool::encode_frame(
      {.kind = uint16_t(wire::pool::kind::put), .code = 0, .tag = 9, .data_size = size}, request);
  std::string const data(size, 'd');
  ASSERT_TRUE(client.send(frame.data(), frame.size()));
  ASSERT_TRUE(client.send(data.data(), size / 2));
  cut(0);
  ASSERT_TRUE(client.send(data.data() + size / 2, size / 2));
  raw_client::frame answer;
  ASSERT_TRUE(client.receive(answer)) << daemon_.said();
  EXPECT_EQ(answer.head.tag, 9u);
  EXPECT_EQ(wire::pool::status_of(answer.head.code), status::io);
  EXPECT_EQ(client.ask(wire::pool::kind::statistics, wire::pool::empty_message{}), status::ok);
  EXPECT_TRUE(daemon_.is_alive());
}

TEST_P(pool_loss_raw, a_file_that_was_removed_makes_nothing_durable) {
  ASSERT_EQ(unlink((folder_ + "/backing").c_str()), 0);
  ASSERT_TRUE(comes("was removed", 1));
  connection pool{daemon_.url(), by_unix()};
  EXPECT_EQ(put(pool, "after", contents(3), TND_POOL_DURABLE), -EIO);
  EXPECT_EQ(put(pool, "after", contents(4)), TND_OK);
  EXPECT_EQ(get(pool, "after"), contents(4));
}

TEST_P(pool_loss_raw, another_path_to_the_file_does_not_let_a_second_daemon_in) {
  std::string const link = folder_ + "/link";
  ASSERT_EQ(symlink((folder_ + "/backing").c_str(), link.c_str()), 0);
  auto options = small_pool(48 << 20);
  options.backing = "file:" + link;
  EXPECT_EQ(poold::daemon::start(options).error(), status::busy);
}

INSTANTIATE_TEST_SUITE_P(ways, pool_loss_raw, testing::Values(false), [](auto const &) {
  return "tcp";
});

}  // namespace
}  // namespace tanada::test
