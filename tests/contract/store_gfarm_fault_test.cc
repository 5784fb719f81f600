// When a Gfarm server dies, operations that need it fail within seconds, and all others continue.
// Every test but the first kills a server of the fixture, hence their order: first a gfsd, then
// gfmd.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "contract/store_gfarm_subject.hpp"

namespace tanada::contract {
namespace {

constexpr size_t file_size = 8 << 20;
constexpr size_t read_size = 256 << 10;
constexpr uint64_t patience_ns = 60'000'000'000;  // also on a loaded machine

// The process groups that an environment variable such as "12,34" lists.
std::vector<pid_t> groups(const char *variable) {
  std::vector<pid_t> found;
  const char *const text = std::getenv(variable);
  for (const char *at = text; at != nullptr && *at != '\0';) {
    char *end = nullptr;
    found.push_back(pid_t(std::strtol(at, &end, 10)));
    at = *end == ',' ? end + 1 : end;
  }
  return found;
}

// Creates a Gfarm file whose only replica is on `host`.
void put(const std::string &name, const std::string &host) {
  std::string const local = testing::TempDir() + "tanada-gfarm-fault-" + std::to_string(getpid());
  std::ofstream{local, std::ios::binary} << store_pattern(file_size, 5);
  std::string const command = "gfreg -h " + host + " " + local + " " + name;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::remove(local.c_str());
}

// Reads at scattered offsets while `more` returns true. Returns the first status that is not ok.
status read_while(store_driver &driver, seams::store_file file, const std::function<bool()> &more) {
  std::string const expected = store_pattern(file_size, 5);
  std::string text(read_size, '?');
  for (uint64_t i = 0; more(); i++) {
    uint64_t const offset = i * 7919 * 4096 % (file_size - read_size);
    auto const done = driver.transfer(seams::store_op_kind::read,
                                      file,
                                      offset,
                                      {{reinterpret_cast<std::byte *>(text.data()), read_size}});
    if (done.code != status::ok)
      return done.code;
    EXPECT_EQ(done.size, read_size);
    EXPECT_EQ(text, expected.substr(offset, read_size));
  }
  return status::ok;
}

// Shuts down this process's connections to gfmd, and returns their number.
int cut_connections() {
  std::string const server = std::getenv("TND_TEST_GFMD");
  int const port = std::atoi(server.c_str() + server.rfind(':') + 1);
  int count = 0;
  for (auto const &each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    int const descriptor = std::atoi(each.path().filename().c_str());
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    bool const is_there =
        getpeername(descriptor, reinterpret_cast<sockaddr *>(&peer), &size) == 0 &&
        peer.sin_family == AF_INET;
    if (is_there && ntohs(peer.sin_port) == port && shutdown(descriptor, SHUT_RDWR) == 0)
      count++;
  }
  return count;
}

// gfmd forgets the open files of a client whose connection ends. The store opens all of them again,
// while another thread reads.
TEST(store_gfarm_fault, a_lost_connection_to_gfmd_is_made_again) {
  put("/read_on", "127.0.0.1");
  gfarm_subject subject;
  store_driver reader{subject}, writer{subject};
  auto const read = reader.must_open("gfarm:///read_on", store_read_only);
  auto const written = writer.must_open("gfarm:///written_on", store_make);
  std::string const text = store_pattern(read_size, 9);
  std::atomic<bool> over{false};
  std::thread other{[&] {
    EXPECT_EQ(read_while(reader, read, [&] { return !over.load(); }), status::ok);
  }};
  for (uint64_t i = 0; i < 5; i++) {
    EXPECT_EQ(writer.write(written, i * read_size, text).code, status::ok);
    EXPECT_GT(cut_connections(), 0);
    EXPECT_EQ(writer.on_file(seams::store_op_kind::sync, written).code, status::ok)
        << "round " << i;
    auto const again = writer.open("gfarm:///read_on", store_read_only);
    EXPECT_EQ(again.code, status::ok);
    EXPECT_EQ(writer.close(again.file).code, status::ok);
  }
  over = true;
  other.join();
  EXPECT_EQ(writer.close(written).code, status::ok);
  EXPECT_EQ(reader.close(read).code, status::ok);
  auto const seen = writer.must_open("gfarm:///written_on", store_read_only);
  for (uint64_t i = 0; i < 5; i++)
    EXPECT_EQ(writer.read(seen, i * read_size, read_size), text);
  EXPECT_EQ(writer.close(seen).code, status::ok);
}

TEST(store_gfarm_fault, a_dead_gfsd_fails_its_files_and_no_others) {
  auto const servers = groups("TND_TEST_GFSD_PIDS");
  ASSERT_EQ(servers.size(), 2u);
  put("/on_first", "127.0.0.1");
  put("/on_second", "127.0.0.2");
  gfarm_subject subject;
  store_driver lasting{subject}, doomed{subject};
  auto const first = lasting.must_open("gfarm:///on_first", store_read_only);
  auto const second = doomed.must_open("gfarm:///on_second", store_read_only);
  EXPECT_EQ(read_while(doomed, second, [i = 0]() mutable { return i++ < 4; }), status::ok);

  std::atomic<bool> over{false};
  std::atomic<uint32_t> read_count{0};
  std::thread other{[&] {
    EXPECT_EQ(read_while(lasting,
                         first,
                         [&] {
                           ++read_count;
                           return !over;
                         }),
              status::ok);
  }};
  uint64_t killed_ns = 0;
  auto const code = read_while(doomed, second, [&, i = 0]() mutable {
    if (i++ == 4) {
      EXPECT_EQ(kill(-servers[1], SIGKILL), 0);
      killed_ns = seams::monotonic_clock().now_ns();
    }
    return killed_ns == 0 || seams::monotonic_clock().now_ns() < killed_ns + patience_ns;
  });
  EXPECT_NE(code, status::ok);
  EXPECT_LT(seams::monotonic_clock().now_ns() - killed_ns, patience_ns);
  uint32_t const before = read_count;
  std::this_thread::sleep_for(std::chrono::milliseconds{300});
  EXPECT_GT(read_count, before);
  over = true;
  other.join();
  (void)doomed.close(second);  // any status: the call must return
  EXPECT_EQ(lasting.close(first).code, status::ok);
}

TEST(store_gfarm_fault, a_dead_gfmd_fails_opens) {
  auto const servers = groups("TND_TEST_GFMD_PID");
  ASSERT_EQ(servers.size(), 1u);
  gfarm_subject subject;
  store_driver driver{subject};
  EXPECT_EQ(driver.open("gfarm:///nothing", store_read_only).code, status::no_entry);
  ASSERT_EQ(kill(-servers[0], SIGKILL), 0);
  for (int i = 0; i < 2; i++) {
    uint64_t const begin_ns = seams::monotonic_clock().now_ns();
    auto const opened = driver.open("gfarm:///nothing", store_read_only);
    EXPECT_NE(opened.code, status::ok);
    EXPECT_NE(opened.code, status::no_entry);
    EXPECT_LT(seams::monotonic_clock().now_ns() - begin_ns, patience_ns);
  }
}

}  // namespace
}  // namespace tanada::contract
