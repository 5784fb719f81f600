// Rows for reading whole files.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "files.hpp"
#include "support.cuh"

namespace bench {
namespace {

std::string mib(u64 size) {
  return std::to_string(size >> 20) + " MiB";
}

// A host tier that fits into the processors' cache: twice the size that the blocks read at a time.
u64 host_tier_for(const reading &how) {
  return how.blocks * how.chunk_size * 2;
}

// Median seconds of cold reads: new tiers each time.
double cold_reads(const std::string &path,
                  examples::device_array<u8> &target,
                  const reading &how,
                  u64 device_tier) {
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    target.clear();
    instance on{config_of(u32(how.chunk_size), device_tier, host_tier_for(how))};
    double const took = seconds_to_read(on, path, target.data(), how.size, how);
    if (i > 0)
      times.push_back(took);
    check_words(target.data(), how.size);
  }
  return median(times);
}

double best_by_hand(const std::string &path, u8 *target, u64 size) {
  std::vector<double> few, many;
  for (int i = 0; i < 3; i++)
    few.push_back(read_by_hand(path, target, size, on_gpu ? 8 : 2));
  for (int i = 0; i < 3; i++)
    many.push_back(read_by_hand(path, target, size, on_gpu ? 16 : 4));
  return std::min(median(few), median(many));
}

std::optional<double> gpu_bar(double bar) {
  return on_gpu ? std::optional{bar} : std::nullopt;
}

// Opens the file repeatedly until its pages are mapped. Returns the seconds, or the reason why they
// are not.
double wait_until_mapped(instance &on, const std::string &path, u8 *target, const reading &how) {
  double const start = now_s();
  std::string reason;
  while (now_s() - start < 60) {
    (void)seconds_to_read(
        on, path, target, how.size, {std::min<u64>(how.size, 1u << 20), how.chunk_size, 1});
    if (on.path(reason) == TND_GFILE_PATH_MAPPED)
      return now_s() - start;
    usleep(1000);
  }
  throw std::runtime_error(path + " is not mapped: " + reason);
}

}  // namespace

void sequential(report &to, const std::string &path, const reading &how) {
  examples::device_array<u8> target(how.size);
  double const gb = double(how.size) / 1e9;
  (void)read_by_hand(path, target.data(), how.size, 4);  // warm: the file is in the page cache
  std::vector<double> pieces, whole;
  for (int i = 0; i < 3; i++)
    pieces.push_back(read_naively(path, target.data(), how.size));
  for (int i = 0; i < 3; i++)
    whole.push_back(read_whole_naively(path, target.data(), how.size));
  double const hand = best_by_hand(path, target.data(), how.size);
  double const mine = cold_reads(path, target, how, how.size / 16);
  std::string const what = "sequential read of a cached file of " + mib(how.size) + " by a kernel";
  to.add({what,
          gb / mine,
          "GB/s",
          "pread by 8 or 16 threads with pinned double buffers",
          gb / hand,
          gpu_bar(0.95),
          better::higher});
  to.add({what,
          gb / mine,
          "GB/s",
          "malloc, read(2) and cudaMemcpy of the whole, one thread",
          gb / median(whole),
          gpu_bar(12),
          better::higher});
  to.add({what,
          gb / mine,
          "GB/s",
          "pread and pageable copy by pieces of 4 MiB, one thread",
          gb / median(pieces),
          std::nullopt,
          better::higher});
  double const small = cold_reads(path, target, how, 64u << 20);
  to.add({"the same with a device tier of 64 MiB",
          gb / small,
          "GB/s",
          "the same with one of " + mib(how.size / 16),
          gb / mine,
          gpu_bar(0.85),
          better::higher});
}

