// Rows for many small files: open, read, close.
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "files.hpp"
#include "support.cuh"

namespace bench {
namespace {

constexpr u64 small_size = 16u << 10;

// What the kernel reports: failures, when its first call began and its last one ended, and the sums
// of the times of its calls.
struct small_times {
  u32 failures, reserved;
  u64 negated_begin_ns, end_ns;  // negated: memory begins as zeros
  u64 open_ns, read_ns, close_ns;
};

TND_DEVICE void add(u64 &sum, u64 amount) {
  (void)tanada::simt::device_atomic<u64>(sum).fetch_add_relaxed(amount);
}

TND_DEVICE void raise_to(u64 &maximum, u64 value) {
  tanada::simt::device_atomic<u64> const word(maximum);
  for (u64 observed = word.load_relaxed(); observed < value;)
    if (word.compare_exchange_relaxed(observed, value))
      return;
}

// Warps take files in turn: those named prefix.00000 and so on.
TND_KERNEL TND_LAUNCH_BOUNDS(512) void read_small_files(gfile_ref files,
                                                        text prefix,
                                                        u32 length,
                                                        u32 count,
                                                        char *urls,
                                                        u8 *target,
                                                        small_times *times) {
  tanada::this_warp const warp{};
  u64 const me = tanada::simt::global_thread_rank() / tanada::simt::warp_size;
  u64 const warps = u64(tanada::simt::grid_size_x()) * tanada::simt::block_thread_count() /
                    tanada::simt::warp_size;
  char *const url = urls + me * sizeof prefix.bytes;
  if (warp.rank() == 0)
    for (u32 i = 0; i < length; i++)
      url[i] = prefix.bytes[i];
  for (u64 file = me; file < count; file += warps) {
    if (warp.rank() == 0) {
      u64 rest = file;
      for (u32 digit = 5; digit-- > 0; rest /= 10)
        url[length + digit] = char('0' + rest % 10);
      url[length + 5] = 0;
    }
    int fd = -1;
    u64 const begin_ns = tanada::simt::now_ns();
    status code = gopen(warp, files, url, O_RDONLY, &fd);
    u64 const opened_ns = tanada::simt::now_ns();
    u64 read_ns = opened_ns;
    if (code == status::ok) {
      tanada::gio_result const read =
          gread(warp, files, fd, target + file * small_size, 0, small_size);
      read_ns = tanada::simt::now_ns();
      code = read.size == small_size ? read.status : status::io;
      status const closed = gclose(warp, files, fd);
      if (code == status::ok)
        code = closed;
    }
    if (warp.rank() != 0)
      continue;
    u64 const end_ns = tanada::simt::now_ns();
    add(times->open_ns, opened_ns - begin_ns);
    add(times->read_ns, read_ns - opened_ns);
    add(times->close_ns, end_ns - read_ns);
    raise_to(times->negated_begin_ns, ~begin_ns);
    raise_to(times->end_ns, end_ns);
    if (code != status::ok)
      (void)tanada::simt::device_atomic<u32>(times->failures).fetch_add_relaxed(1);
  }
}

class small_files {
 public:
  small_files(const std::string &folder, u32 count)
      : folder_{folder + "/tanada-bench-files-" + std::to_string(getpid())} {
    std::filesystem::create_directory(folder_);
    std::vector<u64> content(small_size / 8);
    for (u32 i = 0; i < count; i++) {
      for (u64 k = 0; k < content.size(); k++)
        content[k] = word_at(i * small_size + k * 8);
      int const fd = open(path(i).c_str(), O_WRONLY | O_CREAT, 0644);
      if (fd < 0 || write(fd, content.data(), small_size) != ssize_t(small_size))
        throw std::runtime_error("cannot write " + path(i));
      close(fd);
    }
  }
  ~small_files() {
    std::filesystem::remove_all(folder_);
  }
  small_files(const small_files &) = delete;

  std::string prefix() const {
    return folder_ + "/f";
  }
  std::string path(u32 number) const {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%05u", number);
    return prefix() + digits;
  }

 private:
  std::string folder_;
};

double seconds_by_kernel(const small_files &all, u32 count, examples::device_array<u8> &target) {
  u32 const blocks = on_gpu ? 132 * 4 : 4;
  u64 const warps = u64(blocks) * threads_a_block() / 32;
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  instance on{config};
  examples::device_array<char> urls(warps * sizeof text::bytes);
  examples::device_array<small_times> times(1);
  text const prefix{all.prefix()};
  double const start = now_s();
  tanada::simt::launch(dim3(blocks),
                       dim3(threads_a_block()),
                       read_small_files,
                       on.ref(),
                       prefix,
                       u32(all.prefix().size()),
                       count,
                       urls.data(),
                       target.data(),
                       times.data());
  on.wait();
  double const took = now_s() - start;
  tnd_gfile_statistics const seen = on.statistics();
  small_times const sums = times.to_host()[0];
  std::fprintf(stderr,
               "    %.1f ms, in kernels %.1f; us a call: gopen %.1f, gread %.1f, gclose %.1f\n",
               took * 1e3,
               double(sums.end_ns - ~sums.negated_begin_ns) / 1e6,
               double(sums.open_ns) / count / 1e3,
               double(sums.read_ns) / count / 1e3,
               double(sums.close_ns) / count / 1e3);
  std::fprintf(stderr,
               "    %.1f k/s, %llu requests, %llu host hits, %llu misses\n",
               count / took / 1e3,
               (unsigned long long)seen.requests,
               (unsigned long long)seen.host_hits,
               (unsigned long long)seen.misses);
  if (sums.failures != 0)
    throw std::runtime_error(std::to_string(sums.failures) + " small files were not read");
  for (u32 i = 0; i < count; i += 97) {
    u64 word = 0;
    examples::copy_to_host(&word, target.data() + i * small_size + 8, 8);
    if (word != word_at(i * small_size + 8))
      throw std::runtime_error("wrong bytes in " + all.path(i));
  }
  return took;
}

}  // namespace

void opens(report &to, const std::string &folder, const std::string &where) {
  u32 const count = 10'000;
  small_files const all{folder, count};
  examples::device_array<u8> target(count * small_size);
  std::vector<double> hand, mine;
  for (int i = 0; i < 5; i++) {
    hand.push_back(read_files_by_hand([&](uint32_t number) { return all.path(number); },
                                      count,
                                      small_size,
                                      target.data(),
                                      on_gpu ? 16 : 2));
    target.clear();
    mine.push_back(seconds_by_kernel(all, count, target));
  }
  std::string const what =
      "10000 files of 16 KiB" + where + " opened, read and closed by warps, default settings";
  to.add({what,
          count / median(mine) / 1e3,
          "k/s",
          on_gpu ? "16 threads with open, pread, copy and close"
                 : "2 threads with open, pread, copy and close",
          count / median(hand) / 1e3,
          on_gpu ? std::optional<double>{1.0} : std::nullopt,
          better::higher});
}

}  // namespace bench
