// What the gfile contract tests share: a pattern, URLs, an instance a test, and kernels that write
// and check files.
#pragma once

#include <gtest/gtest.h>
#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../../examples/common/device_memory.hpp"

namespace gfile_contract {

using tanada::gfile_ref;
using tanada::status;
using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

struct text {
  char bytes[512] = {};
  text(const std::string &from) {
    from.copy(bytes, sizeof bytes - 1);
  }
};

TND_HD inline u8 pattern(u64 at, u32 seed) {
  return u8(at * 131 + (at >> 8) * 7 + (at >> 16) * 3 + seed);
}

// Kernels count what went wrong, and keep the first status.
struct verdict {
  u32 failures, first_status, bad_bytes, done;
};

TND_DEVICE inline void note(verdict *to, status code) {
  if (code == status::ok)
    return;
  u32 none = 0;
  (void)tanada::simt::device_atomic<u32>(to->failures).fetch_add_relaxed(1);
  (void)tanada::simt::device_atomic<u32>(to->first_status)
      .compare_exchange_relaxed(none, u32(int(code)));
}

struct file_task {
  text url;
  int flags;
  u64 size;        // bytes of the file
  u64 chunk_size;  // bytes a call
  u32 seed;
};

template <class Group>
TND_DEVICE u64 group_rank() {
  Group const group{};
  return tanada::simt::global_thread_rank() / group.size();
}
template <class Group>
TND_DEVICE u64 group_count() {
  Group const group{};
  return u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count() / group.size();
}

// Groups take chunks in turn. `scratch`: chunk_size bytes a group.
template <class Group>
TND_KERNEL void write_file(gfile_ref files, file_task task, u8 *scratch, verdict *to) {
  Group const group{};
  u8 *const mine = scratch + group_rank<Group>() * task.chunk_size;
  int fd = -1;
  status const opened = gopen(group, files, task.url.bytes, task.flags, &fd);
  if (group.rank() == 0)
    note(to, opened);
  if (opened != status::ok)
    return;
  for (u64 at = group_rank<Group>() * task.chunk_size; at < task.size;
       at += group_count<Group>() * task.chunk_size) {
    u64 const size = task.chunk_size < task.size - at ? task.chunk_size : task.size - at;
    for (u64 i = group.rank(); i < size; i += group.size())
      mine[i] = pattern(at + i, task.seed);
    group.sync();
    tanada::gio_result const written = gwrite(group, files, fd, mine, at, size);
    if (group.rank() == 0)
      note(to, written.size == size ? written.status : status::io);
  }
  status const closed = gclose(group, files, fd);
  if (group.rank() == 0)
    note(to, closed);
}

template <class Group>
TND_KERNEL void check_file(gfile_ref files, file_task task, u8 *scratch, verdict *to) {
  Group const group{};
  u8 *const mine = scratch + group_rank<Group>() * task.chunk_size;
  int fd = -1;
  status const opened = gopen(group, files, task.url.bytes, 0, &fd);
  if (group.rank() == 0)
    note(to, opened);
  if (opened != status::ok)
    return;
  if (gfstat(group, files, fd).size != task.size && group.rank() == 0)
    note(to, status::range);
  for (u64 at = group_rank<Group>() * task.chunk_size; at < task.size;
       at += group_count<Group>() * task.chunk_size) {
    u64 const size = task.chunk_size < task.size - at ? task.chunk_size : task.size - at;
    tanada::gio_result const read = gread(group, files, fd, mine, at, task.chunk_size);
    if (group.rank() == 0)
      note(to, read.size == size ? read.status : status::range);
    for (u64 i = group.rank(); i < read.size; i += group.size())
      if (mine[i] != pattern(at + i, task.seed))
        (void)tanada::simt::device_atomic<u32>(to->bad_bytes).fetch_add_relaxed(1);
    group.sync();
  }
  status const closed = gclose(group, files, fd);
  if (group.rank() == 0)
    note(to, closed);
}

// Where the test's files lie.
inline std::vector<std::string> store_prefixes() {
  static const std::string folder = [] {
    std::string made = (std::filesystem::temp_directory_path() / "tanada-contract-XXXXXX").string();
    if (mkdtemp(made.data()) == nullptr)
      std::abort();
    return made;
  }();
  static const struct cleaner {
    std::string folder;
    ~cleaner() {
      std::filesystem::remove_all(folder);
    }
  } at_exit{folder};
  std::vector<std::string> all{"mem://contract" + std::to_string(getpid()) + "/",
                               "file://" + folder + "/"};
  if (const char *gfarm = std::getenv("TND_TEST_GFARM"); gfarm != nullptr && *gfarm == '1')
    all.push_back("gfarm:///contract" + std::to_string(getpid()) + "-");
  if (const char *gluster = std::getenv("TND_TEST_GLUSTER"); gluster != nullptr)
    all.push_back(gluster + ("contract" + std::to_string(getpid()) + "-"));
  return all;
}

inline void write_pattern(int fd, u64 size, u32 seed) {
  std::vector<u8> bytes(size);
  for (u64 i = 0; i < size; i++)
    bytes[i] = pattern(i, seed);
  ASSERT_EQ(pwrite(fd, bytes.data(), size, 0), ssize_t(size));
}

// A file in memory that is sealed against truncation, under a path that this process can open.
class memory_file {
 public:
  memory_file(u64 size, u32 seed)
      : fd_{memfd_create("tanada-contract", MFD_CLOEXEC | MFD_ALLOW_SEALING)} {
    write_pattern(fd_, size, seed);
    EXPECT_EQ(fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  }
  ~memory_file() {
    close(fd_);
  }
  memory_file(const memory_file &) = delete;
  int fd() const {
    return fd_;
  }
  std::string url() const {
    return "/proc/self/fd/" + std::to_string(fd_);
  }

 private:
  int fd_;
};

class instance {
 public:
  explicit instance(void (*change)(tnd_gfile_config &) = [](tnd_gfile_config &) {}) {
    tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
    config.device = examples::gfile_device;
    config.page_size = 4096;
    config.device_tier_size = 64 * 4096;
    config.host_tier_size = 256 * 4096;
    config.service_threads = 1;
    change(config);
    EXPECT_EQ(tnd_gfile_create(&config, &gfile_), TND_OK) << tnd_last_message();
  }
  ~instance() {
    EXPECT_EQ(destroy(), TND_OK) << tnd_last_message();
  }
  tnd_status destroy() {
    return tnd_gfile_destroy(std::exchange(gfile_, nullptr));
  }
  tnd_gfile *get() const {
    return gfile_;
  }
  gfile_ref ref(u64 timeout_ns = 0) const {
    tnd_gfile_ref const plain = tnd_gfile_get_ref(gfile_);
    return {plain.state, timeout_ns != 0 ? timeout_ns : plain.timeout_ns};
  }
  tnd_status wait() {
    return tnd_gfile_wait(gfile_, 120'000'000'000ull);
  }
  tnd_gfile_statistics statistics() const {
    tnd_gfile_statistics all = TND_GFILE_STATISTICS_INIT;
    EXPECT_EQ(tnd_gfile_get_statistics(gfile_, &all), TND_OK);
    return all;
  }
  tnd_gfile_fault fault() const {
    tnd_gfile_fault first = TND_GFILE_FAULT_INIT;
    EXPECT_EQ(tnd_gfile_get_fault(gfile_, &first), TND_OK);
    return first;
  }

 private:
  tnd_gfile *gfile_ = nullptr;
};

// Launch a kernel(files, task, scratch, verdict) on blocks x threads and expect that nothing went
// wrong.
template <class Kernel>
void run(instance &on, Kernel kernel, const file_task &task, u32 blocks, u32 threads) {
  u64 const groups = u64(blocks) * threads;  // at most
  examples::device_array<u8> scratch(groups * task.chunk_size);
  examples::device_array<verdict> to(1);
  tanada::simt::launch(
      dim3{blocks, 1, 1}, dim3{threads, 1, 1}, kernel, on.ref(), task, scratch.data(), to.data());
  ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
  verdict const seen = to.to_host()[0];
  EXPECT_EQ(seen.failures, 0u) << "first: " << tnd_status_name(int(seen.first_status)) << " on "
                               << task.url.bytes;
  EXPECT_EQ(seen.bad_bytes, 0u) << task.url.bytes;
}

inline std::optional<tnd_gfile_file> file_of(const instance &on, const std::string &url) {
  uint32_t count = 0;
  EXPECT_EQ(tnd_gfile_get_files(on.get(), nullptr, 0, &count), TND_OK);
  std::vector<tnd_gfile_file> files(count);
  EXPECT_EQ(tnd_gfile_get_files(on.get(), files.data(), count, &count), TND_OK);
  auto const found = std::find_if(
      files.begin(), files.end(), [&](const tnd_gfile_file &each) { return url == each.url; });
  return found == files.end() ? std::nullopt : std::optional{*found};
}

// Open and read until the file takes that path; what happens in the background is given ten
// seconds.
inline tnd_gfile_file read_until(instance &on, const file_task &task, u32 path) {
  auto const limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    run(on, check_file<tanada::this_block>, task, 2, 32);
    auto const seen = file_of(on, task.url.bytes);
    if (seen && (seen->path == path || std::chrono::steady_clock::now() > limit))
      return *seen;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace gfile_contract
