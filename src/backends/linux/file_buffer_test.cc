#include "seams/os/file_buffer.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/log.hpp"

namespace tanada::backends {
namespace {

namespace fs = std::filesystem;

class file_buffer_test : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }
  std::string const folder_ = testing::TempDir() + "/file_buffer_" + std::to_string(getpid());
};

TEST_F(file_buffer_test, a_buffer_holds_what_is_written_and_leaves_no_file) {
  constexpr size_t size = 3'000'001;
  auto created = seams::file_buffer::create(folder_, size);
  ASSERT_TRUE(created.ok()) << last_message();
  auto const buffer = std::move(created).value();
  EXPECT_EQ(buffer->size(), size);
  EXPECT_TRUE(std::all_of(
      buffer->data(), buffer->data() + size, [](std::byte each) { return each == std::byte{0}; }));
  std::fill_n(buffer->data(), size, std::byte{7});
  EXPECT_EQ(buffer->data()[size - 1], std::byte{7});
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(file_buffer_test, a_folder_that_is_missing_or_too_small_is_refused) {
  EXPECT_EQ(seams::file_buffer::create(folder_ + "/none", 4096).error(), status::no_entry);
  EXPECT_NE(last_message().find(folder_ + "/none"), std::string::npos);
  EXPECT_FALSE(seams::file_buffer::create(folder_, size_t{1} << 60).ok());
}

// If those pages could only stay in DRAM, the program would lose that memory.
TEST_F(file_buffer_test, its_pages_count_as_a_file_and_not_as_the_process) {
#if defined(TND_TSAN)
  GTEST_SKIP() << "each written byte has four of ThreadSanitizer's, in the process's own memory";
#endif
  auto const resident = [](const std::string &kind) {
    std::ifstream file{"/proc/self/status"};
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(kind))
        return std::stoul(line.substr(kind.size())) << 10;
    }
    return 0ul;
  };
  constexpr size_t size = size_t{32} << 20;
  auto created = seams::file_buffer::create(folder_, size);
  ASSERT_TRUE(created.ok()) << last_message();
  auto const before = resident("RssAnon:");
  std::fill_n(created.value()->data(), size, std::byte{1});
  EXPECT_LT(resident("RssAnon:"), before + size / 4);
}

}  // namespace
}  // namespace tanada::backends
