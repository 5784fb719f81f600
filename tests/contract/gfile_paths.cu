// The paths of data to the device: mapped files, the direct window, and the counters and reasons
// reported for them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <linux/magic.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "gfile_support.cuh"

namespace gfile_contract {
namespace {

using tanada::this_block;
using tanada::this_warp;

TEST(gfile_mapped, kernels_read_a_files_own_pages) {
  memory_file const memory{300'001, 5};
  // After this sleep, the file's time stamp differs from that of any later change.
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  instance on;
  file_task const task{memory.url(), O_RDONLY, 300'001, 9000, 5};
  tnd_gfile_file const mapped = read_until(on, task, TND_GFILE_PATH_MAPPED);
  ASSERT_EQ(mapped.path, u32(TND_GFILE_PATH_MAPPED)) << mapped.reason;
  EXPECT_STREQ(mapped.reason, "");
  // The kernels read more than the device tier holds, without requests other than open and close.
  u64 const before = on.statistics().mapped_copies, misses = on.statistics().misses;
  run(on, check_file<this_warp>, task, 2, 64);
  EXPECT_GT(on.statistics().mapped_copies, before);
  EXPECT_EQ(on.statistics().misses, misses);
  EXPECT_GT(file_of(on, task.url.bytes)->mapped_copies, 0u);
}

TEST(gfile_mapped, what_kernels_write_is_read_and_the_file_is_mapped_again) {
  memory_file const memory{100'000, 5};
  instance on;
  file_task task{memory.url(), O_RDONLY, 100'000, 5000, 5};
  ASSERT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  task.seed = 6;
  task.flags = O_WRONLY;
  run(on, write_file<this_block>, task, 4, 32);
  EXPECT_EQ(file_of(on, task.url.bytes)->path, u32(TND_GFILE_PATH_STAGED));
  EXPECT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  run(on, check_file<this_warp>, task, 2, 64);
}

TEST(gfile_mapped, what_another_process_writes_is_read_after_the_next_open) {
  memory_file const memory{100'000, 5};
  instance on;
  file_task task{memory.url(), O_RDONLY, 100'000, 5000, 5};
  ASSERT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  write_pattern(memory.fd(), 120'000, 8);
  task.seed = 8;
  task.size = 120'000;
  run(on, check_file<this_block>, task, 2, 32);
  EXPECT_EQ(read_until(on, task, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
}

TEST(gfile_mapped, files_past_the_limit_are_staged_until_others_are_closed) {
  memory_file const first{200'000, 1}, second{200'000, 2};
  instance on{[](tnd_gfile_config &config) {
    config.mapping_size_max = 300'000;
  }};
  file_task const one{first.url(), O_RDONLY, 200'000, 5000, 1},
      other{second.url(), O_RDONLY, 200'000, 5000, 2};
  ASSERT_EQ(read_until(on, one, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  // On a GPU a file is mapped when it is read again. Further reads would map the refused file,
  // since the first one is closed.
  int const reads_to_map = examples::on_gpu ? 2 : 1;
  for (int i = 0; i < reads_to_map; i++)
    run(on, check_file<this_block>, other, 2, 32);
  tnd_gfile_file const staged = *file_of(on, other.url.bytes);
  EXPECT_EQ(staged.path, u32(TND_GFILE_PATH_STAGED));
  EXPECT_NE(std::string{staged.reason}.find("mapping_size_max"), std::string::npos)
      << staged.reason;
  EXPECT_EQ(read_until(on, other, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  run(on, check_file<this_block>, one, 2, 32);
}

// A path on tmpfs, or empty without tmpfs.
std::string shared_memory_path() {
  struct statfs found{};
  if (statfs("/dev/shm", &found) != 0 || u64(found.f_type) != TMPFS_MAGIC)
    return {};
  return "/dev/shm/tanada-contract-" + std::to_string(getpid());
}

TEST(gfile_mapped, a_file_that_can_be_cut_is_mapped_on_a_gpu_only) {
  std::string const path = shared_memory_path();
  if (path.empty())
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  int const fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  write_pattern(fd, 100'000, 3);
  {
    instance on;
    file_task task{path, O_RDONLY, 100'000, 5000, 3};
    if (examples::on_gpu) {  // no mapping while an open descriptor could truncate it
      for (int i = 0; i < 3; i++)
        run(on, check_file<this_block>, task, 2, 32);
      EXPECT_EQ(file_of(on, path)->path, u32(TND_GFILE_PATH_STAGED));
    }
    close(fd);
    tnd_gfile_file const seen =
        read_until(on, task, examples::on_gpu ? TND_GFILE_PATH_MAPPED : TND_GFILE_PATH_STAGED);
    EXPECT_EQ(seen.path, u32(examples::on_gpu ? TND_GFILE_PATH_MAPPED : TND_GFILE_PATH_STAGED))
        << seen.reason;
    if (!examples::on_gpu) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT_NE(std::string{file_of(on, path)->reason}.find("sealed"), std::string::npos)
          << file_of(on, path)->reason;
    }
    // Truncated by another descriptor: calls continue to work, and the next open sees the new size.
    ASSERT_EQ(truncate(path.c_str(), 10'000), 0);
    task.size = 10'000;
    run(on, check_file<this_block>, task, 2, 32);
  }
  unlink(path.c_str());
}

TND_KERNEL void open_and_keep(gfile_ref files, text url, int *fd, verdict *to) {
  note(to, gopen(files, url.bytes, O_RDONLY, fd));
}
TND_KERNEL void read_from_to(
    gfile_ref files, const int *fd, u8 *bytes, u64 offset, u64 size, verdict *to) {
  tanada::gio_result const read = gread(files, *fd, bytes, offset, size);
  note(to, read.status);
  to->done = u32(read.size);
}
TND_KERNEL void close_kept(gfile_ref files, const int *fd, verdict *to) {
  note(to, gclose(files, *fd));
}

// Reads past the new end fail on every path. Pages that gfile has cached may still be returned:
// they hold the bytes of before. A mapping has no cached pages.
TEST(gfile_cut, while_the_file_is_open_is_an_error_past_the_new_end) {
  std::string const path = shared_memory_path() + "-cut";
  if (path == "-cut")
    GTEST_SKIP() << "no tmpfs at /dev/shm";
  int const fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  constexpr u64 size = 4u << 20;
  write_pattern(fd, size, 3);
  close(fd);
  instance on;
  file_task const task{path, O_RDONLY, size, 65536, 3};
  (void)read_until(on, task, examples::on_gpu ? TND_GFILE_PATH_MAPPED : TND_GFILE_PATH_STAGED);
  examples::device_array<int> kept(1);
  examples::device_array<u8> bytes(65536);
  examples::device_array<verdict> to(1);
  auto const launched = [&](auto kernel, auto... arguments) {
    to.clear();
    tanada::simt::launch(dim3{1, 1, 1}, dim3{1, 1, 1}, kernel, on.ref(), arguments..., to.data());
    EXPECT_EQ(on.wait(), TND_OK) << tnd_last_message();
    return to.to_host()[0];
  };
  EXPECT_EQ(launched(open_and_keep, text{path}, kept.data()).failures, 0u);
  EXPECT_EQ(
      launched(
          read_from_to, static_cast<const int *>(kept.data()), bytes.data(), u64{0}, u64{65536})
          .done,
      65536u);
  ASSERT_EQ(truncate(path.c_str(), 1u << 20), 0);
  int failed_count = 0;
  for (u64 offset = 1u << 20; offset < size; offset += 65536) {
    verdict const seen = launched(
        read_from_to, static_cast<const int *>(kept.data()), bytes.data(), offset, u64{65536});
    failed_count += int(seen.first_status) == -EIO;
    EXPECT_EQ(int(seen.first_status), seen.done == 65536 ? 0 : -EIO) << offset;
    std::vector<u8> const read = bytes.to_host();
    for (u64 i = 0; i < seen.done; i++)
      ASSERT_EQ(read[i], pattern(offset + i, 3)) << offset << " + " << i;
    if (examples::on_gpu) {
      EXPECT_EQ(seen.done, 0u) << offset;
    }
  }
  // The tiers hold at most 64 + 256 of the 768 missing pages, that is, all pages of 20 reads.
  EXPECT_GE(failed_count, 28);
  EXPECT_EQ(launched(close_kept, static_cast<const int *>(kept.data())).failures, 0u);
  unlink(path.c_str());
}

TEST(gfile_mapped, can_be_turned_off) {
  memory_file const memory{100'000, 5};
  instance on{[](tnd_gfile_config &config) {
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  file_task const task{memory.url(), O_RDONLY, 100'000, 5000, 5};
  run(on, check_file<this_block>, task, 2, 32);
  run(on, check_file<this_block>, task, 2, 32);
  EXPECT_EQ(on.statistics().mapped_copies, 0u);
  EXPECT_EQ(file_of(on, task.url.bytes)->path, u32(TND_GFILE_PATH_STAGED));
}

// ---- local files of a distributed file system, on the host executor

// The path of the one file that this process has open below such a folder, or empty.
std::string open_file_with(const std::string &part) {
  std::error_code error;
  for (const auto &each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::string const path = std::filesystem::read_symlink(each.path(), error).string();
    if (!error && path.find(part) != std::string::npos)
      return path;
  }
  return {};
}

struct part {
  int fd;  // remains open
  tanada::gio_result read;
};

TND_KERNEL void open_and_read_part(
    gfile_ref files, text url, u64 offset, u64 size, u8 *target, part *of) {
  this_block const block{};
  int fd = of->fd;
  block.sync();
  if (fd < 0 && gopen(block, files, url.bytes, O_RDONLY, &fd) != status::ok)
    return;
  tanada::gio_result const read = gread(block, files, fd, target, offset, size);
  if (block.rank() == 0)
    *of = {fd, read};
}

class local_replica : public testing::Test {
 protected:
  void SetUp() override {
    char const *const gfarm = std::getenv("TND_TEST_GFARM");
    if (gfarm == nullptr || examples::on_gpu)
      GTEST_SKIP() << "for the host executor and a Gfarm";
    std::string const here = store_prefixes()[1].substr(sizeof("file://") - 1) + "replica";
    int const fd = open(here.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    ASSERT_GE(fd, 0);
    write_pattern(fd, task_.size, task_.seed);
    close(fd);
    (void)std::system("gfrm -f /replica 2>/dev/null");
    ASSERT_EQ(std::system(("gfreg -h 127.0.0.1 " + here + " /replica").c_str()), 0);
  }

  static constexpr u64 part_size = 8192;

  tanada::gio_result read_some(instance &on, u64 offset) {
    examples::device_array<u8> target(part_size);
    tanada::simt::launch(dim3{1, 1, 1},
                         dim3{32, 1, 1},
                         open_and_read_part,
                         on.ref(),
                         task_.url,
                         offset,
                         part_size,
                         target.data(),
                         part_.data());
    EXPECT_EQ(on.wait(), TND_OK);
    return part_.to_host()[0].read;
  }

  examples::device_array<part> part_{std::vector<part>{{-1, {}}}};
  file_task task_{std::string{"gfarm:///replica"}, O_RDONLY, 300'001, 9000, 5};
};

TEST_F(local_replica, is_read_out_of_the_page_cache) {
  instance on;
  run(on, check_file<this_block>, task_, 1, 32);
  if (open_file_with("/spool").empty())
    GTEST_SKIP() << "the client takes no descriptor";
  tnd_gfile_file const seen = read_until(on, task_, TND_GFILE_PATH_MAPPED);
  ASSERT_EQ(seen.path, u32(TND_GFILE_PATH_MAPPED)) << seen.reason;
  EXPECT_NE(std::string{seen.reason}.find("page cache"), std::string::npos) << seen.reason;
  u64 const before = on.statistics().mapped_copies, misses = on.statistics().misses;
  run(on, check_file<this_warp>, task_, 2, 64);
  EXPECT_GE(on.statistics().mapped_copies, before + task_.size / task_.chunk_size);
  EXPECT_EQ(on.statistics().misses, misses);
  // Written data is read on the staged path, and then on the mapped one again.
  task_.seed = 6;
  task_.flags = O_WRONLY;
  run(on, write_file<this_block>, task_, 2, 32);
  run(on, check_file<this_block>, task_, 2, 32);
}

TEST_F(local_replica, that_is_not_in_the_cache_is_staged) {
  instance on;
  run(on, check_file<this_block>, task_, 1, 32);
  std::string const replica = open_file_with("/spool");
  if (replica.empty())
    GTEST_SKIP() << "the client takes no descriptor";
  ASSERT_EQ(read_until(on, task_, TND_GFILE_PATH_MAPPED).path, u32(TND_GFILE_PATH_MAPPED));
  int const fd = open(replica.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fdatasync(fd), 0);
  EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  run(on, check_file<this_block>, task_, 2, 32);
}

// With a mapping, a read past the new end would end this process by SIGBUS.
TEST_F(local_replica, may_be_cut_by_others) {
  instance on{[](tnd_gfile_config &config) {  // tiers too small to hold the truncated range
    config.device_tier_size = 4 * config.page_size;
    config.host_tier_size = 8 * config.page_size;
  }};
  ASSERT_EQ(read_some(on, 0).size, part_size);
  std::string const replica = open_file_with("/spool");
  if (replica.empty())
    GTEST_SKIP() << "the client takes no descriptor";
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (file_of(on, task_.url.bytes)->path != TND_GFILE_PATH_MAPPED &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_EQ(file_of(on, task_.url.bytes)->path, u32(TND_GFILE_PATH_MAPPED));
  ASSERT_EQ(truncate(replica.c_str(), 100'000), 0);
  EXPECT_EQ(read_some(on, 50'000).size, part_size);
  EXPECT_EQ(read_some(on, 200'000).status, status::io);
}

// ---- the direct window

class direct : public testing::TestWithParam<u64> {};  // pages in the window

TEST_P(direct, reads_go_through_a_window_of_any_size) {
  static u64 window_pages;
  window_pages = GetParam();
  for (const std::string &prefix : store_prefixes()) {
    instance on{[](tnd_gfile_config &config) {
      config.direct = TND_GFILE_DIRECT_ON;
      config.mapping = TND_GFILE_MAPPING_OFF;
      config.direct_window_size = window_pages * config.page_size;
      config.device_tier_size = 8 * 4096;
    }};
    file_task task{
        prefix + "direct" + std::to_string(window_pages), O_WRONLY | O_CREAT, 400'123, 9000, 4};
    run(on, write_file<this_block>, task, 4, 32);
    run(on, check_file<this_block>, task, 16, 32);
    run(on, check_file<this_warp>, task, 4, 64);
    tnd_gfile_file const seen = *file_of(on, task.url.bytes);
    bool const direct_path =
        seen.path == TND_GFILE_PATH_DIRECT || seen.path == TND_GFILE_PATH_DIRECT_COMPATIBLE;
    // On a GPU the path depends on the file system. On the host executor every store supports it.
    if (!examples::on_gpu) {
      EXPECT_EQ(seen.path, u32(TND_GFILE_PATH_DIRECT_COMPATIBLE)) << task.url.bytes;
    }
    EXPECT_EQ(seen.direct_copies > 0, direct_path) << task.url.bytes << ": " << seen.reason;
    EXPECT_TRUE(seen.path == TND_GFILE_PATH_DIRECT || seen.reason[0] != 0);
    // After each write, reads must not return the old data that the window still holds.
    for (u32 seed : {9u, 10u}) {
      task.seed = seed;
      task.flags = O_RDWR;
      run(on, write_file<this_block>, task, 4, 32);
      run(on, check_file<this_block>, task, 4, 32);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(windows, direct, testing::Values(1, 3, 64));

TEST(gfile_direct, is_off_by_default_where_a_processor_would_copy) {
  instance on{[](tnd_gfile_config &config) {
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  file_task const task{store_prefixes()[1] + "staged", O_WRONLY | O_CREAT, 50'000, 5000, 4};
  run(on, write_file<this_block>, task, 4, 32);
  run(on, check_file<this_block>, task, 4, 32);
  tnd_gfile_file const seen = *file_of(on, task.url.bytes);
  if (!examples::on_gpu) {
    EXPECT_EQ(seen.path, u32(TND_GFILE_PATH_STAGED));
    EXPECT_EQ(on.statistics().direct_copies, 0u);
  }
  EXPECT_TRUE(seen.path == TND_GFILE_PATH_DIRECT || seen.reason[0] != 0);
  EXPECT_EQ(seen.write_size, 50'000u);
  EXPECT_EQ(seen.read_size, 50'000u);
}

// ---- large reads

// On the host executor they pass the device tier, which keeps the pages of small reads.
TEST(gfile_large, reads_leave_the_pages_of_small_ones_in_the_device_tier) {
  instance on{[](tnd_gfile_config &config) {
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  constexpr u64 size = (2u << 20) + 123;
  for (const std::string &prefix : store_prefixes()) {
    file_task const small{prefix + "small", O_WRONLY | O_CREAT, 4096, 4096, 4};
    file_task large{prefix + "large", O_WRONLY | O_CREAT, size, size, 5};
    run(on, write_file<this_block>, small, 1, 32);
    run(on, write_file<this_block>, large, 1, 32);
    run(on, check_file<this_block>, small, 1, 32);
    u64 const evictions = on.statistics().device_evictions;
    run(on, check_file<this_block>, large, 1, 32);
    // The page after the last whole one may need a frame.
    EXPECT_TRUE(examples::on_gpu || on.statistics().device_evictions <= evictions + 1);
    // Written data is seen by the next large read.
    large.flags = O_RDWR;
    large.seed = 6;
    run(on, write_file<this_block>, large, 1, 32);
    run(on, check_file<this_warp>, large, 1, 32);
  }
}

// ---- counters

TEST(gfile_counters, agree_with_what_was_done) {
  instance on{[](tnd_gfile_config &config) {
    config.device_tier_size = 4 * 4096;
    config.mapping = TND_GFILE_MAPPING_OFF;
  }};
  file_task const task{store_prefixes()[0] + "counted", O_WRONLY | O_CREAT, 40 * 4096, 4096, 4};
  run(on, write_file<this_block>, task, 1, 32);
  run(on, check_file<this_block>, task, 1, 32);
  tnd_gfile_statistics const seen = on.statistics();
  EXPECT_EQ(seen.write_size, task.size);
  EXPECT_EQ(seen.read_size, task.size);
  EXPECT_EQ(seen.device_hits + seen.host_hits + seen.misses, 40u);
  EXPECT_GE(seen.device_evictions, 36u);
  u64 waits = 0;
  for (u64 bucket : seen.rpc_latency)
    waits += bucket;
  EXPECT_EQ(waits, seen.misses);
  tnd_gfile_file const file = *file_of(on, task.url.bytes);
  EXPECT_EQ(file.host_hits, seen.host_hits);
  EXPECT_EQ(file.misses, seen.misses);
  EXPECT_EQ(file.size, task.size);
  // A caller built for an older library: fewer fields are written, and no byte after them.
  struct {
    u8 bytes[sizeof(tnd_gfile_statistics)];
  } older;
  std::fill_n(older.bytes, sizeof older, u8{0xAB});
  auto &as_old = reinterpret_cast<tnd_gfile_statistics &>(older);
  as_old.struct_size = offsetof(tnd_gfile_statistics, mapped_copies);
  ASSERT_EQ(tnd_gfile_get_statistics(on.get(), &as_old), TND_OK);
  EXPECT_EQ(as_old.host_hits, seen.host_hits);
  for (size_t i = offsetof(tnd_gfile_statistics, mapped_copies); i < sizeof older; i++)
    ASSERT_EQ(older.bytes[i], 0xAB);
}

TEST(gfile_counters, of_a_file_begin_anew_with_another_url) {
  instance on{[](tnd_gfile_config &config) {
    config.file_count_max = 1;
  }};
  for (u64 pages : {30, 7}) {
    file_task const task{store_prefixes()[0] + "reused" + std::to_string(pages),
                         O_WRONLY | O_CREAT,
                         pages * 4096,
                         4096,
                         4};
    run(on, write_file<this_block>, task, 1, 32);
    run(on, check_file<this_block>, task, 1, 32);
    EXPECT_EQ(file_of(on, task.url.bytes)->read_size, task.size);
  }
  EXPECT_EQ(on.statistics().read_size, 37u * 4096);
}

}  // namespace
}  // namespace gfile_contract
