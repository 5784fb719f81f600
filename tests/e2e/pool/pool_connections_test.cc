// The cost of connections, the limit on their open objects, the daemon to which they lead, and
// their counters.
#include <malloc.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "e2e/pool/pool_fixture.hpp"
#include "e2e/pool/raw_client.hpp"

namespace tanada::test {
namespace {

using namespace wire::pool;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool has_own_heap = false;
#else
constexpr bool has_own_heap = true;
#endif

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

size_t heap_size() {
  auto const all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

TEST(pool_connections, an_idle_one_costs_a_few_kilobytes) {
  if (!has_own_heap)
    GTEST_SKIP() << "a sanitizer has a heap of its own";
  raise_descriptor_limit();
  constexpr size_t count = 500, size_max = 12 << 10;
  auto const daemon = started(small_pool());
  std::vector<std::unique_ptr<raw_client>> crowd;
  crowd.reserve(count);
  raw_client first{daemon->port()};
  ASSERT_EQ(first.greet("test"), status::ok);
  size_t const before = heap_size();
  for (size_t i = 0; i < count; i++) {
    crowd.push_back(std::make_unique<raw_client>(daemon->port(), i % 2 == 0));
    ASSERT_EQ(crowd.back()->greet("test"), status::ok);
    ASSERT_EQ(crowd.back()->ask(kind::statistics, empty_message{}), status::ok);
  }
  EXPECT_LE((heap_size() - before) / count, size_max);
}

TEST(pool_connections, what_a_busy_one_needed_is_given_back) {
  if (!has_own_heap)
    GTEST_SKIP() << "a sanitizer has a heap of its own";
  constexpr size_t count = 50;
  auto const daemon = started(small_pool());
  std::vector<std::unique_ptr<raw_client>> crowd;
  for (size_t i = 0; i < count; i++) {
    crowd.push_back(std::make_unique<raw_client>(daemon->port()));
    ASSERT_EQ(crowd.back()->greet("test"), status::ok);
  }
  size_t const before = heap_size();
  for (auto &client : crowd) {
    ASSERT_EQ(client->ask(kind::put, put_request{"a", {}}, std::string(200'000, 'x')), status::ok);
  }
  for (int i = 0; i < 600 && heap_size() > before + count * (8 << 10); i++)
    usleep(50'000);
  EXPECT_LE(heap_size(), before + count * (8 << 10));
  for (auto &client : crowd)
    EXPECT_EQ(client->ask(kind::get, get_request{"a", 300'000}), status::ok);
}

// Frames that do not fit into an idle connection's buffer, one after the other and in pieces.
TEST(pool_connections, requests_of_all_sizes_are_taken) {
  auto const daemon = started(small_pool());
  connection owner{url_of(*daemon), true};
  for (size_t const range_count : {1, 200, 254, 255, 256, 257, 300, 2048}) {
    raw_client client{daemon->port()};
    ASSERT_EQ(client.greet("test"), status::ok);
    create_request create;
    create.name = "ranges";
    create.size = 4096;
    ASSERT_EQ(client.ask(kind::create, create), status::ok);
    object_reply made;
    ASSERT_EQ(wire::decode(client.answer.body, made), status::ok);
    ranges_request write{made.handle, {}};
    for (size_t i = 0; i < range_count; i++)
      write.ranges.push_back({i, 1});
    std::string const bytes(range_count, 'r');
    auto const head = encode_frame(
        {.kind = uint16_t(kind::write), .code = 0, .tag = 1, .data_size = bytes.size()}, write);
    ASSERT_TRUE(client.send(head.data(), head.size() / 2));
    usleep(2000);
    ASSERT_TRUE(client.send(head.data() + head.size() / 2, head.size() - head.size() / 2));
    ASSERT_TRUE(client.send(bytes.data(), bytes.size()));
    raw_client::frame in;
    ASSERT_TRUE(client.receive(in)) << range_count;
    EXPECT_EQ(in.head.code, 0) << range_count;
    ASSERT_EQ(client.ask(kind::commit, commit_request{made.handle, {}}), status::ok);
    auto const read = get(owner, "ranges");
    EXPECT_EQ(std::count(read.begin(), read.end(), 'r'), long(range_count));
  }
}

class pool_handles : public testing::TestWithParam<way> {};
INSTANTIATE_TEST_SUITE_P(, pool_handles, all_ways(), way_name);

// Only objects that the caller has open count: puts and gets still work.
TEST_P(pool_handles, all_of_them_in_use_leave_puts_and_gets_alone) {
  auto const daemon = started(small_pool(GetParam()));
  connection client{url_of(*daemon), GetParam()};
  for (char const name : {'a', 'b', 'c'})
    ASSERT_EQ(put(client, {name}, pattern(100'000, 1)), TND_OK);
  for (char const name : {'a', 'b', 'c'})
    (void)get(client, {name});  // which this library's cache keeps open
  std::vector<std::unique_ptr<handle>> open;
  tnd_status code = TND_OK;
  while (code == TND_OK) {
    open.push_back(std::make_unique<handle>());
    code = tnd_pool_open(client, "a", 0, &*open.back());
  }
  EXPECT_EQ(code, -EMFILE);
  EXPECT_NE(std::string(tnd_last_message()).find("4096 objects open"), std::string::npos)
      << tnd_last_message();
  EXPECT_EQ(open.size(), 4097u);
  for (size_t const size : {100, 100'000, 1'000'000}) {
    EXPECT_EQ(put(client, "new", pattern(size, 2)), TND_OK) << tnd_last_message();
    EXPECT_EQ(get(client, "new"), pattern(size, 2));
  }
}

TEST(pool_ranges, a_buffer_that_is_too_small_is_told_with_both_sizes) {
  auto const daemon = started(small_pool());
  for (way const by : {way::shared_memory, way::tcp}) {
    connection client{url_of(*daemon), by};
    ASSERT_EQ(put(client, "a", pattern(1000, 1)), TND_OK);
    char bytes[100];
    uint64_t size = 0;
    for (int round = 0; round < 2; round++) {  // the second one from this library's cache
      get(client, "none", -ENOENT);
      EXPECT_EQ(tnd_pool_get(client, "a", bytes, sizeof bytes, &size, 0), -ERANGE);
      EXPECT_NE(std::string(tnd_last_message())
                    .find("/test/a: the object has 1000 bytes, the buffer 100"),
                std::string::npos)
          << tnd_last_message();
      std::vector<char> whole = get(client, "a");
      EXPECT_EQ(whole.size(), 1000u);
    }
    handle object;
    ASSERT_EQ(tnd_pool_open(client, "a", 0, &object), TND_OK);
    get(client, "none", -ENOENT);
    tnd_pool_box const box{
        .offset = 950, .size = 100, .count = {1, 1}, .object_stride = {}, .memory_stride = {}};
    EXPECT_EQ(tnd_pool_read_box(object, &box, bytes, TND_POOL_MEMORY_HOST), -ERANGE);
    EXPECT_NE(std::string(tnd_last_message())
                  .find("/test/a: the object has 1000 bytes, the read ends at 1050"),
              std::string::npos)
        << tnd_last_message();
  }
}

// Forwards bytes between a port of this node and a daemon's, as an ssh tunnel does.
class tunnel {
 public:
  explicit tunnel(uint16_t target) : target_{target} {
    auto made = backends::tcp_listen("127.0.0.1", 0);
    EXPECT_TRUE(made.ok());
    door_ = std::move(made).value();
    thread_ = std::thread{[this] {
      run();
    }};
  }
  ~tunnel() {
    ending_ = true;
    thread_.join();
  }
  uint16_t port() const {
    return door_.port();
  }

 private:
  using end = std::unique_ptr<seams::stream>;
  void run() {
    std::vector<std::pair<end, end>> links;
    while (!ending_) {
      usleep(500);
      if (auto client = door_.accept(); client.ok()) {
        auto server = backends::tcp_connect("127.0.0.1", target_, raw_client::soon());
        if (server.ok())
          links.emplace_back(std::move(client).value(), std::move(server).value());
      }
      for (auto &[left, right] : links) {
        if (left == nullptr || (pass(*left, *right) && pass(*right, *left)))
          continue;
        left.reset();
        right.reset();
      }
    }
  }
  static bool pass(seams::stream &from, seams::stream &to) {
    char bytes[65536];
    iovec const room{bytes, sizeof bytes};
    auto size = from.receive({&room, 1});
    if (!size.ok())
      return size.error() == status::again;
    for (size_t sent = 0; sent < size.value();) {
      iovec const part{bytes + sent, size.value() - sent};
      auto count = to.send({&part, 1});
      if (count.ok())
        sent += count.value();
      else if (count.error() != status::again)
        return false;
    }
    return true;
  }

  uint16_t const target_;
  backends::listener door_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

// The socket of this node's daemon has the number of the port that leads to another node.
TEST(pool_ways, a_forwarded_port_leads_into_the_pool_behind_it) {
  auto const distant = started(small_pool());
  tunnel const forwarded{distant->port()};
  auto options = small_pool();
  options.listen = "127.0.0.2";
  options.port = forwarded.port();
  auto const of_node = started(options);
  ASSERT_NE(of_node, nullptr);
  connection there{url_of(*distant), true};
  ASSERT_EQ(put(there, "whose", {'d'}), TND_OK);
  connection client{"pool://127.0.0.1:" + std::to_string(forwarded.port()) + "/test", true};
  ASSERT_EQ(client.code, TND_OK) << tnd_last_message();
  EXPECT_EQ(get(client, "whose"), std::vector<char>{'d'});
  tnd_pool_connection link{};
  link.struct_size = sizeof link;
  ASSERT_EQ(tnd_pool_get_connection(client, &link), TND_OK);
  EXPECT_EQ(link.path, uint32_t(TND_POOL_PATH_TCP));
  EXPECT_NE(std::string(link.reason).find("leads to another pool"), std::string::npos)
      << link.reason;
}

TEST(pool_ways, a_daemon_is_identified_once_and_before_the_hello) {
  auto const daemon = started(small_pool());
  raw_client client{daemon->port()};
  ASSERT_EQ(client.ask(kind::identify, empty_message{}), status::ok);
  EXPECT_EQ(client.ask(kind::identify, empty_message{}), status::peer_lost);
  raw_client late{daemon->port()};
  ASSERT_EQ(late.greet("test"), status::ok);
  EXPECT_EQ(late.ask(kind::identify, empty_message{}), status::peer_lost);
}

TEST(pool_errors, each_is_counted_by_its_status) {
  auto options = small_pool();
  options.quotas = {{"test", 1 << 20}};
  auto const daemon = started(options);
  connection client{url_of(*daemon), true};
  auto const counts = [&] {
    auto const all = daemon->report().errors_by_status;
    return std::map<std::string, uint64_t>(all.begin(), all.end());
  };
  ASSERT_EQ(put(client, "a", pattern(1000, 1)), TND_OK);
  get(client, "none", -ENOENT);
  EXPECT_EQ(tnd_pool_remove(client, "none", 0), -ENOENT);
  EXPECT_EQ(put(client, "a", pattern(1000, 1), TND_POOL_EXCLUSIVE), -EEXIST);
  EXPECT_EQ(put(client, "b", pattern(2 << 20, 1)), -ENOSPC);
  EXPECT_EQ(put(client, "b", pattern(10, 1), TND_POOL_DURABLE), -EOPNOTSUPP);
  raw_client rubbish{daemon->port()};
  EXPECT_EQ(rubbish.ask(kind::get, get_request{"a", 100}), status::peer_lost);
  auto const counted = counts();
  EXPECT_EQ(counted.at("ENOENT"), 2u);
  EXPECT_EQ(counted.at("EEXIST"), 1u);
  EXPECT_EQ(counted.at("ENOSPC"), 1u);
  EXPECT_EQ(counted.at("EOPNOTSUPP"), 1u);
  EXPECT_EQ(counted.at("EPROTO"), 1u);
  EXPECT_EQ(daemon->report().errors, 6u);
  EXPECT_EQ(daemon->report().refused, 1u);
  tnd_pool_statistics all{};
  all.struct_size = sizeof all;
  ASSERT_EQ(tnd_pool_get_statistics(client, &all), TND_OK);
  EXPECT_EQ(all.errors, 6u);
}

}  // namespace
}  // namespace tanada::test
