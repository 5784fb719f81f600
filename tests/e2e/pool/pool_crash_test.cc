// kill -9 of the daemon at any moment, repeatedly: every object whose durable commit returned is
// there and whole, and nothing is torn.
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <thread>

#include "e2e/pool/daemon_process.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "sim/world.hpp"

namespace tanada::test {
namespace {

constexpr int writer_count = 8, name_count = 4;
constexpr uint64_t call_limit_ns = 10'000'000'000;

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

struct known {
  uint64_t posted = 0,
           durable = 0;  // numbers of contents: the last one begun, and the last durable one
};

std::vector<char> contents(const std::string &name, uint64_t number) {
  auto bytes = pattern(16 + (number * 7919 + name.back()) % (number % 13 == 0 ? 900'000 : 20'000),
                       uint32_t(number));
  uint64_t const stamp[2] = {number, bytes.size()};
  std::memcpy(bytes.data(), stamp, sizeof stamp);
  return bytes;
}

class pool_crash_full : public testing::Test, protected folder_of_its_own {};

class pool_crash : public testing::TestWithParam<const char *>, protected folder_of_its_own {
 protected:
  // Puts until the daemon is gone. Every call ends in time.
  void write(int writer, const std::string &url, uint64_t seed, std::atomic<bool> &ending) {
    constexpr way ways[] = {way::shared_memory, way::tcp, way::unix_socket};
    connection pool{url, ways[writer % 3]};
    sim::prng random{seed};
    while (pool.code == TND_OK && !ending) {
      std::string const name =
          std::to_string(writer) + "-" + std::to_string(random.below(name_count));
      uint64_t number = 0;
      {
        std::lock_guard lock{mutex_};
        number = ++known_[name].posted;
      }
      auto const bytes = contents(name, number);
      bool const durable = random.chance(70);
      auto const before = std::chrono::steady_clock::now();
      tnd_status const code = put(pool, name, bytes, durable ? uint32_t(TND_POOL_DURABLE) : 0u);
      EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds{11});
      if (code != TND_OK) {
        EXPECT_TRUE(code == -TND_EPEER || code == -ENOSPC) << code;
        if (code == -TND_EPEER)
          return;
      } else if (durable) {
        std::lock_guard lock{mutex_};
        known_[name].durable = number;
      }
    }
  }

  // The violations after a restart.
  std::vector<std::string> problems(const std::string &url) {
    std::vector<std::string> found;
    connection pool{url, true, call_limit_ns};
    if (pool.code != TND_OK)
      return {"nobody answers"};
    for (auto const &[name, state] : known_) {
      std::vector<char> bytes(1 << 20);
      uint64_t size = 0, number = 0;
      tnd_status const code =
          tnd_pool_get(pool, name.c_str(), bytes.data(), bytes.size(), &size, TND_POOL_VERIFY);
      if (code == -ENOENT && state.durable == 0)
        continue;
      if (code != TND_OK) {
        found.push_back(name + ": " + tnd_status_name(code));
        continue;
      }
      bytes.resize(size);
      std::memcpy(&number, bytes.data(), sizeof number);
      if (number < state.durable)
        found.push_back(name + " is older than what is durable");
      if (number > state.posted)
        found.push_back(name + " was never written");
      if (bytes != contents(name, number))
        found.push_back(name + " is torn");
    }
    return found;
  }

  // Writers run until the daemon is killed at a random moment.
  void round(daemon_process &daemon, sim::prng &random) {
    std::atomic<bool> ending{false};
    std::vector<std::thread> writers;
    for (int i = 0; i < writer_count; i++) {
      writers.emplace_back([&, i, seed = random.next()] { write(i, daemon.url(), seed, ending); });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{random.below(150)});
    daemon.end(SIGKILL);
    ending = true;
    for (std::thread &one : writers)
      one.join();
  }

