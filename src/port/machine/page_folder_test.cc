#include "port/machine/page_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

namespace tanada::port {
namespace {

namespace fs = std::filesystem;

class page_folder : public testing::Test {
 protected:
  std::string const folder_ = testing::TempDir() + "/pages_" + std::to_string(getpid());
  void TearDown() override { fs::remove_all(folder_); }
  static std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span{text}); }
  size_t file_count() const { return size_t(std::distance(fs::directory_iterator{folder_}, {})); }

  // A process that has made a page and waits. It says so through the pipe.
  pid_t other_process() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t const child = fork();
    if (child == 0) {
      auto made = page_file::create(folder_);
      if (!made.ok() || made.value()->write(0, bytes_of("hello")) != status::ok) _exit(1);
      (void)!write(ends[1], "x", 1);
      for (;;) pause();
    }
    char said = 0;
    EXPECT_EQ(read(ends[0], &said, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return child;
  }
  static void kill_process(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
};

TEST_F(page_folder, a_page_is_found_read_and_gone_with_its_object) {
  {
    auto made = page_file::create(folder_);
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(made.value()->reserve(100), status::ok);
    ASSERT_EQ(made.value()->write(2, bytes_of("abc")), status::ok);
    auto listed = list_pages(folder_);
    ASSERT_TRUE(listed.ok());
    ASSERT_EQ(listed.value().size(), 1u);
    EXPECT_EQ(listed.value()[0].process, getpid());
    std::vector<std::byte> bytes;
    ASSERT_EQ(read_page(folder_, listed.value()[0].name, 1000, bytes), status::ok);
    ASSERT_EQ(bytes.size(), 100u);
    EXPECT_EQ(std::memcmp(bytes.data(), "\0\0abc\0", 6), 0);
    ASSERT_EQ(read_page(folder_, listed.value()[0].name, 4, bytes), status::ok);
    EXPECT_EQ(bytes.size(), 4u);
    struct stat seen {};
    ASSERT_EQ(stat(made.value()->path().c_str(), &seen), 0);
    EXPECT_EQ(seen.st_mode & 0777, 0600u);
    ASSERT_EQ(stat(folder_.c_str(), &seen), 0);
    EXPECT_EQ(seen.st_mode & 0777, 0700u);
  }
  EXPECT_EQ(file_count(), 0u);
  EXPECT_TRUE(list_pages(folder_ + "/none").ok());
}

TEST_F(page_folder, a_killed_process_is_not_listed_and_swept_away) {
  pid_t const child = other_process();
  ASSERT_EQ(list_pages(folder_).value().size(), 1u);
  EXPECT_EQ(list_pages(folder_).value()[0].process, child);
  kill_process(child);
  EXPECT_TRUE(list_pages(folder_).value().empty());
  ASSERT_EQ(file_count(), 1u);
  for (auto const &left : fs::directory_iterator{folder_})
    fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  auto made = page_file::create(folder_);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(page_folder, a_live_page_is_not_swept_away_however_old) {
  pid_t const child = other_process();
  for (auto const &left : fs::directory_iterator{folder_})
    fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  auto made = page_file::create(folder_);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(list_pages(folder_).value().size(), 2u);
  kill_process(child);
}

TEST_F(page_folder, a_child_neither_keeps_nor_removes_its_parents_page) {
  auto made = page_file::create(folder_);
  ASSERT_TRUE(made.ok());
  pid_t const child = fork();
  if (child == 0) {
    made.value().reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(page_folder, a_folder_open_to_others_or_behind_a_link_is_refused) {
  fs::create_directory(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0750), 0);
  EXPECT_EQ(page_file::create(folder_).error(), status::access);
  EXPECT_EQ(list_pages(folder_).error(), status::access);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  std::string const link = folder_ + "_link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_FALSE(page_file::create(link).ok());
  fs::remove(link);
}

TEST_F(page_folder, what_is_no_page_is_neither_listed_nor_followed_nor_waited_for) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0700);
  for (const char *name : {"readme", "12.gfile", "x-1.gfile", "-1.gfile", "99999999999-1.gfile"})
    close(open((folder_ + "/" + name).c_str(), O_CREAT | O_WRONLY, 0600));
  fs::create_symlink("/etc/passwd", folder_ + "/5-1.gfile");
  ASSERT_EQ(mkfifo((folder_ + "/6-1.gfile").c_str(), 0600), 0);
  EXPECT_TRUE(list_pages(folder_).value().empty());
  std::vector<std::byte> bytes;
  EXPECT_NE(read_page(folder_, "5-1.gfile", 100, bytes), status::ok);
  EXPECT_EQ(read_page(folder_, "6-1.gfile", 100, bytes), status::access);
  EXPECT_EQ(read_page(folder_, "7-1.gfile", 100, bytes), status::no_entry);
}

}  // namespace
}  // namespace tanada::port
