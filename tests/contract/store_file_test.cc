// Behavior that only the file store has: a full file system, directories, permissions, O_DIRECT,
// and a ring whose thread has ended.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "backends/file/file_store.hpp"
#include "backends/registry/store_registry.hpp"
#include "contract/small_file_system.hpp"
#include "contract/store_subject.hpp"
#include "core/base/log.hpp"

namespace tanada::contract {
namespace {

class file_place final : public store_subject {
 public:
  explicit file_place(const char *ring) {
    std::string pattern = (std::filesystem::temp_directory_path() / "tanada-file-XXXXXX").string();
    folder = mkdtemp(pattern.data());
    setenv("TND_IO_URING", ring, 1);
    auto opened = backends::file_store_open();
    unsetenv("TND_IO_URING");
    EXPECT_TRUE(opened.ok());
    store_ = std::move(opened).value();
  }
  ~file_place() override {
    store_.reset();
    std::filesystem::remove_all(folder);
  }
  seams::store &store() override {
    return *store_;
  }
  std::string url(const std::string &name) override {
    return folder + "/" + name;
  }

  std::string folder;

 private:
  std::unique_ptr<seams::store> store_;
};

class store_file_faults : public testing::TestWithParam<const char *> {
 protected:
  file_place place_{GetParam()};
  store_driver driver_{place_};
};

class store_file_without_room : public testing::TestWithParam<const char *> {
 protected:
  std::string mount_point_ = [] {
    std::string pattern = (std::filesystem::temp_directory_path() / "tanada-full-XXXXXX").string();
    return std::string{mkdtemp(pattern.data())};
  }();
  small_file_system full_{mount_point_, "64k"};  // created before the store starts threads
  file_place place_{GetParam()};
  store_driver driver_{place_};

