// A daemon and clients in processes of their own, over a fabric: every size arrives, and either
// side may be killed during a transfer.
#include <atomic>
#include <cstring>

#include "e2e/pool/daemon_process.hpp"
#include "e2e/pool/pool_fixture.hpp"
#include "sim/world.hpp"

namespace tanada::test {
namespace {

using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t call_limit_ns = 20'000'000'000;
constexpr uint64_t large_limit_ns =
    300'000'000'000;  // Soft-RoCE under an emulated processor moves some 10 MB/s
constexpr const char *url_variable = "TND_TEST_URL";

// Bytes of the largest object, and of those that are transferred repeatedly.
uint64_t size_max() {
  return from_environment("TND_TEST_SIZE_MAX_MIB", uint64_t{64}) << 20;
}
uint64_t usual_size() {
  return size_max() / 8;
}

std::vector<char> words(size_t size, uint64_t seed) {
  std::vector<char> bytes(size);
  for (size_t at = 0; at < size; at += sizeof seed) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(bytes.data() + at, &seed, std::min(sizeof seed, size - at));
  }
  return bytes;
}

struct fabric_client {
  tnd_pool *pool = nullptr;
  tnd_status code = TND_OK;
  explicit fabric_client(const std::string &url, uint64_t limit_ns = call_limit_ns) {
    tnd_pool_config config = TND_POOL_CONFIG_INIT;
    config.shared_memory = 0;
    config.timeout_ns = limit_ns;
    config.fabric = test_fabric;
    code = tnd_pool_connect(url.c_str(), &config, &pool);
  }
  fabric_client(const fabric_client &) = delete;
  fabric_client &operator=(const fabric_client &) = delete;
  ~fabric_client() {
    tnd_pool_disconnect(pool);
  }
  operator tnd_pool *() const {
    return pool;
  }

  tnd_pool_connection about() const {
    tnd_pool_connection what{};
    what.struct_size = sizeof what;
    EXPECT_EQ(tnd_pool_get_connection(pool, &what), TND_OK);
    return what;
  }
  uint64_t used() const {
    tnd_pool_statistics all{};
    all.struct_size = sizeof all;
    EXPECT_EQ(tnd_pool_get_statistics(pool, &all), TND_OK);
    return all.used;
  }
};

// A client that transfers objects until it is killed.
class busy_process {
 public:
  explicit busy_process(const std::string &url) {
    pid_ = fork();
    if (pid_ != 0)
      return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv(url_variable, url.c_str(), 1);
    execl("/proc/self/exe",
          "pool_over_fabric",
          "--gtest_also_run_disabled_tests",
          "--gtest_filter=*DISABLED_moves_until_it_is_killed",
          static_cast<char *>(nullptr));
    _exit(127);
  }
  ~busy_process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  bool is_running() const {
    return waitpid(pid_, nullptr, WNOHANG) == 0;
  }

 private:
  pid_t pid_;
};

class pool_over_fabric : public testing::Test {
 protected:
  pool_over_fabric() {
    std::filesystem::create_directories(folder_);
  }
  ~pool_over_fabric() override {
    std::filesystem::remove_all(folder_);
  }

  void SetUp() override {
    daemon_.start();
  }

  // Puts and gets one object; the connection reports its path.
  void round_trip(const fabric_client &client, uint64_t size) {
    auto const source = words(size, size);
    ASSERT_EQ(put(client, "object", source, 0), TND_OK) << size << " bytes";
    std::vector<char> target(size);
    uint64_t found = 0;
    ASSERT_EQ(tnd_pool_get(client, "object", target.data(), size, &found, 0), TND_OK)
        << size << " bytes";
    EXPECT_EQ(found, size);
    EXPECT_TRUE(target == source) << size << " bytes";  // not EXPECT_EQ, which would print them
  }

