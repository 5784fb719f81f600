// Tests of the trace and of the viewer, which show a node table's state.
#include "onesided/swap/viewer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "onesided/swap/node_table.hpp"
#include "onesided/swap/trace.hpp"

namespace tanada::onesided::swap {
namespace {

class viewer_test : public testing::Test {
 protected:
  viewer_test() {
    size_t const size = node_table::memory_size(2);
    memory_.resize(size + 64);
    void *address = memory_.data();
    size_t capacity = memory_.size();
    std::span<std::byte> const bytes{
        static_cast<std::byte *>(std::align(64, size, address, capacity)), size};
    EXPECT_EQ(node_table::create(bytes, {.rank_count = 2, .budget = 1000, .slots = 1}), status::ok);
    table_.emplace(bytes);
    table_->start(0, 11);
    table_->start(1, 12);
  }

  std::vector<std::byte> memory_;
  std::optional<node_table> table_;
};

TEST_F(viewer_test, describes_all_in_a_line) {
  std::string const line = describe(*table_);
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
  auto opened = trace_writer::open(path, 3, *table_);
  ASSERT_TRUE(opened.ok());
  auto const trace = std::move(opened).value();
  table_->begin_wait(0, wait_kind::swappable);
  trace->write(*table_);
  table_->counters().bytes_out += 4096;
  trace->write(*table_);
  ASSERT_EQ(trace->close(table_->time().now_ns()), status::ok);
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  ::unlink(path);
  std::string const trace_text = text.str();
  auto const count = [&](const std::string &part) {
    size_t match_count = 0;
    for (size_t position = trace_text.find(part); position != std::string::npos;
         position = trace_text.find(part, position + 1))
      match_count++;
    return match_count;
  };
  EXPECT_EQ(count("\"name\":\"Running\",\"pid\":3,\"tid\":0"), 1u) << trace_text;
  EXPECT_EQ(count("\"name\":\"Wait\",\"pid\":3,\"tid\":0"), 1u) << "up to the end";
  EXPECT_EQ(count("\"name\":\"Running\",\"pid\":3,\"tid\":1"), 1u);
  EXPECT_EQ(count("\"args\":{\"out\":4096,\"in\":0}"), 1u);
  EXPECT_EQ(trace_text.substr(0, 2), "[\n");
  EXPECT_EQ(trace_text.substr(trace_text.size() - 3), "\n]\n");
  EXPECT_EQ(trace_writer::open("/nowhere/there.json", 0, *table_).error(), status::no_entry);
}

}  // namespace
}  // namespace tanada::onesided::swap