  ~store_file_without_room() override {
    std::filesystem::remove(mount_point_);
  }
};

TEST_P(store_file_without_room, a_full_file_system_is_no_space) {
  if (full_.folder().empty())
    GTEST_SKIP() << "no user namespaces with mounts for this user";
  auto const file = driver_.must_open(full_.folder() + "/a", {.write = true, .create = true});
  auto const done = driver_.write(file, 0, store_pattern(1 << 20, 1));
  EXPECT_EQ(done.code, status::no_space);
  EXPECT_LE(done.size, 64u << 10);
  EXPECT_EQ(driver_.close(file).code, status::ok);
}

TEST_P(store_file_faults, names_in_no_folder_are_not_synced) {
  EXPECT_EQ(driver_.on_name(seams::store_op_kind::sync_names, place_.url("none/a")).code,
            status::no_entry);
}

TEST_P(store_file_faults, names_that_are_no_files) {
  EXPECT_EQ(driver_.open(place_.folder, store_read_only).code, status::is_directory);
  EXPECT_EQ(driver_.open(place_.folder, store_update).code, status::is_directory);
  EXPECT_EQ(driver_.on_name(seams::store_op_kind::unlink, place_.folder).code,
            status::is_directory);
  EXPECT_EQ(driver_.open(place_.url("no/a"), store_make).code, status::no_entry);
  EXPECT_EQ(driver_.open(place_.url(std::string(300, 'n')), store_make).code,
            status::name_too_long);
  EXPECT_EQ(driver_.open("file://elsewhere/a", store_read_only).code, status::invalid);
}

TEST_P(store_file_faults, paths_and_urls_name_the_same_files) {
  std::ofstream{place_.url("a")} << "text";
  std::filesystem::create_directory(place_.url("folder"));
  auto const file = driver_.must_open("file://localhost" + place_.url("a"), store_read_only);
  EXPECT_EQ(driver_.read(file, 0, 10), "text");
  EXPECT_EQ(driver_.close(file).code, status::ok);
  EXPECT_EQ(
      driver_.on_name(seams::store_op_kind::list, "file://" + place_.url("")).names,
      (std::vector<std::string>{"file://" + place_.url("a"), "file://" + place_.url("folder/")}));
  EXPECT_EQ(driver_.on_name(seams::store_op_kind::list, place_.url("f")).names,
            std::vector<std::string>{place_.url("folder/")});
}

TEST_P(store_file_faults, a_file_opened_to_write_can_be_read_where_its_mode_allows) {
  std::ofstream{place_.url("a")} << "text";
  auto const file = driver_.must_open(place_.url("a"), {.write = true});
  EXPECT_EQ(driver_.read(file, 0, 10), "text");
  EXPECT_EQ(driver_.close(file).code, status::ok);
}

TEST_P(store_file_faults, an_ordinary_user_may_write_what_it_may_not_read) {
  std::ofstream{place_.url("a")} << "text";
  chmod(place_.folder.c_str(), 0755);
  chmod(place_.url("a").c_str(), 0222);
  bool const root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  // This thread starts the store's workers, which therefore run as this user.
  auto other = backends::file_store_open();
  ASSERT_TRUE(other.ok());
  auto const queue = std::move(other.value()->queue_create(4)).value();
  seams::store_op op;
  op.kind = seams::store_op_kind::open;
  op.url = place_.url("a");
  op.open_flags = {.write = true};
  EXPECT_EQ(queue->post(op), status::ok);
  seams::store_completion done[1];
  while (queue->poll(done) == 0)
    place_.idle();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  EXPECT_EQ(done[0].code, status::ok);
}

TEST_P(store_file_faults, what_a_thread_left_in_flight_completes) {
  auto const text = store_pattern(4 << 20, 9);
  std::ofstream{place_.url("a"), std::ios::binary} << text;
  auto const file = driver_.must_open(place_.url("a"), store_read_only);
  std::string back(text.size(), '?');
  seams::store_op op;
  op.file = file;
  op.buffers = {{reinterpret_cast<std::byte *>(back.data()), back.size()}};
  std::thread{[&] {
    EXPECT_EQ(driver_.queue->post(op), status::ok);
    seams::store_completion none[1];
    EXPECT_EQ(driver_.queue->poll(std::span{none, 0}), 0u);  // submits the operation
  }}.join();
  auto const done = driver_.wait();
  EXPECT_EQ(done.code, status::ok);
  EXPECT_EQ(done.size, text.size());
  EXPECT_EQ(back, text);
  EXPECT_EQ(driver_.close(file).code, status::ok);
}

// Whether the page cache holds any of a file's pages; true where mincore() fails.
bool is_cached(const std::string &path, size_t size) {
  int const fd = ::open(path.c_str(), O_RDONLY);
  void *const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  bool const is_known = mapped != MAP_FAILED && mincore(mapped, size, pages.data()) == 0;
  if (mapped != MAP_FAILED)
    munmap(mapped, size);
  return !is_known || std::any_of(pages.begin(), pages.end(), [](unsigned char each) {
    return (each & 1) != 0;
  });
}

TEST_P(store_file_faults, direct_files_keep_out_of_the_page_cache) {
  auto const file = driver_.must_open(
      place_.url("a"), {.read = true, .write = true, .create = true, .direct = true});
  constexpr size_t size = 64 << 10;
  struct alignas(4096) room {
    std::byte bytes[size];
  };
  auto const text = store_pattern(size, 5);
  auto const out = std::make_unique<room>(), back = std::make_unique<room>();
  std::memcpy(out->bytes, text.data(), size);
  EXPECT_EQ(driver_
                .transfer(seams::store_op_kind::write,
                          file,
                          8192,
                          {{out->bytes, 4096}, {out->bytes + 4096, size - 4096}})
                .size,
            size);
  EXPECT_EQ(driver_.transfer(seams::store_op_kind::read, file, 8192, {{back->bytes, size}}).size,
            size);
  EXPECT_EQ(std::memcmp(back->bytes, text.data(), size), 0);
  int const direct = ::open(place_.url("a").c_str(), O_RDONLY | O_DIRECT);
  bool const can = direct >= 0 && pread(direct, back->bytes, 4096, 8192) == 4096;
  if (direct >= 0)
    ::close(direct);
  EXPECT_FALSE(can && is_cached(place_.url("a"), 8192 + size));
  // Unaligned transfers use the page cache, and see the same data.
  EXPECT_EQ(driver_.write(file, 8192 + 10, "text").code, status::ok);
  EXPECT_EQ(driver_.transfer(seams::store_op_kind::read, file, 8192, {{back->bytes, 4096}}).size,
            4096u);
  EXPECT_EQ(std::memcmp(back->bytes + 10, "text", 4), 0);
  EXPECT_EQ(driver_.read(file, 8192 + 14, 5), text.substr(14, 5));
  EXPECT_EQ(driver_.close(file).code, status::ok);
}

TEST_P(store_file_faults, files_of_their_owner_alone) {
  mode_t const before = umask(0);
  auto const file = driver_.must_open(
      place_.url("a"), {.write = true, .create = true, .exclusive = true, .owner_only = true});
  umask(before);
  struct stat found{};
  ASSERT_EQ(::stat(place_.url("a").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(driver_.close(file).code, status::ok);
}

INSTANTIATE_TEST_SUITE_P(ring, store_file_faults, testing::Values("on", "off"));
INSTANTIATE_TEST_SUITE_P(ring, store_file_without_room, testing::Values("on", "off"));

TEST(store_file, refuses_variables_that_do_not_parse) {
  setenv("TND_FILE_DIRECT", "perhaps", 1);
  EXPECT_EQ(backends::file_store_open().error(), status::invalid);
  unsetenv("TND_FILE_DIRECT");
  EXPECT_NE(last_message().find("TND_FILE_DIRECT"), std::string::npos);
}

TEST(store_registry, a_plugin_that_does_not_load_names_its_package) {
  std::string pattern = (std::filesystem::temp_directory_path() / "tanada-plugin-XXXXXX").string();
  std::string const folder = mkdtemp(pattern.data());
  std::ofstream{folder + "/libtanada_store_gfarm.so"} << "no library";
  setenv("TND_PLUGIN_PATH", ("/nowhere:" + folder).c_str(), 1);
  backends::store_registry registry;
  EXPECT_EQ(registry.find("gfarm:///a").error(), status::no_plugin);
  unsetenv("TND_PLUGIN_PATH");
  std::filesystem::remove_all(folder);
  EXPECT_NE(last_message().find("libgfarm1"), std::string::npos) << last_message();
  EXPECT_NE(last_message().find("libtanada_store_gfarm.so"), std::string::npos) << last_message();
}

}  // namespace
}  // namespace tanada::contract