void from_memory(report &to, const std::string &folder, const reading &how) {
  memory_backed_file const file{folder, how.size};
  examples::device_array<u8> target(how.size);
  double const gb = double(how.size) / 1e9,
               bare = gb / zero_copy_read(file.fd(), target.data(), how.size);
  tnd_gfile_config config = config_of(u32(how.chunk_size), how.size / 16, host_tier_for(how));
  config.mapping = TND_GFILE_MAPPING_AUTO;
  instance on{config};
  double const mapping = wait_until_mapped(on, file.path(), target.data(), how);
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    target.clear();
    times.push_back(seconds_to_read(on, file.path(), target.data(), how.size, how));
    check_words(target.data(), how.size);
  }
  std::string const what = "sequential read of " + mib(how.size) + " on tmpfs, mapped, by a kernel";
  to.add({what,
          gb / median(times),
          "GB/s",
          "bare kernel that reads the same pages",
          bare,
          gpu_bar(0.9),
          better::higher});
  to.add({"until such a file is mapped, in the background",
          mapping,
          "s",
          "",
          std::nullopt,
          std::nullopt,
          better::lower});
}

namespace {

// A row for the second and later reads of a file whose pages are all in the device tier. A kernel
// reads it several times, so that its launch and the open hardly count.
void resident_row(report &to, const reading &how, u32 page_size, const std::string &what) {
  memory_backed_file const file{"/dev/shm", how.size};
  examples::device_array<u8> target(how.size);
  // Sets fill unevenly, so reserve half as much again.
  instance on{config_of(page_size, how.size + how.size / 2, 256u << 20)};
  std::vector<double> times;
  for (int i = 0; i < 6; i++) {
    double const took = seconds_to_read(on, file.path(), target.data(), how.size, how);
    if (i > 1)
      times.push_back(took);
  }
  check_words(target.data(), how.size);
  tnd_gfile_statistics const seen = on.statistics();
  std::fprintf(stderr,
               "    device hits %llu, misses %llu\n",
               (unsigned long long)seen.device_hits,
               (unsigned long long)seen.misses);
  to.add({what,
          double(how.size * how.rounds) / median(times) / 1e9,
          "GB/s",
          "copy within the device",
          double(how.size) / device_copy(how.size) / 1e9,
          gpu_bar(page_size >= 65536 ? 0.9 : 0.5),
          better::higher});
}

}  // namespace

void from_device_tier(report &to, const reading &how) {
  u64 const size = on_gpu ? 4ull << 30 : 64u << 20;
  u32 const page = on_gpu ? 2u << 20 : 1u << 18, blocks = on_gpu ? how.blocks : 4;
  resident_row(to, {size, page, blocks}, page, "block gread of pages on the device, " + mib(size));
  for (u32 page_size : {65536u, 4096u})
    for (bool is_dense : {false, true})
      resident_row(to,
                   {size / 4, 65536, is_dense ? 2 * blocks : blocks, 8, is_dense},
                   page_size,
                   "64 KiB block gread on the device, " + std::to_string(page_size >> 10) +
                       " KiB pages, " + (is_dense ? "2 blocks" : "1 block") + " a multiprocessor");
}

namespace {

tnd_gfile_config default_config() {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  return config;
}

std::string stream_row(const reading &how) {
  return "default settings: first read of a cached file of " + mib(how.size) + " by a kernel";
}

// Median seconds of first reads with these settings: new tiers each time.
double first_reads(const std::string &path,
                   examples::device_array<u8> &target,
                   const reading &how,
                   const tnd_gfile_config &config) {
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    target.clear();
    instance on{config};
    double const took = seconds_to_read(on, path, target.data(), how.size, how);
    if (i > 0)
      times.push_back(took);
    check_words(target.data(), how.size);
  }
  return median(times);
}

}  // namespace