  std::string const folder_ = testing::TempDir() + "tanada_over_fabric_" + std::to_string(getpid());
  daemon_process daemon_{folder_,
                         {"--size",
                          std::to_string(3 * (size_max() >> 20)) + "MiB",
                          "--no-prefault",
                          "--segment-size",
                          "16MiB",
                          "--fabric",
                          test_fabric,
                          "--fabric-node",
                          test_fabric_node}};
};

TEST_F(pool_over_fabric, every_size_arrives) {
  fabric_client const client{daemon_.url(), large_limit_ns};
  ASSERT_EQ(client.code, TND_OK) << tnd_last_message();
  auto const about = client.about();
  bool const is_rdma = test_fabric_is_rdma();
  EXPECT_EQ(about.path, uint32_t(is_rdma ? TND_POOL_PATH_RDMA : TND_POOL_PATH_FABRIC));
  EXPECT_STREQ(about.reason, is_rdma ? "" : "tcp;ofi_rxm copies in software") << daemon_.said();
  for (uint64_t size = 4096; size <= size_max(); size *= 4) {
    auto const begin = clock::now();
    round_trip(client, size);
    std::printf("%llu bytes put and got in %lld ms\n",
                static_cast<unsigned long long>(size),
                static_cast<long long>(
                    std::chrono::duration_cast<milliseconds>(clock::now() - begin).count()));
  }
  round_trip(client, (1 << 20) + 1);
}

TEST_F(pool_over_fabric, a_daemon_killed_in_the_middle_is_told_in_time_and_found_again) {
  fabric_client const client{daemon_.url()};
  ASSERT_EQ(client.code, TND_OK) << tnd_last_message();
  auto const source = words(usual_size(), 7);
  auto target = source;
  sim::prng random{1};
  for (int round = 0; round < 4; round++) {
    bool const is_put = round % 2 == 0;
    auto const move = [&] {
      uint64_t found = 0;
      return is_put ? put(client, "object", source, 0)
                    : tnd_pool_get(client, "object", target.data(), target.size(), &found, 0);
    };
    ASSERT_EQ(put(client, "object", source, 0), TND_OK) << tnd_last_message();
    auto before = clock::now();
    ASSERT_EQ(move(), TND_OK) << tnd_last_message();
    auto const delay = (clock::now() - before) / 100 * (10 + random.below(80));
    std::thread killer{[&] {
      std::this_thread::sleep_for(delay);
      daemon_.end(SIGKILL);
    }};
    tnd_status code = TND_OK;
    while (code == TND_OK) {
      before = clock::now();
      code = move();
    }
    EXPECT_LT(clock::now() - before,
              std::chrono::nanoseconds{call_limit_ns} + std::chrono::seconds{1});
    killer.join();
    EXPECT_EQ(code, -TND_EPEER);
    daemon_.start();
  }
  round_trip(client, usual_size());
}

TEST_F(pool_over_fabric, a_client_killed_in_the_middle_leaves_nothing) {
  fabric_client const client{daemon_.url()};
  ASSERT_EQ(client.code, TND_OK) << tnd_last_message();
  round_trip(client, 1 << 20);
  uint64_t const before = client.used();
  sim::prng random{2};
  for (int round = 0; round < 4; round++) {
    {
      busy_process const one{daemon_.url()};
      tnd_pool_info info;
      auto const limit = clock::now() + std::chrono::seconds{60};
      while (tnd_pool_stat(client, "moving", 0, &info) != TND_OK) {
        ASSERT_LT(clock::now(), limit) << daemon_.said();
        ASSERT_TRUE(one.is_running()) << daemon_.said();
        std::this_thread::sleep_for(milliseconds{10});
      }
      std::this_thread::sleep_for(milliseconds{random.below(300)});
    }
    round_trip(client, 4 << 20);  // the daemon continues immediately
    ASSERT_EQ(tnd_pool_remove(client, "moving", 0), TND_OK);
    (void)tnd_pool_remove(client, "moved", 0);
    ASSERT_EQ(put(client, "object", words(1 << 20, 1), 0), TND_OK);
    auto const limit = clock::now() + std::chrono::seconds{30};
    while (client.used() > before && clock::now() < limit)
      std::this_thread::sleep_for(milliseconds{20});
    EXPECT_EQ(client.used(), before) << daemon_.said();
  }
}

// The other process of the test above.
TEST(pool_over_fabric_client, DISABLED_moves_until_it_is_killed) {
  const char *const url = std::getenv(url_variable);
  if (url == nullptr)
    GTEST_SKIP() << "no daemon is named";
  fabric_client const client{url};
  ASSERT_EQ(client.code, TND_OK) << tnd_last_message();
  auto const source = words(usual_size(), 3);
  std::vector<char> target(source.size());
  ASSERT_EQ(put(client, "moving", source, 0), TND_OK) << tnd_last_message();
  for (;;) {
    uint64_t found = 0;
    ASSERT_EQ(tnd_pool_get(client, "moving", target.data(), target.size(), &found, 0), TND_OK)
        << tnd_last_message();
    ASSERT_EQ(put(client, "moved", source, 0), TND_OK) << tnd_last_message();
  }
}

}  // namespace
}  // namespace tanada::test
