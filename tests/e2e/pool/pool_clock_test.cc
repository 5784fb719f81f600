// The wall clock jumps by ten years, forward and back, under a daemon and its clients: handshakes,
// deadlines, evictions, recovery, counters and the times of objects stay correct.
#include <signal.h>

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "e2e/pool/clock_shim.hpp"
#include "e2e/pool/daemon_process.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"

namespace tanada::test {
namespace {

constexpr int64_t second_ns = 1'000'000'000, year_ns = 31'557'600 * second_ns;

// Of a clock that no shim replaces.
uint64_t true_ns() {
  return uint64_t(
      std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
}

class pool_clock : public testing::TestWithParam<const char *>, protected folder_of_its_own {
 protected:
  void SetUp() override {
    ours_ = tnd_test_clock_use((folder_ + "/clock-of-clients").c_str());
    its_ = tnd_test_clock_use((folder_ + "/clock-of-daemon").c_str());
    ASSERT_TRUE(ours_ != nullptr && its_ != nullptr);
    // The last one in the list is used here.
    ours_ = tnd_test_clock_use((folder_ + "/clock-of-clients").c_str());
    daemon_.environment["TND_TEST_CLOCK_FILE"] = folder_ + "/clock-of-daemon";
    // A path with a blank would be two files in LD_PRELOAD.
    std::filesystem::path const shim = TND_TEST_CLOCK_SHIM;
    daemon_.environment["LD_PRELOAD"] = shim.filename().string();
    daemon_.environment["LD_LIBRARY_PATH"] = shim.parent_path().string();
    const char *const sanitizer = std::getenv("ASAN_OPTIONS");
    daemon_.environment["ASAN_OPTIONS"] =
        (sanitizer != nullptr ? std::string{sanitizer} + ":" : "") + "verify_asan_link_order=0";
    daemon_.arguments = {"--web-port", "0", "--workers", "1"};
    daemon_.start();
  }
  void TearDown() override {
    jump(0);
  }
  void jump(int years) {
    ours_->wall_ns = years * year_ns;
    its_->wall_ns = years * year_ns;
  }

  std::string page(const std::string &path) {
    auto made = backends::tcp_connect("127.0.0.1", daemon_.web_port(), true_ns() + 5 * second_ns);
    EXPECT_TRUE(made.ok());
    if (!made.ok())
      return {};
    auto const stream = std::move(made).value();
    std::string request =
                    "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n",
                text;
    iovec const out{request.data(), request.size()};
    EXPECT_TRUE(stream->send({&out, 1}).ok());
    char bytes[4096];
    iovec const in{bytes, sizeof bytes};
    while (stream->wait(true, false, true_ns() + 5 * second_ns) == status::ok) {
      auto size = stream->receive({&in, 1});
      if (!size.ok())
        break;
      text.append(bytes, size.value());
    }
    return text;
  }
  static double number_after(const std::string &text, const std::string &word) {
    size_t const at = text.find(word);
    EXPECT_NE(at, std::string::npos) << word << " in " << text;
    return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + word.size(), nullptr);
  }

  clock_offsets *ours_ = nullptr, *its_ = nullptr;
  daemon_process daemon_{folder_, std::string{GetParam()} + ":" + folder_ + "/backing"};
};

TEST_P(pool_clock, clients_come_and_go_and_times_of_objects_stay) {
  connection early{daemon_.url(), true};
  ASSERT_EQ(put(early, "first", pattern(1000, 1), TND_POOL_DURABLE), TND_OK);
  tnd_pool_info first;
  ASSERT_EQ(tnd_pool_stat(early, "first", 0, &first), TND_OK);
  for (int const years : {10, -10, 10, 0, -10}) {
    jump(years);
    for (bool const local : {true, false}) {
      connection late{daemon_.url(), local};
      ASSERT_EQ(late.code, TND_OK) << tnd_last_message();
      for (tnd_pool *pool : {early.pool, late.pool}) {
        ASSERT_EQ(put(pool, "other", pattern(5000, 2), TND_POOL_DURABLE), TND_OK)
            << tnd_last_message();
        EXPECT_EQ(get(pool, "other"), pattern(5000, 2));
      }
      tnd_pool_info other, again;
      ASSERT_EQ(tnd_pool_stat(late, "other", 0, &other), TND_OK);
      ASSERT_EQ(tnd_pool_stat(late, "first", 0, &again), TND_OK);
      EXPECT_EQ(again.created_ns, first.created_ns);
      // The jump reaches the daemon, and an object's time is the wall clock's at its commit.
      EXPECT_NEAR(double(int64_t(other.created_ns - first.created_ns)),
                  double(years * year_ns),
                  100.0 * second_ns);
    }
  }
}

TEST_P(pool_clock, a_call_waits_as_long_as_it_was_told) {
  for (int const years : {10, -10}) {
    jump(0);
    connection pool{daemon_.url(), false, uint64_t(second_ns)};
    ASSERT_EQ(pool.code, TND_OK);
    ASSERT_EQ(kill(daemon_.pid(), SIGSTOP), 0);
    ASSERT_EQ(waitpid(daemon_.pid(), nullptr, WUNTRACED), daemon_.pid());
    std::thread jumper{[&] {
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
      jump(years);
    }};
    uint64_t const begin_ns = true_ns();
    tnd_pool_info about;
    EXPECT_EQ(tnd_pool_stat(pool, "first", 0, &about), -ETIMEDOUT);
    uint64_t const waited_ns = true_ns() - begin_ns;
    jumper.join();
    kill(daemon_.pid(), SIGCONT);
    EXPECT_GE(waited_ns, uint64_t(second_ns) * 9 / 10) << years;
    EXPECT_LT(waited_ns, uint64_t(second_ns) * 6) << years;
  }
}

TEST_P(pool_clock, a_stalled_handshake_has_its_ten_seconds) {
  raw_client patient{daemon_.port()}, stalled{daemon_.port()};
  uint64_t const begin_ns = true_ns();
  jump(10);
  std::this_thread::sleep_for(std::chrono::milliseconds{2500});  // two checks for stalled clients
  EXPECT_EQ(patient.greet("test"), status::ok);
  jump(-10);
  bool closed = false;
  while (!closed && true_ns() - begin_ns < uint64_t(20 * second_ns))
    closed = stalled.is_closed();
  EXPECT_TRUE(closed);
  EXPECT_GE(true_ns() - begin_ns, uint64_t(9 * second_ns));
  EXPECT_EQ(patient.ask(wire::pool::kind::statistics, wire::pool::empty_message{}), status::ok);
}

// What the previous test would see of a daemon that relied on the jumping clock.
TEST_P(pool_clock, the_wrong_clock_would_be_noticed) {
  raw_client patient{daemon_.port()};
  connection behind{daemon_.url(), false};  // once it is admitted, so is the one before it
  its_->monotonic_ns = 3600 * second_ns;
  EXPECT_TRUE(patient.is_closed());
  EXPECT_GT(number_after(page("/metrics"), "\ntanada_pool_uptime_seconds "), 1000);
}

TEST_P(pool_clock, the_object_unused_longest_is_dropped_first) {
  connection pool{daemon_.url(), false};
  auto const bytes = pattern(10 << 20, 1);
  int const years[] = {10, 0, -10, 10};
  for (int i = 0; i < 4; i++) {
    jump(years[i]);
    ASSERT_EQ(put(pool, std::string{char('a' + i)}, bytes, TND_POOL_EVICTABLE | TND_POOL_DURABLE),
              TND_OK);
  }
  jump(-10);
  (void)get(pool, "a");
  // Memory recorded in the journal is in use.
  tnd_status code = -ENOSPC;
  for (int i = 0; i < 100 && code == -ENOSPC; i++) {
    code = put(pool, "e", bytes, TND_POOL_EVICTABLE);
    if (code == -ENOSPC)
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
  }
  ASSERT_EQ(code, TND_OK) << tnd_last_message();
  jump(10);
  std::set<std::string> found;
  for (const char *name : {"a", "b", "c", "d", "e"}) {
    tnd_pool_info about;
    if (tnd_pool_stat(pool, name, 0, &about) == TND_OK)
      found.insert(name);
  }
  // The one that flash has leaves memory, and stays.
  std::set<std::string> expected{"a", "c", "d", "e"};
  if (GetParam() == std::string{"flash"})
    expected.insert("b");
  EXPECT_EQ(found, expected);
}

TEST_P(pool_clock, a_restart_brings_back_what_came_last) {
  tnd_pool_info before, after;
  {
    connection pool{daemon_.url(), true};
    jump(10);
    ASSERT_EQ(put(pool, "twice", pattern(3000, 1), TND_POOL_DURABLE), TND_OK);
    ASSERT_EQ(put(pool, "gone", pattern(3000, 3), TND_POOL_DURABLE), TND_OK);
    jump(-10);
    ASSERT_EQ(put(pool, "twice", pattern(4000, 2), TND_POOL_DURABLE), TND_OK);
    ASSERT_EQ(tnd_pool_remove(pool, "gone", TND_POOL_DURABLE), TND_OK);
    ASSERT_EQ(tnd_pool_stat(pool, "twice", 0, &before), TND_OK);
  }
  daemon_.end(SIGKILL);
  jump(0);
  daemon_.start();
  connection pool{daemon_.url(), true};
  EXPECT_EQ(get(pool, "twice"), pattern(4000, 2));
  get(pool, "gone", -ENOENT);
  ASSERT_EQ(tnd_pool_stat(pool, "twice", 0, &after), TND_OK);
  EXPECT_EQ(after.created_ns, before.created_ns);
  EXPECT_EQ(after.version, before.version);
  ASSERT_EQ(put(pool, "twice", pattern(10, 2), TND_POOL_DURABLE), TND_OK);
  ASSERT_EQ(tnd_pool_stat(pool, "twice", 0, &after), TND_OK);
  EXPECT_GT(after.version, before.version);
}

TEST_P(pool_clock, counters_go_on_from_where_they_were) {
  connection pool{daemon_.url(), true};
  ASSERT_EQ(put(pool, "some", pattern(1000, 1)), TND_OK);
  double last = 0;
  for (int const years : {10, -10, 0}) {
    jump(years);
    std::this_thread::sleep_for(
        std::chrono::milliseconds{1200});  // the list of clients is updated once a second
    double const uptime = number_after(page("/metrics"), "\ntanada_pool_uptime_seconds ");
    EXPECT_GT(uptime, last);
    EXPECT_LT(uptime, 120);
    last = uptime;
    double const connected = number_after(page("/stats.json"), "\"connected_s\":");
    EXPECT_GT(connected, 0);
    EXPECT_LT(connected, 120);
  }
}

std::string backing_name(const testing::TestParamInfo<const char *> &which) {
  return which.param;
}
INSTANTIATE_TEST_SUITE_P(backings, pool_clock, testing::Values("flash", "file"), backing_name);

}  // namespace
}  // namespace tanada::test
