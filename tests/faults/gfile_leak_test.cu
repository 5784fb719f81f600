// Ten thousand files, opened, written, read and closed by kernels of one instance that knows few at a time, leave nothing
// behind: no descriptor, no thread, no memory that grows with their number.
#include <fcntl.h>

#include <fstream>

#include "../contract/gfile_support.cuh"

namespace gfile_contract {
namespace {

using tanada::this_thread;

TND_DEVICE void append(char *text, u32 &at, u64 number) {
  char digits[20];
  u32 count = 0;
  do digits[count++] = char('0' + number % 10);
  while ((number /= 10) != 0);
  while (count > 0) text[at++] = digits[--count];
  text[at] = 0;
}

// One thread; a file's name ends in its number, its bytes are that number.
TND_KERNEL void use_files(gfile_ref files, text prefix, u64 first, u64 count, verdict *to) {
  for (u64 i = first; i < first + count; i++) {
    text url = prefix;
    u32 at = 0;
    while (url.bytes[at] != 0) at++;
    append(url.bytes, at, i);
    int fd = -1;
    u64 seen = 0;
    status code = gopen(files, url.bytes, tanada::g_rdwr | tanada::g_creat, &fd);
    if (code == status::ok) code = gwrite(files, fd, &i, 0, sizeof i).status;
    if (code == status::ok) code = gread(files, fd, &seen, 0, sizeof seen).status;
    if (code == status::ok && seen != i) code = status::io;
    note(to, code);
    if (fd >= 0) note(to, gclose(files, fd));
    note(to, gunlink(files, url.bytes));
  }
}

struct usage {
  size_t descriptors = 0, threads = 0, resident_kib = 0;
};

usage usage_now() {
  usage now;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) now.descriptors += entry.path().empty() ? 0 : 1;
  std::ifstream file{"/proc/self/status"};
  for (std::string word; file >> word;) {
    if (word == "Threads:") file >> now.threads;
    if (word == "VmRSS:") file >> now.resident_kib;
  }
  return now;
}

TEST(gfile_leaks, ten_thousand_files_leave_nothing_behind) {
  constexpr u64 a_launch = 1000, warm = 2000, all = 10'000;
  for (const std::string &prefix : store_prefixes()) {
    instance on{[](tnd_gfile_config &config) { config.file_count_max = 16; }};
    usage after_warm_up;
    for (u64 first = 0; first < all; first += a_launch) {
      examples::device_array<verdict> to(1);
      tanada::simt::launch(dim3{1, 1, 1}, dim3{1, 1, 1}, use_files, on.ref(), text{prefix + "leak"}, first, a_launch, to.data());
      ASSERT_EQ(on.wait(), TND_OK) << tnd_last_message();
      verdict const seen = to.to_host()[0];
      ASSERT_EQ(seen.failures, 0u) << tnd_status_name(int(seen.first_status)) << " on " << prefix << " after " << first;
      if (first + a_launch == warm) after_warm_up = usage_now();
    }
    usage const at_end = usage_now();
    EXPECT_LE(at_end.descriptors, after_warm_up.descriptors + 2) << prefix;
    EXPECT_LE(at_end.threads, after_warm_up.threads + 2) << prefix;
    // 8,000 files more: a kilobyte lost with each would be 8 MB.
    EXPECT_LE(at_end.resident_kib, after_warm_up.resident_kib + 6'000) << prefix;
    uint32_t known = 0;
    ASSERT_EQ(tnd_gfile_get_files(on.get(), nullptr, 0, &known), TND_OK);
    EXPECT_LE(known, 16u);
  }
}

}  // namespace
}  // namespace gfile_contract
