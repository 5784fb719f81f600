#include "observe/trace/trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "observe/trace/event.hpp"

namespace tanada::observe::trace {
namespace {

using nlohmann::json;

class trace_test : public testing::Test {
 protected:
  std::string const path_ = testing::TempDir() + "/trace_test_" + std::to_string(getpid());
  void TearDown() override {
    if (is_on())
      (void)stop();
    std::filesystem::remove(path_);
  }
  std::string text() const {
    std::ostringstream events;
    events << std::ifstream{path_}.rdbuf();
    return events.str();
  }
  // Parse as a viewer does: only the closing bracket may be missing.
  json read(bool is_ended = true) const {
    return json::parse(is_ended ? text() : text() + "]");
  }
  static json events_named(const json &events, const std::string &name, const std::string &phase) {
    json matches = json::array();
    for (auto const &item : events)
      if (item["name"] == name && item["ph"] == phase)
        matches.push_back(item);
    return matches;
  }
};

void record_work(const char *url) {
  round traced;
  traced.work();
  operation_mark mark;
  mark.label = label_of(url);
  mark.posted("store read", 4096, 100);
  mark.done("store read", status::io, 50);
}

TEST_F(trace_test, tells_of_rounds_operations_requests_and_counters) {
  static constexpr const char *names[] = {"none", "open"};
  name_requests(names);
  ASSERT_EQ(start(path_), status::ok);
  record_work("file:///a \"quoted\" \\ \xff name");
  requests tracker{4};
  std::array<uint64_t, 2> const words{7, 8};
  tracker.received(2, 1, 5, words);
  tracker.answered(2, status::no_entry);
  uint64_t last = 0;
  counter("evictions", 9, last);
  counter("evictions", 9, last);
  ASSERT_EQ(stop(), status::ok);
  json const events = read();
  ASSERT_EQ(events_named(events, "round", "X").size(), 1u);
  json const begin = events_named(events, "store read", "b"),
             end = events_named(events, "store read", "e");
  ASSERT_EQ(begin.size(), 1u);
  ASSERT_EQ(end.size(), 1u);
  EXPECT_EQ(begin[0]["args"]["file"], "file:///a \"quoted\" \\ \xef\xbf\xbd name");
  EXPECT_EQ(begin[0]["args"]["offset"], 4096);
  EXPECT_EQ(begin[0]["args"]["size"], 100);
  EXPECT_EQ(begin[0]["args"]["depth"], 1);
  EXPECT_EQ(end[0]["args"]["status"], "EIO");
  EXPECT_EQ(end[0]["args"]["moved"], 50);
  EXPECT_EQ(begin[0]["id"], end[0]["id"]);
  EXPECT_LE(begin[0]["ts"].get<double>(), end[0]["ts"].get<double>());
  ASSERT_EQ(events_named(events, "open", "e").size(), 1u);
  EXPECT_EQ(events_named(events, "open", "e")[0]["args"]["status"], "ENOENT");
  EXPECT_EQ(events_named(events, "open", "b")[0]["args"]["words"], json({7, 8}));
  ASSERT_EQ(events_named(events, "evictions", "C").size(), 1u);
}

TEST_F(trace_test, off_leaves_nothing) {
  record_work("a");
  ASSERT_EQ(start(path_), status::ok);
  ASSERT_EQ(stop(), status::ok);
  EXPECT_TRUE(events_named(read(), "round", "X").empty());
  EXPECT_EQ(stop(), status::bad_state);
}

TEST_F(trace_test, one_at_a_time_and_a_path_that_cannot_be) {
  ASSERT_EQ(start(path_), status::ok);
  EXPECT_EQ(start(path_ + "2"), status::busy);
  ASSERT_EQ(stop(), status::ok);
  EXPECT_EQ(start("/nowhere/at/all"), status::no_entry);
  EXPECT_FALSE(is_on());
}

TEST_F(trace_test, a_full_disk_is_told) {
  ASSERT_EQ(start("/dev/full"), status::ok);
  EXPECT_EQ(stop(), status::io);
}

TEST_F(trace_test, a_full_ring_drops_and_counts) {
  ring full{1};
  event record{};
  for (uint32_t i = 0; i < ring::capacity + 3; i++) {
    record.begin_ns = i;
    full.push(record);
  }
  EXPECT_EQ(full.dropped(), 3u);
  uint64_t next = 0;
  full.drain([&](const event &drained) { EXPECT_EQ(drained.begin_ns, next++); });
  EXPECT_EQ(next, ring::capacity);
}

TEST_F(trace_test, threads_that_end_leave_their_events) {
  ASSERT_EQ(start(path_), status::ok);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back([] {
      for (int round = 0; round < 1000; round++)
        record_work("mem://x");
    });
  for (auto &item : threads)
    item.join();
  ASSERT_EQ(stop(), status::ok);
  EXPECT_EQ(events_named(read(), "round", "X").size(), 4000u);
}

// Lines that do not fit into a page go to the next one, so a kill between two writes leaves whole
// lines.
TEST_F(trace_test, a_killed_process_leaves_a_file_that_lacks_the_bracket_alone) {
  for (int lifetime_ms : {3, 25, 40, 61}) {
    pid_t const child = fork();
    if (child == 0) {
      if (start(path_) != status::ok)
        _exit(1);
      for (;;)
        record_work("file:///with/a/path/of/some/length");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(lifetime_ms) * 5);
    kill(child, SIGKILL);
    int how = 0;
    waitpid(child, &how, 0);
    ASSERT_TRUE(WIFSIGNALED(how));
    ASSERT_NO_THROW((void)read(false))
        << text().substr(text().size() < 300 ? 0 : text().size() - 300);
    std::filesystem::remove(path_);
  }
}

TEST_F(trace_test, a_profiler_draws_rounds_and_operations) {
  static std::atomic<int> open{0}, drawn{0};
  draw_ranges({[](const char *) {
                 open++;
                 return uint64_t(++drawn);
               },
               [](uint64_t) {
                 open--;
               }});
  record_work("a");
  EXPECT_EQ(drawn, 2);
  EXPECT_EQ(open, 0);
  targets.fetch_and(~to_profiler);
  draw_ranges({nullptr, nullptr});
  targets.fetch_and(~to_profiler);
}

}  // namespace
}  // namespace tanada::observe::trace