  std::mutex mutex_;
  std::map<std::string, known> known_;
};

TEST_P(pool_crash, durable_commits_survive_kill_9) {
  uint64_t const rounds = from_environment("TND_CRASH_ROUNDS", 15);
  daemon_process daemon{folder_, std::string{GetParam()} + ":" + folder_ + "/backing"};
  sim::prng random{from_environment("TND_CRASH_SEED", 1)};
  daemon.start();
  for (uint64_t i = 0; i < rounds && !HasFailure(); i++) {
    round(daemon, random);
    daemon.start();
    EXPECT_EQ(problems(daemon.url()), std::vector<std::string>{}) << daemon.said();
  }
  uint64_t durable = 0;
  for (auto const &[name, state] : known_)
    durable += state.durable;
  EXPECT_GT(durable, 10 * rounds) << "hardly anything was written: the test shows nothing";
}

TEST_P(pool_crash, a_backing_that_lost_something_is_noticed) {
  daemon_process daemon{folder_, std::string{GetParam()} + ":" + folder_ + "/backing"};
  sim::prng random{1};
  daemon.start();
  for (int i = 0; i < 3; i++) {
    round(daemon, random);
    daemon.start();
  }
  daemon.end(SIGKILL);
  std::string const folder =
      folder_ + (std::string_view{GetParam()} == "file" ? "/backing.journal" : "/backing");
  for (auto const &one : std::filesystem::directory_iterator{folder}) {
    if (one.file_size() > 0)
      std::filesystem::resize_file(one.path(), one.file_size() / 2 & ~uint64_t{4095});
  }
  daemon.start();
  EXPECT_NE(problems(daemon.url()), std::vector<std::string>{});
}

TEST_P(pool_crash, an_orderly_end_keeps_all_that_was_committed) {
  daemon_process daemon{folder_, std::string{GetParam()} + ":" + folder_ + "/backing"};
  daemon.start();
  {
    connection pool{daemon.url(), true, call_limit_ns};
    for (uint64_t i = 1; i <= 50; i++)
      ASSERT_EQ(put(pool, "n" + std::to_string(i), contents("n", i)), TND_OK);
    ASSERT_EQ(tnd_pool_remove(pool, "n1", 0), TND_OK);
    ASSERT_EQ(tnd_pool_rename(pool, "n2", "renamed", 0), TND_OK);
    ASSERT_EQ(tnd_pool_set_flags(pool, "n3", TND_POOL_PINNED), TND_OK);
  }
  daemon.end(SIGTERM);
  daemon.start();
  connection pool{daemon.url(), false, call_limit_ns};
  get(pool, "n1", -ENOENT);
  get(pool, "n2", -ENOENT);
  EXPECT_EQ(get(pool, "renamed"), contents("n", 2));
  for (uint64_t i = 3; i <= 50; i++)
    EXPECT_EQ(get(pool, "n" + std::to_string(i)), contents("n", i));
  tnd_pool_info info;
  ASSERT_EQ(tnd_pool_stat(pool, "n3", 0, &info), TND_OK);
  EXPECT_EQ(info.flags, uint32_t(TND_POOL_PINNED | TND_POOL_DURABLE));
}

TEST_P(pool_crash, what_the_daemon_writes_is_its_users_alone) {
  auto const mode_of = [](const std::filesystem::path &path) {
    struct stat about{};
    EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
    return about.st_mode & 0777u;
  };
  bool const is_file = std::string_view{GetParam()} == "file";
  std::string const folder = folder_ + (is_file ? "/backing.journal" : "/backing");
  daemon_process daemon{folder_, std::string{GetParam()} + ":" + folder_ + "/backing"};
  for (int life = 0; life < 2; life++) {
    daemon.start();
    {
      connection pool{daemon.url(), true, call_limit_ns};
      ASSERT_EQ(put(pool, "n" + std::to_string(life), contents("n", 1), TND_POOL_DURABLE), TND_OK);
    }
    EXPECT_EQ(mode_of(folder), 0700u);
    size_t log_count = 0;
    for (auto const &file : std::filesystem::directory_iterator{folder}) {
      EXPECT_EQ(mode_of(file.path()), 0600u) << file.path();
      bool const is_log = file.path().filename().string().starts_with("log-");
      log_count += is_log;
      // As earlier versions created them.
      if (is_log)
        std::filesystem::permissions(file.path(), std::filesystem::perms{0644});
    }
    EXPECT_GT(log_count, 0u);
    EXPECT_EQ(is_file ? mode_of(folder_ + "/backing") : 0600u, 0600u);
    daemon.end(SIGTERM);
  }
}

TEST_P(pool_crash, a_daemon_with_less_memory_loses_nothing) {
  std::string const backing = std::string{GetParam()} + ":" + folder_ + "/backing";
  daemon_process daemon{folder_, backing};
  daemon.start();
  {
    connection pool{daemon.url(), true, call_limit_ns};
    for (int i = 0; i < 20; i++)
      ASSERT_EQ(put(pool, std::to_string(i), pattern(1 << 20, 1), TND_POOL_DURABLE), TND_OK);
  }
  daemon.end(SIGTERM);
  auto options = small_pool(4 << 20);
  options.backing = backing;
  // Objects in a log need no memory.
  bool const is_log = std::string{GetParam()} == "flash";
  EXPECT_EQ(poold::daemon::start(options).ok(), is_log);
  daemon.start();
  connection pool{daemon.url(), true, call_limit_ns};
  for (int i = 0; i < 20; i++)
    EXPECT_EQ(get(pool, std::to_string(i)), pattern(1 << 20, 1));
}

// Later commits have higher versions than all earlier ones, whether those reached the log or not.
TEST_P(pool_crash, versions_begin_behind_all_earlier_ones) {
  std::string const backing = std::string{GetParam()} + ":" + folder_ + "/backing";
  daemon_process daemon{folder_, backing};
  uint64_t highest = 0;
  for (int life = 0; life < 3; life++) {
    auto const since_epoch = std::chrono::system_clock::now().time_since_epoch();
    uint64_t const begun_us =
        uint64_t(std::chrono::duration_cast<std::chrono::microseconds>(since_epoch).count());
    daemon.start();
    connection pool{daemon.url(), true, call_limit_ns};
    for (int i = 0; i < 20; i++) {
      ASSERT_EQ(put(pool, "a", pattern(100, uint32_t(i))), TND_OK);
      tnd_pool_info info;
      ASSERT_EQ(tnd_pool_stat(pool, "a", 0, &info), TND_OK);
      EXPECT_GT(info.version, std::max(highest, begun_us));
      highest = info.version;
    }
    daemon.end(SIGKILL);
  }
}

TEST_P(pool_crash, two_daemons_do_not_share_a_backing) {
  std::string const backing = std::string{GetParam()} + ":" + folder_ + "/backing";
  daemon_process first{folder_, backing};
  first.start();
  auto options = small_pool();
  options.backing = backing;
  EXPECT_EQ(poold::daemon::start(options).error(), status::busy);
}

class pool_persistent : public testing::Test, protected folder_of_its_own {
 protected:
  // The path and the reason that a client reports.
  static std::string reason(const std::string &url) {
    connection pool{url, true, call_limit_ns};
    tnd_pool_connection about{};
    about.struct_size = sizeof about;
    EXPECT_EQ(tnd_pool_get_connection(pool, &about), TND_OK);
    return about.reason;
  }
};

TEST_F(pool_persistent, a_daemon_reports_how_a_file_becomes_durable) {
  for (bool const is_persistent : {false, true}) {
    if (is_persistent && TND_TEST_HAS_PMEM == 0)
      GTEST_SKIP() << "this build has no libpmem";
    daemon_process daemon{folder_, "file:" + folder_ + "/backing"};
    daemon.environment["TND_LOG"] = "info";
    daemon.environment["PMEM_IS_PMEM_FORCE"] = is_persistent ? "1" : "0";
    daemon.start();
    {
      connection pool{daemon.url(), true, call_limit_ns};
      ASSERT_EQ(put(pool, "a", contents("a", 1), TND_POOL_DURABLE), TND_OK);
    }
    std::string const memory = is_persistent ? "in persistent memory" : "a file of the daemon";
    EXPECT_NE(reason(daemon.url()).find(memory), std::string::npos) << reason(daemon.url());
    daemon.end(SIGTERM);
    std::string const logged = daemon.said();
    bool const flushes = logged.find("by flushes of cache lines") != std::string::npos;
    EXPECT_EQ(flushes, is_persistent) << logged;
    EXPECT_NE(logged.find("is made durable by msync"), std::string::npos) << logged;
  }
}

TEST_F(pool_persistent, the_journal_of_a_file_may_lie_elsewhere) {
  daemon_process daemon{folder_, "file:" + folder_ + "/backing"};
  daemon.arguments = {"--journal", folder_ + "/elsewhere"};
  daemon.start();
  {
    connection pool{daemon.url(), true, call_limit_ns};
    ASSERT_EQ(put(pool, "a", contents("a", 1), TND_POOL_DURABLE), TND_OK);
  }
  daemon.end(SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/backing.journal"));
  daemon.start();
  connection pool{daemon.url(), true, call_limit_ns};
  EXPECT_EQ(get(pool, "a"), contents("a", 1));
}

TEST_F(pool_persistent, a_device_needs_a_journal_and_has_to_be_persistent_memory) {
  auto options = small_pool();
  options.backing = "file:/dev/null";
  EXPECT_EQ(poold::daemon::start(options).error(), status::invalid);
  options.journal = "relative";
  EXPECT_EQ(poold::daemon::start(options).error(), status::invalid);
  options.journal = folder_ + "/journal";
  EXPECT_FALSE(poold::daemon::start(options).ok());
  options.backing = "dram";
  EXPECT_EQ(poold::daemon::start(options).error(), status::invalid);
}

TEST_F(pool_crash_full, a_full_log_is_told_harms_nothing_and_heals) {
  daemon_process daemon{folder_, "flash:" + folder_ + "/backing", "12MiB"};
  daemon.start();
  uint64_t count = 0;
  {
    connection pool{daemon.url(), true, call_limit_ns};
    tnd_status code = TND_OK;
    while (count < 30 && code == TND_OK) {
      count++;
      code = put(
          pool, "n" + std::to_string(count), pattern(1 << 20, uint32_t(count)), TND_POOL_DURABLE);
    }
    ASSERT_EQ(code, -ENOSPC);
    ASSERT_GT(count, 3u);
    EXPECT_EQ(get(pool, "n1"), pattern(1 << 20, 1));
    for (uint64_t i = 1; i <= 3; i++)
      ASSERT_EQ(tnd_pool_remove(pool, ("n" + std::to_string(i)).c_str(), 0), TND_OK);
    auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    do
      code = put(pool, "after", pattern(1 << 20, 99), TND_POOL_DURABLE);
    while (code == -ENOSPC && std::chrono::steady_clock::now() < limit);
    ASSERT_EQ(code, TND_OK) << daemon.said();
  }
  daemon.end(SIGKILL);
  daemon.start();
  connection pool{daemon.url(), true, call_limit_ns};
  for (uint64_t i = 4; i < count; i++)
    EXPECT_EQ(get(pool, "n" + std::to_string(i)), pattern(1 << 20, uint32_t(i)));
  EXPECT_EQ(get(pool, "after"), pattern(1 << 20, 99));
}

// After a failed durable commit the object may be visible, so its handle must not change it.
TEST_F(pool_crash_full, an_object_whose_durable_commit_failed_is_not_written_again) {
  daemon_process daemon{folder_, "flash:" + folder_ + "/backing", "12MiB"};
  daemon.start();
  connection pool{daemon.url(), true, call_limit_ns};
  auto const bytes = pattern(1 << 20, 7);
  tnd_pool_commit_options durable = TND_POOL_COMMIT_OPTIONS_INIT;
  durable.flags = TND_POOL_DURABLE;
  for (int i = 0; i < 30; i++) {
    tnd_pool_object *object = nullptr;
    tnd_status const created =
        tnd_pool_create(pool, ("n" + std::to_string(i)).c_str(), bytes.size(), 0, nullptr, &object);
    if (created == -ENOSPC)
      return;  // the log had no space for it, so no commit fails
    ASSERT_EQ(created, TND_OK);
    ASSERT_EQ(tnd_pool_write(object, 0, bytes.data(), bytes.size(), TND_POOL_MEMORY_HOST), TND_OK);
    tnd_status const code = tnd_pool_commit(object, &durable, nullptr);
    if (code != TND_OK) {
      EXPECT_EQ(code, -ENOSPC);
      EXPECT_EQ(tnd_pool_write(object, 0, "x", 1, TND_POOL_MEMORY_HOST), -EBADF);
      EXPECT_EQ(tnd_pool_commit(object, nullptr, nullptr), -EBADF);
      tnd_pool_close(object);
      return;
    }
    tnd_pool_close(object);
  }
  FAIL() << "the log of 12 MiB took 30 objects of 1 MiB";
}

// A client that has read an object finds it in memory that outlives the daemon, and so do the
// counters that show whether it is the newest version.
class pool_replaced : public testing::Test, protected folder_of_its_own {
 protected:
  // Reads until the object can be read without a request.
  static void remember(tnd_pool *pool, const std::string &name, const std::vector<char> &bytes) {
    for (int i = 0; i < 3; i++)
      ASSERT_EQ(get(pool, name), bytes);
  }
  static tnd_status get_code(tnd_pool *pool, const std::string &name) {
    std::vector<char> bytes(1 << 20);
    uint64_t size = 0;
    return tnd_pool_get(pool, name.c_str(), bytes.data(), bytes.size(), &size, 0);
  }

  daemon_process daemon_{folder_, "dram"};
};

TEST_F(pool_replaced, a_get_after_the_daemon_was_killed_has_the_new_daemons_bytes_or_none) {
  daemon_.start();
  for (uint32_t life = 1; life <= 5; life++) {
    connection reader{daemon_.url(), way::shared_memory};
    {
      connection writer{daemon_.url(), way::shared_memory};
      ASSERT_EQ(put(writer, "a", pattern(20'000, life)), TND_OK);
      ASSERT_EQ(put(writer, "b", pattern(20'000, life)), TND_OK);
    }
    remember(reader, "a", pattern(20'000, life));
    remember(reader, "b", pattern(20'000, life));
    daemon_.end(SIGKILL);
    daemon_.start();
    {
      connection writer{daemon_.url(), way::shared_memory};
      ASSERT_EQ(put(writer, "a", pattern(30'000, 100 + life)), TND_OK);
    }
    EXPECT_EQ(get_code(reader, "a"), -TND_EPEER);
    EXPECT_NE(std::string{tnd_last_message()}.find("the connection has ended"), std::string::npos)
        << tnd_last_message();
    EXPECT_EQ(get(reader, "a"), pattern(30'000, 100 + life));
    EXPECT_EQ(get_code(reader, "b"), -ENOENT);
  }
}

TEST_F(pool_replaced, a_get_without_a_daemon_fails) {
  daemon_.start();
  connection reader{daemon_.url(), way::shared_memory};
  ASSERT_EQ(put(reader, "a", pattern(20'000, 1)), TND_OK);
  remember(reader, "a", pattern(20'000, 1));
  daemon_.end(SIGKILL);
  for (int i = 0; i < 3; i++)
    EXPECT_EQ(get_code(reader, "a"), -TND_EPEER);
  daemon_.start();
  EXPECT_EQ(get_code(reader, "a"), -ENOENT);
}

constexpr uint32_t killed_name_count = 20;

// A process that puts and gets small objects through its ring until it is killed. It writes a byte
// to `ready` once each name has an object.
pid_t start_client(const std::string &url, int ready) {
  pid_t const process = fork();
  if (process != 0)
    return process;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  tnd_pool *pool = nullptr;
  if (tnd_pool_connect(url.c_str(), nullptr, &pool) != TND_OK)
    _exit(1);
  for (uint32_t i = 0;; i++) {
    auto const bytes = contents("killed", i);
    uint64_t size = 0;
    std::vector<char> target(1 << 20);
    std::string const name = "killed" + std::to_string(i % killed_name_count);
    if (put(pool, name, bytes) != TND_OK ||
        tnd_pool_get(pool, name.c_str(), target.data(), target.size(), &size, TND_POOL_VERIFY) !=
            TND_OK)
      _exit(2);
    if (i == killed_name_count - 1 && write(ready, "", 1) != 1)
      _exit(3);
  }
}

uint64_t client_count(tnd_pool *pool) {
  tnd_pool_statistics all{};
  all.struct_size = sizeof all;
  EXPECT_EQ(tnd_pool_get_statistics(pool, &all), TND_OK);
  return all.client_count;
}

void expect_empty(tnd_pool *pool) {
  tnd_pool_statistics all{};
  all.struct_size = sizeof all;
  EXPECT_EQ(tnd_pool_get_statistics(pool, &all), TND_OK);
  EXPECT_EQ(all.used, 0u);
  EXPECT_EQ(all.object_count, 0u);
}

TEST_F(pool_replaced, clients_that_are_killed_amid_requests_in_their_rings_leave_whole_objects) {
  daemon_.start();
  for (int life = 0; life < 20; life++) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t const process = start_client(daemon_.url(), ready[1]);
    close(ready[1]);
    if (life == 0) {  // on a slow machine no client may get that far in its time
      char byte = 0;
      ASSERT_EQ(read(ready[0], &byte, 1), 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{50 + life * 7});
    ASSERT_EQ(waitpid(process, nullptr, WNOHANG), 0) << "the client has ended on its own";
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    close(ready[0]);
  }
  ASSERT_TRUE(daemon_.is_alive());
  connection pool{daemon_.url(), way::shared_memory};
  ASSERT_EQ(pool.code, TND_OK);
  for (int i = 0; i < 1000 && client_count(pool) > 1; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  EXPECT_EQ(client_count(pool), 1u);
  for (uint32_t i = 0; i < killed_name_count; i++) {
    std::string const name = "killed" + std::to_string(i);
    std::vector<char> const bytes = get(pool, name);
    uint64_t number = 0;
    ASSERT_GE(bytes.size(), sizeof number) << name;
    std::memcpy(&number, bytes.data(), sizeof number);
    EXPECT_EQ(bytes, contents("killed", number)) << name;
    EXPECT_EQ(tnd_pool_remove(pool, name.c_str(), 0), TND_OK);
  }
  // The connection itself caches objects that it has read.
  connection next{daemon_.url(), way::tcp};
  tnd_pool_disconnect(std::exchange(pool.pool, nullptr));
  for (int i = 0; i < 1000 && client_count(next) > 1; i++)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  expect_empty(next);
}

std::string backing_name(const testing::TestParamInfo<const char *> &which) {
  return which.param;
}
INSTANTIATE_TEST_SUITE_P(backings, pool_crash, testing::Values("flash", "file"), backing_name);

}  // namespace
}  // namespace tanada::test
