// Ten thousand files, opened, written, read and closed by kernels of one instance with a small
// limit, leave nothing behind: no descriptor, no thread, no memory that grows with their number.
// The instance leaves no descriptor either. Under AddressSanitizer the leak checker covers the
// rest.
#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "../../contract/gfile_support.cuh"

namespace gfile_contract {
namespace {

using tanada::this_thread;

TND_DEVICE void append(char *text, u32 &at, u64 number) {
  char digits[20];
  u32 count = 0;
  do {
    digits[count++] = char('0' + number % 10);
    number /= 10;
  } while (number != 0);
  while (count > 0)
    text[at++] = digits[--count];
  text[at] = 0;
}

// One thread; a file's name ends in its number, and its bytes are that number.
TND_KERNEL void use_files(gfile_ref files, text prefix, u64 first, u64 count, verdict *to) {
  for (u64 i = first; i < first + count; i++) {
    text url = prefix;
    u32 at = 0;
    while (url.bytes[at] != 0)
      at++;
    append(url.bytes, at, i);
    int fd = -1;
    u64 seen = 0;
    status code = gopen(files, url.bytes, tanada::g_rdwr | tanada::g_creat, &fd);
    if (code == status::ok)
      code = gwrite(files, fd, &i, 0, sizeof i).status;
    if (code == status::ok)
      code = gread(files, fd, &seen, 0, sizeof seen).status;
    if (code == status::ok && seen != i)
      code = status::io;
    note(to, code);
    if (fd >= 0)
      note(to, gclose(files, fd));
    note(to, gunlink(files, url.bytes));
  }
}

struct usage {
  size_t descriptors = 0, threads = 0, resident_kib = 0;
};

usage usage_now() {
  usage now;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
    now.descriptors += entry.path().empty() ? 0 : 1;
  std::ifstream file{"/proc/self/status"};
  for (std::string word; file >> word;) {
    if (word == "Threads:")
      file >> now.threads;
    if (word == "VmRSS:")
      file >> now.resident_kib;
  }
  return now;
}

// What has grown, as text; "" if nothing has.
std::string growth(const usage &before, const usage &now, const usage &allowed) {
  std::string told;
  auto const compare = [&](const char *what, size_t was, size_t is, size_t slack) {
    if (is > was + slack)
      told +=
          std::string(what) + ": " + std::to_string(was) + " and then " + std::to_string(is) + "; ";
  };
  compare("descriptors", before.descriptors, now.descriptors, allowed.descriptors);
  compare("threads", before.threads, now.threads, allowed.threads);
  compare("memory in KiB", before.resident_kib, now.resident_kib, allowed.resident_kib);
  return told;
}

constexpr u64 files_a_launch = 1000, files_to_warm_up = 2000;
// While the instance runs, two of each may come and go with its work. A kilobyte lost with each of
// 8,000 files is 8 MB.
constexpr usage allowed_while_it_runs{.descriptors = 2, .threads = 2, .resident_kib = 6'000};

// `after_launch` is called after each thousand files. Returns what grew after the warm-up.
std::string use_all(const std::string &prefix,
                    u64 files_in_all,
                    const std::function<void()> &after_launch) {
  instance on{[](tnd_gfile_config &config) {
    config.file_count_max = 16;
  }};
  usage after_warm_up;
  for (u64 first = 0; first < files_in_all; first += files_a_launch) {
    examples::device_array<verdict> to(1);
    tanada::simt::launch(dim3{1, 1, 1},
                         dim3{1, 1, 1},
                         use_files,
                         on.ref(),
                         text{prefix + "leak"},
                         first,
                         files_a_launch,
                         to.data());
    EXPECT_EQ(on.wait(), TND_OK) << tnd_last_message();
    verdict const seen = to.to_host()[0];
    EXPECT_EQ(seen.failures, 0u) << tnd_status_name(int(seen.first_status)) << " on " << prefix
                                 << " after " << first;
    after_launch();
    if (first + files_a_launch == files_to_warm_up)
      after_warm_up = usage_now();
  }
  uint32_t known = 0;
  EXPECT_EQ(tnd_gfile_get_files(on.get(), nullptr, 0, &known), TND_OK);
  EXPECT_LE(known, 16u);
  return growth(after_warm_up, usage_now(), allowed_while_it_runs);
}

TEST(gfile_leaks, ten_thousand_files_leave_nothing_behind) {
  std::vector<std::string> const prefixes =
      store_prefixes();  // a temporary folder is created at the first use
  for (const std::string &prefix : prefixes) {
    size_t const descriptors_at_start = usage_now().descriptors;
    EXPECT_EQ(use_all(prefix, 10'000, [] {}), "") << prefix;
    EXPECT_EQ(usage_now().descriptors, descriptors_at_start) << prefix;
  }
}

// The planted leak is lost with each thousand files, of which two thousand come after the warm-up.
constexpr u64 files_with_a_plant = 4000;

TEST(gfile_leaks, lost_descriptors_would_be_seen) {
  std::vector<int> lost;
  std::string const told = use_all("mem://", files_with_a_plant, [&] {
    for (int i = 0; i < 2; i++)
      lost.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  });
  for (int fd : lost)
    close(fd);
  EXPECT_NE(told.find("descriptors:"), std::string::npos) << told;
}

TEST(gfile_leaks, lost_memory_would_be_seen) {
  std::vector<std::vector<char>> lost;
  std::string const told =
      use_all("mem://", files_with_a_plant, [&] { lost.emplace_back(6 << 20, 'x'); });
  EXPECT_NE(told.find("memory in KiB:"), std::string::npos) << told;
}

TEST(gfile_leaks, lost_threads_would_be_seen) {
  std::promise<void> over;
  std::shared_future<void> const until{over.get_future()};
  std::vector<std::thread> lost;
  std::string const told = use_all("mem://", files_with_a_plant, [&] {
    for (int i = 0; i < 2; i++)
      lost.emplace_back([until] { until.wait(); });
  });
  over.set_value();
  for (std::thread &each : lost)
    each.join();
  EXPECT_NE(told.find("threads:"), std::string::npos) << told;
}

}  // namespace
}  // namespace gfile_contract
