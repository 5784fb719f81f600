// Disturbed exchanges of descriptors: unrelated processes connect and send nothing or wrong
// messages, or bind the leader's address, and members of the group disappear.
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "backends/node/descriptor_socket.hpp"
#include "backends/local/local.hpp"
#include "contract/descriptor_contract.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::contract {
namespace {

size_t open_files() {
  auto const list = std::filesystem::directory_iterator{"/proc/self/fd"};
  return size_t(std::distance(begin(list), end(list)));
}

// Three ranks that have exchanged their cards, of which two exchange descriptors. The test plays
// some of the ranks, or an unrelated process.
class descriptor_strangers : public testing::Test {
 protected:
  void SetUp() override {
    open_before_ = open_files();
    std::vector<std::thread> threads;
    for (auto const &each : ranks_)
      threads.emplace_back([&] { EXPECT_EQ(each->exchange(bootstrap_patience_ns), status::ok); });
    for (auto &each : threads)
      each.join();
    card_ = seams::process_card_of(*ranks_[0], 0).value();
  }
  void TearDown() override {
    strangers_.clear();
    EXPECT_EQ(open_files(), open_before_);
  }

  status exchange(int32_t rank, uint64_t timeout_ns = bootstrap_patience_ns) {
    auto const mine = marked_files(rank, 1);
    return seams::descriptor_exchange(
               *ranks_[size_t(rank)], group_, "strangers", numbers_of(mine), timeout_ns)
        .error();
  }

  // Returns a new connection to the leader.
  int come() {
    auto const place = backends::descriptor_place_of(card_, "strangers");
    uint64_t const limit_ns =
        seams::deadline_after(seams::monotonic_clock().now_ns(), bootstrap_patience_ns);
    auto &made = strangers_.emplace_back(
        backends::owned_socket{socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)});
    while (connect(made.get(), reinterpret_cast<const sockaddr *>(&place.address), place.size) !=
           0) {
      EXPECT_LT(seams::monotonic_clock().now_ns(), limit_ns);
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return made.get();
  }
  backends::descriptor_message greeting() const {
    backends::descriptor_message hello;
    hello.secret = card_.secret;
    hello.index = 1;
    hello.count_per_member = 1;
    return hello;
  }

  std::vector<std::unique_ptr<backends::local_bootstrap>> const ranks_ =
      backends::bootstrap_local(3);
  std::vector<int32_t> group_{0, 1};
  seams::process_card card_{};
  std::vector<backends::owned_socket> strangers_;
  size_t open_before_ = 0;
};

TEST_F(descriptor_strangers, silence_holds_nobody_up) {
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0), status::ok);
  }};
  for (int i = 0; i < 200; i++)
    come();
  EXPECT_EQ(exchange(1), status::ok);
  leader.join();
}

TEST_F(descriptor_strangers, lies_are_not_believed) {
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0), status::ok);
  }};
  auto const secret = greeting();
  auto lie = secret;
  lie.secret[1]++;
  EXPECT_EQ(backends::descriptor_send(come(), lie, {}), status::ok);
  for (int32_t index : {-1, 0, 2, 1'000'000}) {
    lie = secret;
    lie.index = index;
    EXPECT_EQ(backends::descriptor_send(come(), lie, {}), status::ok);
  }
  lie = secret;
  lie.magic = 0;
  EXPECT_EQ(backends::descriptor_send(come(), lie, {}), status::ok);
  std::string const longer(4096, 'x');
  for (size_t size : {size_t{1},
                      sizeof(backends::descriptor_message) - 1,
                      sizeof(backends::descriptor_message) + 1,
                      longer.size()}) {
    EXPECT_EQ(send(come(), longer.data(), size, MSG_NOSIGNAL), ssize_t(size));
  }
  EXPECT_EQ(exchange(1), status::ok);
  leader.join();
}

