// Many endpoints that all connect to each other at once, and a process that runs out of
// descriptors.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "products/o2g/engine_fixture.hpp"

namespace tanada::o2g {
namespace {

struct counting_sink final : completion_sink {
  void complete(const completion &what) override {
    (what.code == status::ok ? count : failed_count)++;
    last = what.code;
  }
  size_t count = 0, failed_count = 0;
  status last = status::ok;
};

struct member : loopback_endpoint<counting_sink> {
  member() : loopback_endpoint{polled()} {}
  status send(const member &to, uint64_t &word, uint64_t tag) {
    iovec const part{&word, sizeof word};
    return speaker->post_send(
        {.target = peer(to), .parts = {&part, 1}, .tag = tag, .tagged = true});
  }
  status receive(uint64_t &word, uint64_t tag) {
    iovec const part{&word, sizeof word};
    return speaker->post_receive(
        {.parts = {&part, 1}, .pattern = {tag, 0, any_peer}, .tagged = true});
  }
};

// TND_TEST_O2G_COUNT: their number, 16 by default.
size_t member_count() {
  const char *const text = std::getenv("TND_TEST_O2G_COUNT");
  return text == nullptr ? 16 : std::strtoul(text, nullptr, 10);
}

template <class Condition>
bool drive_until(std::vector<std::unique_ptr<member>> &all, Condition is) {
  uint64_t const end_ns = seams::monotonic_clock().now_ns() + 60'000'000'000;
  while (!is()) {
    if (seams::monotonic_clock().now_ns() > end_ns)
      return false;
    for (auto &each : all)
      each->speaker->poll(false);
  }
  return true;
}

// Every pair connects from both ends at once, and one of the two connections stays; no message is
// lost or duplicated.
TEST(scale, all_connect_to_all_at_once) {
  size_t const count = member_count();
  constexpr size_t round_count = 3;
  std::vector<std::unique_ptr<member>> all;
  for (size_t i = 0; i < count; i++)
    all.push_back(std::make_unique<member>());
  std::vector<uint64_t> sent(count * count * round_count), came(sent.size(), ~uint64_t{0});
  auto const index_of = [&](size_t from, size_t to, size_t round) {
    return (round * count + from) * count + to;
  };
  for (size_t round = 0; round < round_count; round++) {
    for (size_t from = 0; from < count; from++) {
      for (size_t to = 0; to < count; to++) {
        size_t const index = index_of(from, to, round);
        sent[index] = index;
        ASSERT_EQ(all[to]->receive(came[index], from << 32 | round), status::ok);
        ASSERT_EQ(all[from]->send(*all[to], sent[index], from << 32 | round), status::ok);
      }
    }
  }
  size_t const each_count = 2 * count * round_count;
  EXPECT_TRUE(drive_until(all, [&] {
    for (auto const &each : all)
      if (each->done.count + each->done.failed_count < each_count)
        return false;
    return true;
  }));
  EXPECT_EQ(came, sent);
  auto const settled = [&] {
    for (auto const &each : all)
      if (each->speaker->statistics().connection_count != count - 1)
        return false;
    return true;
  };
  EXPECT_TRUE(drive_until(all, settled));
  for (auto const &each : all) {
    EXPECT_EQ(each->done.failed_count, 0u);
    EXPECT_EQ(each->done.count, each_count);
    EXPECT_EQ(each->speaker->statistics().unexpected_size, 0u);
  }
}

// Takes all descriptors that this process may have, and releases them.
class hoarder {
 public:
  hoarder() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &few);
    for (int each = open("/dev/null", O_RDONLY); each >= 0; each = open("/dev/null", O_RDONLY))
      all_.push_back(each);
  }
  ~hoarder() {
    for (int const each : all_)
      close(each);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  void give_back(size_t count) {
    for (; count > 0 && !all_.empty(); count--, all_.pop_back())
      close(all_.back());
  }

 private:
  rlimit before_{};
  std::vector<int> all_;
};

TEST(scale, no_descriptors_are_left_and_then_there_are) {
  std::vector<std::unique_ptr<member>> all;
  for (int i = 0; i < 3; i++)
    all.push_back(std::make_unique<member>());
  uint64_t sent = 7, came = 0, other = 0;
  {
    hoarder all_of_them;
    EXPECT_EQ(all[0]->send(*all[1], sent, 1),
              status::too_many_files);  // reported by the call; nothing is pending
    all_of_them.give_back(1);
    ASSERT_EQ(all[1]->receive(came, 1), status::ok);
    ASSERT_EQ(all[0]->send(*all[1], sent, 1),
              status::ok);  // this side of the connection; the other side has none
    for (int i = 0; i < 1000; i++)
      for (auto &each : all)
        each->speaker->poll(false);
    EXPECT_EQ(came, 0u);
    EXPECT_EQ(all[0]->done.failed_count, 0u);
  }
  EXPECT_TRUE(drive_until(all, [&] { return all[1]->done.count == 1; }));
  EXPECT_EQ(came, 7u);
  ASSERT_EQ(all[2]->receive(other, 1), status::ok);
  ASSERT_EQ(all[0]->send(*all[2], sent, 1), status::ok);
  EXPECT_TRUE(drive_until(all, [&] { return all[2]->done.count == 1; }));
}

}  // namespace
}  // namespace tanada::o2g
