// What is seen of a board from outside: the trace and the viewer.
#include "onesided/swap/viewer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "onesided/swap/board.hpp"
#include "onesided/swap/trace.hpp"

namespace tanada::comex::swap {
namespace {

class viewer_test : public testing::Test {
 protected:
  viewer_test() {
    size_t const size = board::memory_size(2);
    memory_.resize(size + 64);
    void *at = memory_.data();
    size_t room = memory_.size();
    std::span<std::byte> const bytes{static_cast<std::byte *>(std::align(64, size, at, room)),
                                     size};
    EXPECT_EQ(board::create(bytes, {.rank_count = 2, .budget = 1000, .slots = 1}), status::ok);
    of_.emplace(bytes);
    of_->start(0, 11);
    of_->start(1, 12);
  }

  std::vector<std::byte> memory_;
  std::optional<board> of_;
};

TEST_F(viewer_test, describes_all_in_a_line) {
  std::string const line = describe(*of_);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(line.substr(0, 11), "{\"process\":");
  EXPECT_NE(line.find("\"budget\":1000"), std::string::npos);
  EXPECT_NE(line.find("\"process\":11,\"state\":\"Running\""), std::string::npos) << line;
  EXPECT_NE(line.find("\"process\":12,\"state\":\"Ready\""), std::string::npos) << line;
  EXPECT_EQ(std::count(line.begin(), line.end(), '{'), std::count(line.begin(), line.end(), '}'));
}

TEST_F(viewer_test, traces_each_state_as_a_bar) {
  char path[] = "/tmp/tanada-trace-XXXXXX";
  ASSERT_EQ(::close(::mkstemp(path)), 0);
  auto made = trace_writer::open(path, 3, *of_);
  ASSERT_TRUE(made.ok());
  auto const trace = std::move(made).value();
  of_->leave(0, wait_kind::others);
  trace->write(*of_);
  of_->counters().bytes_out += 4096;
  trace->write(*of_);
  ASSERT_EQ(trace->close(of_->time().now_ns()), status::ok);
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  ::unlink(path);
  std::string const all = text.str();
  auto const count = [&](const std::string &part) {
    size_t found = 0;
    for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1))
      found++;
    return found;
  };
  EXPECT_EQ(count("\"name\":\"Running\",\"pid\":3,\"tid\":0"), 1u) << all;
  EXPECT_EQ(count("\"name\":\"Wait\",\"pid\":3,\"tid\":0"), 1u) << "up to the end";
  EXPECT_EQ(count("\"name\":\"Running\",\"pid\":3,\"tid\":1"), 1u);
  EXPECT_EQ(count("\"args\":{\"out\":4096,\"in\":0}"), 1u);
  EXPECT_EQ(all.substr(0, 2), "[\n");
  EXPECT_EQ(all.substr(all.size() - 3), "\n]\n");
  EXPECT_EQ(trace_writer::open("/nowhere/there.json", 0, *of_).error(), status::no_entry);
}

}  // namespace
}  // namespace tanada::comex::swap
