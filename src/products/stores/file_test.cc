// The C calls of tanada/store.h on files, of this machine and of mem://.
#include <gtest/gtest.h>
#include <tanada/store.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace {

constexpr uint64_t timeout_ns = 60'000'000'000;

class store_files : public testing::Test {
 protected:
  ~store_files() override {
    std::filesystem::remove_all(folder_);
  }
  std::string path(const char *name) const {
    return folder_ + "/" + name;
  }
  static tnd_store_file *open(const std::string &url, uint32_t flags) {
    tnd_store_file *file = nullptr;
    EXPECT_EQ(tnd_store_open(url.c_str(), flags, timeout_ns, &file), TND_OK) << url;
    return file;
  }
  static std::string read(tnd_store_file *file, uint64_t offset, uint64_t size) {
    std::string bytes(size, '?');
    uint64_t count = 0;
    EXPECT_EQ(tnd_store_read(file, offset, bytes.data(), size, &count), TND_OK);
    return bytes.substr(0, count);
  }

 private:
  std::string folder_ =
      std::filesystem::temp_directory_path().string() + "/store_files" + std::to_string(::getpid());
  bool const is_created_ = std::filesystem::create_directory(folder_);
};

TEST_F(store_files, bytes_are_written_read_and_truncated) {
  auto *file = open(path("a"), TND_STORE_READ | TND_STORE_WRITE | TND_STORE_CREATE);
  ASSERT_EQ(tnd_store_write(file, 0, "terraces", 8), TND_OK);
  ASSERT_EQ(tnd_store_write(file, 10, "of water", 8), TND_OK);
  uint64_t size = 0;
  ASSERT_EQ(tnd_store_get_size(file, &size), TND_OK);
  EXPECT_EQ(size, 18u);
  EXPECT_EQ(read(file, 0, 100), std::string("terraces\0\0of water", 18));
  EXPECT_EQ(read(file, 15, 2), "te");
  EXPECT_EQ(read(file, 18, 1), "");
  ASSERT_EQ(tnd_store_truncate(file, 7), TND_OK);
  ASSERT_EQ(tnd_store_sync(file), TND_OK);
  ASSERT_EQ(tnd_store_close(file), TND_OK);
  EXPECT_EQ(std::filesystem::file_size(path("a")), 7u);
  file = open(path("a"), TND_STORE_READ);
  EXPECT_EQ(read(file, 0, 100), "terrace");
  EXPECT_NE(tnd_store_write(file, 0, "x", 1), TND_OK);
  EXPECT_EQ(tnd_store_close(file), TND_OK);
}

TEST_F(store_files, more_bytes_than_one_operation_moves_arrive_in_order) {
  std::string bytes((64 << 20) + 4321, ' ');
  for (size_t index = 0; index < bytes.size(); index += 4093)
    bytes[index] = char('a' + index % 26);
  auto *file = open(path("large"), TND_STORE_READ | TND_STORE_WRITE | TND_STORE_CREATE);
  ASSERT_EQ(tnd_store_write(file, 1, bytes.data(), bytes.size()), TND_OK);
  EXPECT_TRUE(read(file, 1, bytes.size() + 10) == bytes);
  EXPECT_EQ(tnd_store_close(file), TND_OK);
}

TEST_F(store_files, flags_decide_what_an_open_does) {
  tnd_store_file *file = nullptr;
  auto const try_open = [&](uint32_t flags) {
    return tnd_store_open(path("b").c_str(), flags, timeout_ns, &file);
  };
  EXPECT_EQ(try_open(TND_STORE_READ), -ENOENT);
  EXPECT_EQ(try_open(0), -EINVAL);
  EXPECT_EQ(try_open(TND_STORE_READ | TND_STORE_CREATE), -EINVAL);
  EXPECT_EQ(try_open(TND_STORE_WRITE | TND_STORE_EXCLUSIVE), -EINVAL);
  EXPECT_EQ(try_open(32 | TND_STORE_READ), -EINVAL);
  EXPECT_EQ(file, nullptr);
  uint32_t const exclusive = TND_STORE_WRITE | TND_STORE_CREATE | TND_STORE_EXCLUSIVE;
  ASSERT_EQ(try_open(exclusive), TND_OK);
  EXPECT_EQ(tnd_store_write(file, 0, "12", 2), TND_OK);
  EXPECT_EQ(tnd_store_close(file), TND_OK);
  EXPECT_EQ(try_open(exclusive), -EEXIST);
  ASSERT_EQ(try_open(TND_STORE_WRITE | TND_STORE_TRUNCATE), TND_OK);
  EXPECT_EQ(tnd_store_close(file), TND_OK);
  EXPECT_EQ(std::filesystem::file_size(path("b")), 0u);
  EXPECT_EQ(tnd_store_open("no-such-scheme://a", TND_STORE_READ, timeout_ns, &file), -EINVAL);
  EXPECT_EQ(tnd_store_close(nullptr), TND_OK);
}

}  // namespace
