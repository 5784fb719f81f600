// The coordinator contract on a real etcd, which tests/fixtures/etcd.py runs, and what only a real
// cluster shows: members that fail, credentials that are wrong.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/etcd/etcd_coordinator.hpp"
#include "backends/etcd/etcd_members.hpp"
#include "contract/coordinator_contract.hpp"

namespace tanada::contract {
namespace {

std::string setting(const char *name) {
  const char *const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

backends::etcd_options cluster_options() {
  auto const url = backends::etcd_url_parse(setting("TND_TEST_ETCD"));
  EXPECT_TRUE(url.ok()) << "run it by: python3 tests/fixtures/etcd.py run -- ...";
  backends::etcd_options options;
  if (!url.ok())
    return options;
  options.endpoints = url.value().endpoints;
  options.uses_tls = url.value().uses_tls;
  if (options.uses_tls) {
    std::string const folder = setting("TND_TEST_ETCD_FOLDER");
    options.ca_file = folder + "/ca.pem";
    options.certificate_file = folder + "/client.pem";
    options.key_file = folder + "/client.key";
    options.user = "root";
    options.password = setting("TND_TEST_ETCD_PASSWORD");
  }
  return options;
}

std::unique_ptr<seams::coordinator> open_client(const backends::etcd_options &options) {
  auto created = backends::etcd_coordinator_create(options);
  EXPECT_TRUE(created.ok());
  return created.ok() ? std::move(created).value() : nullptr;
}

std::vector<pid_t> member_pids() {
  std::ifstream file{setting("TND_TEST_ETCD_PIDS")};
  std::vector<pid_t> pids;
  for (pid_t pid = 0; file >> pid;)
    pids.push_back(pid);
  EXPECT_FALSE(pids.empty());
  return pids;
}

class etcd_subject final : public coordinator_subject {
 public:
  ~etcd_subject() override {
    signal_members(SIGCONT);
  }
  std::unique_ptr<seams::coordinator> open() override {
    return open_client(cluster_options());
  }
  void restart() override {
    signal_members(SIGKILL);
  }
  void compact() override {
    auto const members = backends::etcd_members::create(cluster_options());
    ASSERT_TRUE(members.ok());
    backends::etcd_interrupt const interrupt;
    uint64_t const deadline_ns = time().now_ns() + 10'000'000'000;
    auto const answer = members.value()->call(backends::read_call("none"), deadline_ns, interrupt);
    ASSERT_TRUE(answer.ok());
    auto const range = backends::decode_range(answer.value());
    ASSERT_TRUE(range.ok());
    std::string const body =
        "{\"revision\":\"" + std::to_string(range.value().store_revision) + "\"}";
    auto const compacted =
        members.value()->call({"/v3/kv/compaction", body, true}, deadline_ns, interrupt);
    EXPECT_TRUE(compacted.ok());
  }
  void set_frozen(seams::coordinator &, bool is_frozen) override {
    signal_members(is_frozen ? SIGSTOP : SIGCONT);
    for (pid_t const pid : member_pids())
      wait_until_stopped(pid, is_frozen);
  }

 private:
  // A signal stops the threads of a process one after the other.
  static void wait_until_stopped(pid_t pid, bool is_stopped) {
    auto const is_reached = [&] {
      std::filesystem::directory_iterator const tasks{"/proc/" + std::to_string(pid) + "/task"};
      return std::ranges::all_of(tasks, [&](const auto &task) {
        std::ifstream file{task.path() / "stat"};
        std::string number, name, state;
        file >> number >> name >> state;
        return (state == "T") == is_stopped;
      });
    };
    for (int i = 0; i < 1'000 && !is_reached(); i++)
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    EXPECT_TRUE(is_reached());
  }
  static void signal_members(int number) {
    for (pid_t const pid : member_pids())
      ::kill(pid, number);
  }
};

std::vector<coordinator_case> const cases{{"etcd", [] {
                                             return std::make_unique<etcd_subject>();
                                           }}};

INSTANTIATE_TEST_SUITE_P(etcd,
                         coordinator_contract,
                         testing::ValuesIn(cases),
                         [](const auto &tested) { return tested.param.name; });

class etcd_cluster_test : public testing::Test {
 protected:
  etcd_subject subject_;
  coordinator_driver driver_{subject_};

  // A client with other options, driven by hand.
  status read_status(seams::coordinator &client) {
    std::optional<status> code;
    client.read("none", [&](const auto &range) { code = range.error(); });
    for (int i = 0; i < 100 && !code; i++) {
      (void)client.wait(subject_.time().now_ns() + 100'000'000);
      client.progress();
    }
    return code.value_or(status::bad_state);
  }
};

TEST_F(etcd_cluster_test, an_endpoint_that_refuses_is_skipped) {
  auto options = cluster_options();
  options.endpoints.insert(options.endpoints.begin(), {"127.0.0.1", 1});
  auto const client = open_client(options);
  EXPECT_EQ(read_status(*client), status::ok);
}

TEST_F(etcd_cluster_test, a_cluster_whose_endpoints_all_refuse_is_lost) {
  auto options = cluster_options();
  options.endpoints = {{"127.0.0.1", 1}, {"127.0.0.1", 2}};
  auto const client = open_client(options);
  EXPECT_EQ(read_status(*client), status::peer_lost);
}

TEST_F(etcd_cluster_test, a_watch_goes_on_at_another_member) {
  if (member_pids().size() < 3)
    GTEST_SKIP() << "one member";
  auto &writer = driver_.client(), &observer = driver_.client();
  uint64_t revision = driver_.put(writer, "cluster/a", "1").value().store_revision;
  auto const *record = &driver_.watch(observer, "cluster/", revision);
  ASSERT_TRUE(driver_.put(writer, "cluster/a", "2").ok());
  ASSERT_TRUE(driver_.until([&] { return record->events.size() == 1; }));
  pid_t const first = member_pids().front();
  ::kill(first, SIGSTOP);
  // The watch was at the first member. It is silent like a watch without changes.
  EXPECT_TRUE(driver_.until([&] { return record->end.has_value(); }, 12 * driver_.second_ns));
  record = &driver_.watch(observer, "cluster/", revision);
  EXPECT_TRUE(driver_.until([&] { return driver_.put(writer, "cluster/a", "3").ok(); }));
  EXPECT_TRUE(driver_.until([&] { return record->events.size() >= 2; }));
  ::kill(first, SIGCONT);
}

TEST_F(etcd_cluster_test, a_slow_request_does_not_delay_a_renewal) {
  auto &client = driver_.client();
  auto const lease = driver_.grant(client, 5);
  ASSERT_TRUE(lease.ok());
  uint32_t put_count = 0;
  for (int i = 0; i < 20; i++)
    client.transact({},
                    {{seams::transaction_change::kind::put, "slow", std::string(1 << 20, 'v')}},
                    [&](const auto &) { put_count++; });
  EXPECT_EQ(driver_.renew(client, lease.value()), status::ok);
  EXPECT_LT(put_count, 20u);
}

// gRPC limits messages to 4 MiB unless it is configured otherwise.
TEST_F(etcd_cluster_test, a_range_of_several_megabytes_is_read) {
  constexpr size_t count = 80, value_size = 100'000;
  auto &writer = driver_.client();
  for (size_t i = 0; i < count; i++)
    ASSERT_TRUE(
        driver_.put(writer, "range/" + std::to_string(i), std::string(value_size, 'v')).ok());
  auto options = cluster_options();
  options.request_timeout_ns = 60'000'000'000;
  auto const client = open_client(options);
  size_t size = 0;
  client->read("range/", [&](const result<seams::coordinated_range> &range) {
    ASSERT_TRUE(range.ok()) << int(range.error());
    for (auto const &entry : range.value().entries)
      size += entry.value.size();
  });
  (void)client->wait(subject_.time().now_ns() + 60'000'000'000);
  client->progress();
  EXPECT_EQ(size, count * value_size);
  for (size_t i = 0; i < count; i++)
    ASSERT_TRUE(driver_.remove(writer, "range/" + std::to_string(i)).ok());
}

TEST_F(etcd_cluster_test, wrong_credentials_are_refused) {
  auto options = cluster_options();
  if (!options.uses_tls)
    GTEST_SKIP() << "not secure";
  auto const expect = [&](status expected) {
    auto const client = open_client(options);
    EXPECT_EQ(read_status(*client), expected);
  };
  options.password = "wrong";
  expect(status::access);
  options.user.clear();
  expect(status::access);
  options = cluster_options();
  options.certificate_file.clear();
  // The member's alert is lost if it closes the connection while the request arrives.
  status const code = read_status(*open_client(options));
  EXPECT_TRUE(code == status::access || code == status::peer_lost) << int(code);
  options = cluster_options();
  options.ca_file.clear();  // the system's authorities have not signed the server's certificate
  expect(status::access);
  options = cluster_options();
  for (auto &endpoint : options.endpoints)
    endpoint.host = "localhost";  // the certificate is for an address
  expect(status::access);
}

}  // namespace
}  // namespace tanada::contract
