// Shared parts of the fault tests: kernels from lambdas, readers that run until they are stopped,
// statuses by name.
//
// Only on the host executor, so kernels and tests share their memory.
#pragma once

#include "../../contract/gfile_support.cuh"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace gfile_faults {

using namespace gfile_contract;

inline constexpr u64 second_ns = 1'000'000'000;

inline u64 now_ns() {
  return u64(std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
}

template <class Body>
TND_KERNEL void call_body(Body body) {
  body();
}

// Launches `body` in `blocks` blocks of one thread each, without waiting.
template <class Body>
void start(Body body, u32 blocks = 1) {
  tanada::simt::launch(dim3{blocks, 1, 1}, dim3{1, 1, 1}, call_body<Body>, body);
}

// Launches `body` and waits for it; returns the status of tnd_gfile_wait.
template <class Body>
tnd_status perform(instance &on, Body body, u32 blocks = 1) {
  start(body, blocks);
  return on.wait();
}

inline const char *name(status code) {
  return tnd_status_name(int(code));
}

// Returns true once `ready` is; false if that takes longer than the limit.
inline bool await(const std::function<bool()> &ready, u64 limit_ns) {
  u64 const end_ns = now_ns() + limit_ns;
  while (!ready()) {
    if (now_ns() > end_ns)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
  }
  return true;
}

// Reads a file of `size` bytes of pattern() at random positions, repeatedly.
struct reader {
  std::string url;
  u64 size = 0;
  u32 seed = 0;
  std::atomic<u64> read_count{0}, failure_count{0}, bad_bytes{0}, slowest_ns{0};
  std::atomic<int> first_failure{0}, last_status{0}, opened{1};
  int fd = -1;  // open already

  // In a kernel; by one thread.
  void run(gfile_ref files, const std::atomic<bool> &stop) {
    if (fd < 0) {
      status const code = gopen(files, url.c_str(), tanada::g_rdonly, &fd);
      opened = int(code);
      if (code != status::ok)
        return;
    }
    opened = 0;
    u64 state = seed + 1;
    while (!stop) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      read_one(files, (state >> 20) % (size - sizeof(u64)));
    }
    (void)gclose(files, std::exchange(fd, -1));
  }

  void read_one(gfile_ref files, u64 offset) {
    u8 bytes[8] = {};
    u64 const begin_ns = now_ns();
    tanada::gio_result const got = gread(files, fd, bytes, offset, sizeof bytes);
    u64 const took_ns = now_ns() - begin_ns;
    if (took_ns > slowest_ns)
      slowest_ns = took_ns;
    last_status = int(got.status);
    if (got.status != status::ok) {
      int none = 0;
      first_failure.compare_exchange_strong(none, int(got.status));
      failure_count++;
      return;
    }
    for (u32 i = 0; i < sizeof bytes; i++)
      bad_bytes += bytes[i] != pattern(offset + i, seed);
    read_count++;
  }
};

inline std::string pattern_bytes(u64 size, u32 seed) {
  std::string bytes(size, '\0');
  for (u64 i = 0; i < size; i++)
    bytes[i] = char(pattern(i, seed));
  return bytes;
}

inline std::string content(const std::string &path) {
  std::ifstream in{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

inline void put(const std::string &path, const std::string &bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}

// A folder of the test, removed with this object.
struct test_folder {
  std::string path = (std::filesystem::temp_directory_path() / "tanada-faults-XXXXXX").string();
  test_folder() {
    if (mkdtemp(path.data()) == nullptr)
      std::abort();
    std::filesystem::permissions(path, std::filesystem::perms{0755});
  }
  ~test_folder() {
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_all);  // a test may have removed them
    std::filesystem::remove_all(path);
  }
};

}  // namespace gfile_faults
