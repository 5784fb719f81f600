#include "seams/os/page_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace tanada::backends {
namespace {

namespace fs = std::filesystem;

class page_folder : public testing::Test {
 protected:
  std::string const folder_ = testing::TempDir() + "/pages_" + std::to_string(getpid());
  void TearDown() override {
    fs::remove_all(folder_);
  }
  static constexpr std::string_view kind = "gfile";
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span{text});
  }
  static std::string text_of(const std::vector<std::byte> &bytes) {
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }
  size_t file_count() const {
    return size_t(std::distance(fs::directory_iterator{folder_}, {}));
  }

  // Starts a process that creates a page, signals that through the pipe, and waits.
  pid_t other_process() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_t const child = fork();
    if (child == 0) {
      auto created = seams::page_file::create(folder_, kind);
      if (!created.ok() || created.value()->publish(bytes_of("hello")) != status::ok)
        _exit(1);
      (void)!write(ends[1], "x", 1);
      for (;;)
        pause();
    }
    char signal_byte = 0;
    EXPECT_EQ(read(ends[0], &signal_byte, 1), 1);
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
    auto created = seams::page_file::create(folder_, kind);
    ASSERT_TRUE(created.ok());
    ASSERT_EQ(created.value()->publish(bytes_of("more than later")), status::ok);
    ASSERT_EQ(created.value()->publish(bytes_of("abcdefghi")), status::ok);
    auto listed = seams::list_pages(folder_, kind);
    ASSERT_TRUE(listed.ok());
    ASSERT_EQ(listed.value().size(), 1u);
    EXPECT_EQ(listed.value()[0].process, getpid());
    std::vector<std::byte> bytes;
    ASSERT_EQ(seams::read_page(folder_, listed.value()[0].name, 1000, bytes), status::ok);
    EXPECT_EQ(text_of(bytes), "abcdefghi");
    ASSERT_EQ(seams::read_page(folder_, listed.value()[0].name, 9, bytes), status::ok);
    EXPECT_EQ(seams::read_page(folder_, listed.value()[0].name, 8, bytes), status::corrupt);
    EXPECT_TRUE(seams::list_pages(folder_, "other").value().empty());
    struct stat file_stat{};
    ASSERT_EQ(stat(created.value()->path().c_str(), &file_stat), 0);
    EXPECT_EQ(file_stat.st_mode & 0777, 0600u);
    ASSERT_EQ(stat(folder_.c_str(), &file_stat), 0);
    EXPECT_EQ(file_stat.st_mode & 0777, 0700u);
  }
  EXPECT_FALSE(fs::exists(folder_));
  EXPECT_TRUE(seams::list_pages(folder_ + "/none", kind).ok());
}

