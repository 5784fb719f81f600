// Many small files: warps open, read and close them. Some change between two opens, some have odd
// sizes, and some tests have more files than the table holds.
#include "gfile_support.cuh"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>

namespace gfile_contract {
namespace {

using tanada::this_warp;

constexpr u64 size_max = 20'000;

struct small_task {
  text prefix;
  u32 length, count;  // length of the prefix, number of files
  u64 size;           // bytes of each file
};

// The warps share the files, which are named by the prefix and three digits.
TND_KERNEL void read_small(gfile_ref files, small_task task, u8 *scratch, verdict *to) {
  this_warp const warp{};
  u64 const me = group_rank<this_warp>();
  u8 *const mine = scratch + me * size_max;
  text url = task.prefix;
  for (u32 file = u32(me); file < task.count; file += u32(group_count<this_warp>())) {
    for (u32 digit = 3, rest = file; digit-- > 0; rest /= 10)
      url.bytes[task.length + digit] = char('0' + rest % 10);
    int fd = -1;
    status const opened = gopen(warp, files, url.bytes, O_RDONLY, &fd);
    if (warp.rank() == 0)
      note(to, opened);
    if (opened != status::ok)
      continue;
    tanada::gio_result const read = gread(warp, files, fd, mine, 0, size_max);
    status const closed = gclose(warp, files, fd);
    if (warp.rank() == 0)
      note(to, read.size == task.size ? read.status : status::range);
    if (warp.rank() == 0)
      note(to, closed);
    for (u64 i = warp.rank(); i < read.size; i += warp.size())
      if (mine[i] != pattern(i, file))
        (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
    warp.sync();
  }
}

// A folder of files on a disk or on tmpfs, removed at the end.
class folder {
 public:
  explicit folder(const std::string &above)
      : path_{above + "/tanada-small-" + std::to_string(getpid())} {
    std::filesystem::create_directory(path_);
  }
  ~folder() {
    std::filesystem::remove_all(path_);
  }
  std::string prefix() const {
    return path_ + "/f";
  }
  std::string path(u32 number) const {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%03u", number);
    return prefix() + digits;
  }
  void fill(u32 count, u64 size) const {
    for (u32 file = 0; file < count; file++) {
      std::string bytes(size, 0);
      for (u64 i = 0; i < size; i++)
        bytes[i] = char(pattern(i, file));
      std::ofstream{path(file), std::ios::binary | std::ios::trunc} << bytes;
    }
  }

 private:
  std::string path_;
};

void read_all(instance &on, const folder &in, u32 count, u64 size, u32 warps = 4) {
  small_task const task{text{in.prefix()}, u32(in.prefix().size()), count, size};
  examples::device_array<u8> scratch(warps * size_max);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(
      dim3{warps, 1, 1}, dim3{32, 1, 1}, read_small, on.ref(), task, scratch.data(), to.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  verdict const seen = to.to_host()[0];
  EXPECT_EQ(seen.failures, 0u) << "first: " << tnd_status_name(int(seen.first_status));
  EXPECT_EQ(seen.bad_bytes, 0u);
}

u32 open_here(const folder &in) {
  u32 count = 0;
  for (auto const &each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    auto const path = std::filesystem::read_symlink(each.path(), gone);
    count += !gone && path.string().starts_with(in.prefix());
  }
  return count;
}

TEST(gfile_small, a_file_that_is_opened_read_and_closed_takes_one_request) {
  folder const in{"/dev/shm"};
  in.fill(100, 9'000);
  instance on;
  read_all(on, in, 100, 9'000);
  // On a busy machine a page may be evicted before its warp reads it.
  EXPECT_GE(on.statistics().requests, 100u);
  EXPECT_LE(on.statistics().requests, 110u);
  EXPECT_GE(on.statistics().store_reads, 100u);
  EXPECT_LE(on.statistics().misses, 10u);
}

// There are more files than the host tier holds, so the second pass finds none of them cached.
TEST(gfile_small, files_that_are_opened_again_take_one_request_each) {
  folder const in{"/dev/shm"};
  in.fill(300, 4'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // time stamps are old enough
  instance on{[](tnd_gfile_config &config) {
    config.host_tier_size = 64 * 4096;
    config.device_tier_size = config.host_tier_size;
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  for (u32 pass = 1; pass <= 2; pass++) {
    read_all(on, in, 300, 4'000);
    EXPECT_GE(on.statistics().requests, 300u * pass);
    EXPECT_LE(on.statistics().requests, 330u * pass);
  }
}

TEST(gfile_small, files_of_any_size_are_whole) {
  for (const char *above : {"/dev/shm", "/tmp"}) {
    folder const in{above};
    for (u64 size : {0ull, 1ull, 4'095ull, 4'096ull, 4'097ull, 16'384ull, 20'000ull}) {
      in.fill(3, size);
      instance small_pages;
      read_all(small_pages, in, 3, size);
      instance large_pages{[](tnd_gfile_config &config) {
        config.page_size = 131'072;
        config.host_tier_size = 16 * 131'072;
        config.device_tier_size = config.host_tier_size;
      }};
      read_all(large_pages, in, 3, size);
    }
  }
}

TEST(gfile_small, larger_files_than_come_with_an_open_are_whole) {
  folder const in{"/dev/shm"};
  for (u64 size : {65'535ull, 65'536ull, 65'537ull, 200'000ull}) {
    std::string bytes(size, 0);
    for (u64 i = 0; i < size; i++)
      bytes[i] = char(pattern(i, 7));
    std::ofstream{in.path(0), std::ios::binary | std::ios::trunc} << bytes;
    instance on;
    run(on, check_file<this_warp>, {in.path(0), O_RDONLY, size, 5'000, 7}, 1, 32);
  }
}

TEST(gfile_small, files_that_others_change_between_two_opens_are_read_anew) {
  for (const char *above : {"/dev/shm", "/tmp"}) {
    folder const in{above};
    in.fill(8, 5'000);
    instance on;
    read_all(on, in, 8, 5'000);
    in.fill(8, 7'000);  // changed in place
    read_all(on, in, 8, 7'000);
    for (u32 i = 0; i < 8; i++) {
      std::string const fresh = in.path(i) + ".new";
      std::string bytes(3'000, 0);
      for (u64 k = 0; k < bytes.size(); k++)
        bytes[k] = char(pattern(k, i));
      std::ofstream{fresh, std::ios::binary} << bytes;
      std::filesystem::rename(fresh, in.path(i));
    }
    read_all(on, in, 8, 3'000);
  }
}

TEST(gfile_small, nothing_is_open_after_a_wait) {
  folder const in{"/dev/shm"};
  in.fill(200, 2'000);
  // Mappings would keep descriptors of their own.
  instance on{[](tnd_gfile_config &config) {
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  for (int i = 0; i < 3; i++) {
    read_all(on, in, 200, 2'000);
    EXPECT_EQ(open_here(in), 0u);
  }
}

TEST(gfile_small, more_files_than_there_is_room_for_are_read_in_turn) {
  folder const in{"/dev/shm"};
  in.fill(200, 2'000);
  instance on{[](tnd_gfile_config &config) {
    config.file_count_max = 4;
  }};
  for (int i = 0; i < 2; i++)
    read_all(on, in, 200, 2'000, 16);
}

TEST(gfile_small, a_missing_file_among_others_is_no_entry) {
  folder const in{"/dev/shm"};
  in.fill(20, 2'000);
  std::filesystem::remove(in.path(13));
  instance on;
  small_task const task{text{in.prefix()}, u32(in.prefix().size()), 20, 2'000};
  examples::device_array<u8> scratch(4 * size_max);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(
      dim3{4, 1, 1}, dim3{32, 1, 1}, read_small, on.ref(), task, scratch.data(), to.data());
  ASSERT_EQ(on.wait(), TND_OK);
  EXPECT_EQ(to.to_host()[0].failures, 1u);
  EXPECT_EQ(int(to.to_host()[0].first_status), -ENOENT);
  EXPECT_EQ(std::string{on.fault().url}, in.path(13));
}

}  // namespace
}  // namespace gfile_contract