void stream_by_default(report &to, const std::string &path, const reading &how) {
  examples::device_array<u8> target(how.size);
  double const gb = double(how.size) / 1e9;
  double const hand = best_by_hand(path, target.data(), how.size);
  double const tuned = cold_reads(path, target, how, how.size / 16);
  double const plain = first_reads(path, target, how, default_config());
  std::string const what = stream_row(how);
  to.add({what,
          gb / plain,
          "GB/s",
          "with settings tuned for it",
          gb / tuned,
          gpu_bar(0.85),
          better::higher});
  to.add({what,
          gb / plain,
          "GB/s",
          "pread by 8 or 16 threads with pinned double buffers",
          gb / hand,
          gpu_bar(0.85),
          better::higher});
}

void by_default(report &to,
                const std::string &path,
                const std::string &memory,
                const reading &how) {
  stream_by_default(to, path, how);
  examples::device_array<u8> target(how.size);
  double const gb = double(how.size) / 1e9;
  std::string const what = stream_row(how);
  // Settings that a user might change, to show which one matters.
  for (u32 page : {64u << 10, 256u << 10, 1u << 20})
    for (u64 host : {128ull << 20, 512ull << 20}) {
      tnd_gfile_config config = default_config();
      config.page_size = page;
      config.host_tier_size = host;
      double const took = first_reads(path, target, how, config);
      to.add({what + ", but pages of " + std::to_string(page >> 10) + " KiB and a host tier of " +
                  mib(host),
              gb / took,
              "GB/s",
              "",
              std::nullopt,
              std::nullopt,
              better::higher});
    }
  memory_backed_file const file{memory, how.size};
  tnd_gfile_config config = default_config();
  double const mapped = first_reads(file.path(), target, how, config);
  config.mapping = TND_GFILE_MAPPING_OFF;
  double const unmapped = first_reads(file.path(), target, how, config);
  to.add({"default settings: first read of " + mib(how.size) + " on tmpfs by a kernel",
          gb / mapped,
          "GB/s",
          "the same with TND_GFILE_MAPPING=off",
          gb / unmapped,
          gpu_bar(0.95),
          better::higher});
}

void by_size(report &to, const std::string &folder, const reading &how) {
  for (u64 size = 1u << 20; size <= how.size; size *= 8) {
    examples::device_array<u8> target(size);
    memory_backed_file const file{folder, size};
    u64 const chunk = std::clamp<u64>(size / how.blocks / 65536 * 65536, 65536, how.chunk_size);
    u64 const page = u64{1} << (63 - __builtin_clzll(chunk));
    reading const this_size{size, page, u32(std::min<u64>(how.blocks, (size + page - 1) / page))};
    std::vector<double> naive;
    for (int i = 0; i < 3; i++)
      naive.push_back(read_whole_naively(file.path(), target.data(), size));
    double const hand = best_by_hand(file.path(), target.data(), size);
    double const staged =
        cold_reads(file.path(), target, this_size, std::max<u64>(size / 16, 64u << 20));
    tnd_gfile_config config =
        config_of(u32(page), std::max<u64>(size / 16, 64u << 20), host_tier_for(this_size));
    config.mapping = TND_GFILE_MAPPING_AUTO;
    std::optional<double> direct;
    if (on_gpu) {
      instance on{config};
      (void)wait_until_mapped(on, file.path(), target.data(), this_size);
      std::vector<double> times;
      for (int i = 0; i < 4; i++)
        times.push_back(seconds_to_read(on, file.path(), target.data(), size, this_size));
      direct = median(times);
    }
    std::string const what = "figure 6, " + mib(size) + ": ";
    to.add({what + "without the direct path",
            staged * 1e3,
            "ms",
            "no API: read(2) and cudaMemcpy",
            median(naive) * 1e3,
            std::nullopt,
            better::lower});
    to.add({what + "without the direct path",
            staged * 1e3,
            "ms",
            "no API, by hand: threads, pinned buffers",
            hand * 1e3,
            std::nullopt,
            better::lower});
    if (direct)
      to.add({what + "with the direct path",
              *direct * 1e3,
              "ms",
              "no API: read(2) and cudaMemcpy",
              median(naive) * 1e3,
              std::nullopt,
              better::lower});
  }
}

}  // namespace bench