TEST_F(page_folder, the_folder_goes_with_its_last_page) {
  auto first = seams::page_file::create(folder_, kind);
  auto second = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(first.ok() && second.ok());
  first.value().reset();
  EXPECT_EQ(file_count(), 1u);
  second.value().reset();
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(page_folder, a_page_is_created_while_others_remove_the_folder) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; i++)
    threads.emplace_back([&] {
      for (int round = 0; round < 500; round++)
        failures += seams::page_file::create(folder_, kind).ok() ? 0 : 1;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(page_folder, a_killed_process_is_not_listed_and_swept_away) {
  pid_t const child = other_process();
  ASSERT_EQ(seams::list_pages(folder_, kind).value().size(), 1u);
  EXPECT_EQ(seams::list_pages(folder_, kind).value()[0].process, child);
  kill_process(child);
  EXPECT_TRUE(seams::list_pages(folder_, kind).value().empty());
  ASSERT_EQ(file_count(), 1u);
  for (auto const &entry : fs::directory_iterator{folder_})
    fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  auto created = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(page_folder, a_live_page_is_not_swept_away_however_old) {
  pid_t const child = other_process();
  for (auto const &entry : fs::directory_iterator{folder_})
    fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  auto created = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(created.ok());
  EXPECT_EQ(seams::list_pages(folder_, kind).value().size(), 2u);
  kill_process(child);
}

TEST_F(page_folder, a_child_neither_keeps_nor_removes_its_parents_page) {
  auto created = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(created.ok());
  pid_t const child = fork();
  if (child == 0) {
    created.value().reset();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(page_folder, a_folder_open_to_others_or_behind_a_link_is_refused) {
  fs::create_directory(folder_);
  ASSERT_EQ(chmod(folder_.c_str(), 0750), 0);
  EXPECT_EQ(seams::page_file::create(folder_, kind).error(), status::access);
  EXPECT_EQ(seams::list_pages(folder_, kind).error(), status::access);
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  std::string const link = folder_ + "_link";
  fs::create_directory_symlink(folder_, link);
  EXPECT_FALSE(seams::page_file::create(link, kind).ok());
  fs::remove(link);
}

TEST_F(page_folder, no_length_and_no_flipped_bits_are_taken) {
  auto created = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(created.ok());
  std::string const path = created.value()->path(), name = path.substr(path.rfind('/') + 1);
  ASSERT_EQ(created.value()->publish(bytes_of("it was the best of times")), status::ok);
  std::ifstream file{path, std::ios::binary};
  std::string const good{std::istreambuf_iterator<char>{file}, {}};
  auto const read_back = [&](const std::string &content) {
    std::ofstream{path, std::ios::binary | std::ios::trunc} << content;
    std::vector<std::byte> bytes;
    return seams::read_page(folder_, name, 100, bytes);
  };
  EXPECT_EQ(read_back(good), status::ok);
  for (size_t size = 1; size < good.size(); size++)
    EXPECT_EQ(read_back(good.substr(0, size)), status::corrupt) << size;
  // These pages look as if they were being written, or not yet written, so the reader retries and
  // then gives up.
  std::string odd = good, flipped = good;
  odd[8] = char(odd[8] ^ 1);
  flipped.back() = '!';
  for (auto const &damaged_page : {odd, flipped, std::string(100, 0), std::string{}})
    EXPECT_EQ(read_back(damaged_page), status::again);
  for (size_t index = 16; index < good.size(); index += 5) {
    std::string damaged = good;
    damaged[index] = char(damaged[index] ^ 4);
    EXPECT_NE(read_back(damaged), status::ok) << index;
  }
  EXPECT_EQ(read_back("another thing of thirty-two bytes"), status::corrupt);
}

// A writer alternates between two texts; each read returns one of them.
TEST_F(page_folder, a_page_is_read_whole_while_it_is_written) {
  auto created = seams::page_file::create(folder_, kind);
  ASSERT_TRUE(created.ok());
  std::string const name = created.value()->path().substr(folder_.size() + 1),
                    texts[] = {std::string(20'000, 'a'), std::string(20'003, 'b')};
  ASSERT_EQ(created.value()->publish(bytes_of(texts[0])), status::ok);
  std::atomic<bool> is_over{false};
  std::thread writer{[&] {
    for (size_t i = 0; !is_over; i++)
      EXPECT_EQ(created.value()->publish(bytes_of(texts[i % 2])), status::ok);
  }};
  size_t whole = 0;
  for (int i = 0; i < 300; i++) {
    std::vector<std::byte> bytes;
    status const code = seams::read_page(folder_, name, 20'003, bytes);
    if (code == status::again)
      continue;
    ASSERT_EQ(code, status::ok);
    whole++;
    EXPECT_TRUE(text_of(bytes) == texts[0] || text_of(bytes) == texts[1]);
  }
  is_over = true;
  writer.join();
  EXPECT_GT(whole, 0u);
}

TEST_F(page_folder, what_is_no_page_is_neither_listed_nor_followed_nor_waited_for) {
  fs::create_directory(folder_);
  chmod(folder_.c_str(), 0700);
  for (const char *name : {"readme",
                           "12.gfile",
                           "x-1.gfile",
                           "-1.gfile",
                           "99999999999-1.gfile",
                           "5-.gfile",
                           "5-1.",
                           "5-1gfile"})
    close(open((folder_ + "/" + name).c_str(), O_CREAT | O_WRONLY, 0600));
  fs::create_symlink("/etc/passwd", folder_ + "/5-1.gfile");
  ASSERT_EQ(mkfifo((folder_ + "/6-1.gfile").c_str(), 0600), 0);
  EXPECT_TRUE(seams::list_pages(folder_, kind).value().empty());
  std::vector<std::byte> bytes;
  EXPECT_NE(seams::read_page(folder_, "5-1.gfile", 100, bytes), status::ok);
  EXPECT_EQ(seams::read_page(folder_, "6-1.gfile", 100, bytes), status::access);
  EXPECT_EQ(seams::read_page(folder_, "7-1.gfile", 100, bytes), status::no_entry);
}

}  // namespace
}  // namespace tanada::backends