TEST_F(descriptor_strangers, a_member_that_vanishes_is_lost) {
  group_ = {0, 1, 2};  // the exchange does not end before the third member connects
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0), status::peer_lost) << last_message();
  }};
  auto const mine = marked_files(1, 1);
  EXPECT_EQ(backends::descriptor_send(come(), greeting(), numbers_of(mine)), status::ok);
  strangers_.clear();
  leader.join();
}

TEST_F(descriptor_strangers, the_loss_of_a_rank_ends_the_exchange) {
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0), status::peer_lost);
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  uint64_t const start_ns = seams::monotonic_clock().now_ns();
  ranks_[1]->kill();
  leader.join();
  EXPECT_LT(seams::monotonic_clock().now_ns() - start_ns, 5'000'000'000u);
}

TEST_F(descriptor_strangers, two_exchanges_of_one_label_are_refused) {
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0, 500'000'000), status::timed_out);
  }};
  come();
  EXPECT_EQ(exchange(0), status::busy);
  leader.join();
}

// Another user has bound the leader's address first. That user would have to read the leader's
// memory to know the address.
TEST_F(descriptor_strangers, another_user_in_the_leaders_place_gets_nothing) {
  if (geteuid() != 0)
    GTEST_SKIP() << "needs root to change the user";
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  pid_t const other = fork();
  if (other == 0) {
    int const listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    auto const place = backends::descriptor_place_of(card_, "strangers");
    bool const fine =
        setuid(65534) == 0 &&
        bind(listener, reinterpret_cast<const sockaddr *>(&place.address), place.size) == 0 &&
        listen(listener, 8) == 0 && write(ready[1], "", 1) == 1;
    if (fine)
      pause();
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(exchange(1), status::access);
  EXPECT_EQ(exchange(0), status::busy);
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(other, nullptr, 0), other);
  close(ready[0]);
  close(ready[1]);
}

// A launcher in which the leader's card names another network namespace.
class elsewhere final : public seams::bootstrap {
 public:
  explicit elsewhere(seams::bootstrap &real) : real_{real} {}
  const char *name() const noexcept override {
    return real_.name();
  }
  int32_t rank() const noexcept override {
    return real_.rank();
  }
  int32_t count() const noexcept override {
    return real_.count();
  }
  const std::string &job() const noexcept override {
    return real_.job();
  }
  const std::vector<int32_t> &node_ranks() const noexcept override {
    return real_.node_ranks();
  }
  status publish(std::string_view key, std::span<const std::byte> value) override {
    return real_.publish(key, value);
  }
  status exchange(uint64_t timeout_ns) override {
    return real_.exchange(timeout_ns);
  }
  status barrier(uint64_t timeout_ns) override {
    return real_.barrier(timeout_ns);
  }
  void abort(int32_t, const char *) noexcept override {}
  int32_t find_failed_rank() const noexcept override {
    return real_.find_failed_rank();
  }
  result<std::vector<std::byte>> lookup(int32_t rank, std::string_view key) override {
    auto found = real_.lookup(rank, key);
    if (rank == 0)
      found.value()[offsetof(seams::process_card, network_inode)] ^= std::byte{1};
    return found;
  }

 private:
  seams::bootstrap &real_;
};

TEST_F(descriptor_strangers, a_leader_in_another_network_is_not_waited_for) {
  elsewhere launcher{*ranks_[1]};
  EXPECT_EQ(
      seams::descriptor_exchange(launcher, launcher.node_ranks(), "far", {}, bootstrap_patience_ns)
          .error(),
      status::no_device);
  EXPECT_NE(last_message().find("network namespace"), std::string::npos) << last_message();
}

TEST_F(descriptor_strangers, failures_leave_nothing_open) {
  int const closed[] = {1'000'000};
  std::thread leader{[&] {
    EXPECT_EQ(exchange(0, 300'000'000), status::timed_out);
  }};
  EXPECT_EQ(
      seams::descriptor_exchange(*ranks_[1], group_, "strangers", closed, bootstrap_patience_ns)
          .error(),
      status::bad_file);
  leader.join();
}

}  // namespace
}  // namespace tanada::contract
