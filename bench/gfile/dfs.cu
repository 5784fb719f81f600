// bench/gfile/dfs: files of distributed file systems, read by kernels on the host executor, against
// the best loop of the client library, in the same run.
//
// bench_dfs [--json FILE] [--rounds N] [--chunk KIB] [--blocks N] [--fill MIB] [+]URL=WHAT ...
//
// WHAT becomes part of the row's name ("local replica"). The servers must run and the files exist,
// except those with a +: a kernel creates them, with the size of --fill. tools/bench.sh does all
// this.
#include <sys/mman.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <vector>

#include "../../examples/common/device_memory.hpp"
#include "../common/check.hpp"
#include "../common/report.hpp"
#include "dfs_rivals.hpp"
#include "text.hpp"

namespace bench {
namespace {

using tanada::gfile_ref;
using tanada::status;
using tanada::u32;
using tanada::u64;
using tanada::u8;
using tanada::simt::dim3;

// Memory that a child process fills and the parent sees.
class shared_bytes {
 public:
  explicit shared_bytes(u64 size) : size_{size} {
    void *const made = mmap(
        nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (made == MAP_FAILED)
      throw std::runtime_error("no memory for the file");
    addr_ = static_cast<u8 *>(made);
  }
  ~shared_bytes() {
    munmap(addr_, size_);
  }
  shared_bytes(const shared_bytes &) = delete;
  shared_bytes &operator=(const shared_bytes &) = delete;
  u8 *data() const {
    return addr_;
  }

 private:
  u64 size_;
  u8 *addr_;
};

// A value measured in a process of its own: a client library is initialized once in a process, and
// in this process by the plugin.
template <class Number>
Number in_child(const std::function<Number()> &find) {
  shared_bytes answer{sizeof(Number)};
  pid_t const child = fork();
  if (child < 0)
    throw std::runtime_error("fork failed");
  if (child == 0) {
    try {
      Number const found = find();
      std::memcpy(answer.data(), &found, sizeof found);
      _exit(0);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "bench_dfs: %s\n", error.what());
      _exit(1);
    }
  }
  int state = 0;
  if (waitpid(child, &state, 0) != child || state != 0)
    throw std::runtime_error("the client library's reader failed");
  Number found;
  std::memcpy(&found, answer.data(), sizeof found);
  return found;
}

// The file stays open, and its servers are connected, as with the client library's loop.
TND_KERNEL void open_file(gfile_ref files, text url, u8 *target, u64 size, int *fd) {
  if (gopen(files, url.bytes, O_RDONLY, fd) == status::ok)
    (void)gread(files, *fd, target, 0, size);
}

// Blocks take chunks of the open file in turn.
TND_KERNEL void read_whole(
    gfile_ref files, const int *open_fd, u8 *target, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  int const fd = *open_fd;
  for (u64 at = tanada::simt::block_rank() * chunk_size; at < size;
       at += tanada::simt::grid_size_x() * chunk_size)
    (void)gread(block, files, fd, target + at, at, chunk_size < size - at ? chunk_size : size - at);
}

TND_KERNEL void close_file(gfile_ref files, const int *fd) {
  (void)gclose(files, *fd);
}

// Each word of the file contains its position.
TND_KERNEL void write_whole(gfile_ref files, text url, u64 *words, u64 size, u64 chunk_size) {
  tanada::this_block const block{};
  int fd = -1;
  if (gopen(block, files, url.bytes, O_RDWR | O_CREAT | O_TRUNC, &fd) != status::ok)
    return;
  for (u64 at = 0; at < size; at += chunk_size) {
    for (u64 i = block.rank(); i < chunk_size / 8; i += block.size())
      words[i] = (at / 8 + i) * 0x9E3779B97F4A7C15ull;
    block.sync();
    (void)gwrite(block, files, fd, words, at, chunk_size);
  }
  (void)gclose(block, files, fd);
}

struct reading {
  u64 chunk_size = 2u << 20;  // bytes
  u32 blocks = 2, rounds = 5;
};

void end(tnd_gfile *gfile) {
  tnd_gfile_fault fault = TND_GFILE_FAULT_INIT;
  check(tnd_gfile_get_fault(gfile, &fault), "fault");
  check(fault.status, "a call in the kernel");
  check(tnd_gfile_destroy(gfile), "tnd_gfile_destroy");
}

void fill(const std::string &url, u64 size) {
  u64 const chunk_size = 1u << 20;
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  tnd_gfile *gfile = nullptr;
  check(tnd_gfile_create(&config, &gfile), "tnd_gfile_create");
  tnd_gfile_ref const plain = tnd_gfile_get_ref(gfile);
  std::vector<u64> words(chunk_size / 8);
  tanada::simt::launch(dim3(1),
                       dim3(32),
                       write_whole,
                       gfile_ref{plain.state, plain.timeout_ns},
                       text{url},
                       words.data(),
                       size,
                       chunk_size);
  check(tnd_gfile_wait(gfile, TND_NO_DEADLINE), "wait");
  end(gfile);
}

// Kernels read the file with cold tiers. It is open, and its first bytes were read.
dfs_time read_by_kernel(const std::string &url, u8 *target, u64 size, const reading &how) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = TND_GFILE_DEVICE_HOST;
  config.page_size = u32(how.chunk_size);
  // Small, because on the host executor all tiers are the same memory, and data in the processor's
  // cache would be read twice.
  config.device_tier_size = how.blocks * how.chunk_size;
  config.host_tier_size = how.blocks * how.chunk_size * 3;
  tnd_gfile *gfile = nullptr;
  check(tnd_gfile_create(&config, &gfile), "tnd_gfile_create");
  tnd_gfile_ref const plain = tnd_gfile_get_ref(gfile);
  gfile_ref const files{plain.state, plain.timeout_ns};
  examples::device_array<int> fd(1);
  u64 const first_size = size < 4096 ? size : 4096;
  tanada::simt::launch(
      dim3(1), dim3(1), open_file, files, text{url}, target, first_size, fd.data());
  check(tnd_gfile_wait(gfile, TND_NO_DEADLINE), "wait");
  dfs_clock const clock;
  tanada::simt::launch(dim3(how.blocks),
                       dim3(32),
                       read_whole,
                       files,
                       static_cast<const int *>(fd.data()),
                       target,
                       size,
                       how.chunk_size);
  check(tnd_gfile_wait(gfile, TND_NO_DEADLINE), "wait");
  dfs_time const took = clock.stop();
  tanada::simt::launch(dim3(1), dim3(1), close_file, files, static_cast<const int *>(fd.data()));
  check(tnd_gfile_wait(gfile, TND_NO_DEADLINE), "wait");
  end(gfile);
  return took;
}

dfs_rival rival_of(const std::string &url) {
  std::vector<dfs_rival> known;
#if BENCH_GFARM
  known.push_back(gfarm_rival());
#endif
#if BENCH_GLUSTER
  known.push_back(gluster_rival());
#endif
  for (const dfs_rival &each : known)
    if (url.starts_with(std::string(each.scheme) + "://"))
      return each;
  throw std::runtime_error(url + ": no client library for this scheme");
}

void measure(report &to, const std::string &url, const std::string &what, const reading &how) {
  dfs_rival const rival = rival_of(url);
  u64 const size = in_child<u64>([&] { return rival.size_of(url); });
  if (size == 0)
    throw std::runtime_error(url + " is empty");
  shared_bytes theirs{size}, mine{size};
  auto const by_library = [&](const dfs_loop &loop) {
    return in_child<dfs_time>([&] {
      std::memset(theirs.data(),
                  0,
                  size);  // take the page faults of first touches before the clock starts
      return rival.read(url, theirs.data(), size, loop);
    });
  };
  dfs_loop best;
  double best_s = 1e9;
  for (bool asynchronous : {false, true})
    for (unsigned threads : {1u, 2u, 4u, 16u})
      for (u64 piece : {u64(128) << 10, u64(512) << 10, u64(1) << 20, u64(4) << 20}) {
        if ((asynchronous && !rival.has_asynchronous) || (!asynchronous && threads > 4))
          continue;
        dfs_loop const loop{threads, asynchronous, piece};
        double const took = std::min(by_library(loop).wall_s, by_library(loop).wall_s);
        if (took < best_s) {
          best = loop;
          best_s = took;
        }
      }
  std::vector<double> rival_times, my_times, rival_processor, my_processor;
  for (u32 i = 0; i <= how.rounds; i++) {
    std::memset(mine.data(), 0, size);
    dfs_time const library = by_library(best), kernel = read_by_kernel(url, mine.data(), size, how);
    if (std::memcmp(mine.data(), theirs.data(), size) != 0)
      throw std::runtime_error(url + ": other bytes than the library's");
    if (i == 0)
      continue;  // warm
    rival_times.push_back(library.wall_s);
    my_times.push_back(kernel.wall_s);
    rival_processor.push_back(library.processor_s);
    my_processor.push_back(kernel.processor_s);
  }
  double const gb = double(size) / 1e9;
  std::string const read =
      "sequential read of " + std::to_string(size >> 20) + " MiB, " + rival.scheme + ", " + what;
  std::string const loop = "the client library, " + std::to_string(best.threads) +
                           (best.asynchronous ? " reads in flight" : " threads") + ", pieces of " +
                           std::to_string(best.piece_size >> 10) + " KiB";
  to.add(
      {read, gb / median(my_times), "GB/s", loop, gb / median(rival_times), 0.95, better::higher});
  to.add({read + ": processor time of the client",
          median(my_processor) / gb,
          "s/GB",
          loop,
          median(rival_processor) / gb,
          1.3,
          better::lower});
}

int run(int argc, char **argv) {
  reading how;
  u64 fill_size = 256u << 20;
  std::vector<std::string> files;
  read_options(argc, argv, "bench/gfile/dfs.cu", [&](const std::string &word, const char *value) {
    if (value == nullptr)
      files.push_back(word);
    else if (word == "--chunk")
      how.chunk_size = std::strtoull(value, nullptr, 10) << 10;
    else if (word == "--blocks")
      how.blocks = u32(std::strtoul(value, nullptr, 10));
    else if (word == "--rounds")
      how.rounds = u32(std::strtoul(value, nullptr, 10));
    else if (word == "--fill")
      fill_size = std::strtoull(value, nullptr, 10) << 20;
    else
      return false;
    return true;
  });
  if (files.empty())
    throw std::runtime_error("no URL; see the head of bench/gfile/dfs.cu");
  report to{"dfs", "host executor"};
  for (const std::string &each : files) {
    size_t const mark = each.rfind('=');
    if (mark == std::string::npos)
      throw std::runtime_error(each + ": not URL=WHAT");
    bool const is_made = each.starts_with('+');
    std::string const url = each.substr(is_made ? 1 : 0, mark - (is_made ? 1 : 0));
    if (is_made)
      fill(url, fill_size);
    measure(to, url, each.substr(mark + 1), how);
  }
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_dfs", [=] { return bench::run(argc, argv); });
}
