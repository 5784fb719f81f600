#include "seams/os/record_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

namespace fs = std::filesystem;

class record_file : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }
  std::string text() const {
    std::ifstream file{path_};
    return {std::istreambuf_iterator<char>{file}, {}};
  }
  std::string const folder_ = testing::TempDir() + "/record_" + std::to_string(getpid());
  std::string const path_ = folder_ + "/report.json";
};

TEST_F(record_file, a_record_replaces_one_of_its_size_and_of_others) {
  for (const char *content : {"first", "other", "longer than those", "short"}) {
    ASSERT_EQ(seams::replace_record(path_, content, 0), status::ok) << last_message();
    EXPECT_EQ(text(), content);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, {}), 1);
}

TEST_F(record_file, a_record_of_equal_size_keeps_the_file) {
  ASSERT_EQ(seams::replace_record(path_, "first", 0), status::ok);
  std::ifstream reader{path_};
  ASSERT_EQ(seams::replace_record(path_, "other", 0), status::ok);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>{reader}, {}), "other");
}

TEST_F(record_file, everybody_may_read_it_that_the_umask_lets) {
  mode_t const before = umask(022);
  EXPECT_EQ(seams::replace_record(path_, "first", 0), status::ok);
  umask(before);
  struct stat about{};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0644u);
}

TEST_F(record_file, a_reader_with_a_lock_sees_no_change) {
  ASSERT_EQ(seams::replace_record(path_, "first", 0), status::ok);
  int const reader = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(reader, LOCK_SH), 0);
  EXPECT_EQ(seams::replace_record(path_, "other", 2'000'000), status::again);
  EXPECT_EQ(text(), "first");
  close(reader);
  EXPECT_EQ(seams::replace_record(path_, "other", 0), status::ok);
  EXPECT_EQ(text(), "other");
}

TEST_F(record_file, a_folder_that_is_missing_is_reported) {
  EXPECT_EQ(seams::replace_record(folder_ + "/none/report", "x", 0), status::no_entry);
  EXPECT_NE(last_message().find("/none/report"), std::string::npos) << last_message();
}

// Writes records of equal and unequal sizes until the process is killed.
[[noreturn]] void write_for_ever(const std::string &path, size_t width) {
  for (char letter = 'a';; letter = letter == 'z' ? 'a' : char(letter + 1)) {
    size_t const size = letter == 'z' ? width / 2 : width;
    if (seams::replace_record(path, std::string(size, letter), 0) != status::ok)
      _exit(1);
  }
}

TEST_F(record_file, a_killed_writer_leaves_a_whole_record_and_no_other_file) {
  constexpr int kill_count = 200;
  for (int i = 0; i < kill_count; i++) {
    pid_t const writer = fork();
    if (writer == 0)
      write_for_ever(path_, 1000);
    while (!fs::exists(path_))
      std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds{37 * i});
    kill(writer, SIGKILL);
    int wait_status = 0;
    ASSERT_EQ(waitpid(writer, &wait_status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << "the writer failed";
    for (auto const &entry : fs::directory_iterator{folder_})
      EXPECT_EQ(entry.path(), path_);
    std::string const content = text();
    ASSERT_EQ(content.find_first_not_of(content.substr(0, 1)), std::string::npos) << content;
    bool const is_whole = content.size() == 1000 || content.size() == 500;
    ASSERT_TRUE(is_whole || !fs::exists(path_)) << content.size();
  }
}

}  // namespace
}  // namespace tanada::backends
