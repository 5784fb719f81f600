// bench/gfile/gfarm: the experiments of the paper behind gfile over Gfarm: figure 6 (sequential
// reads whose servers' disks are cold) and figure 7 (string matching), and reads of cached files.
//
// bench_gfarm[_cuda] [--json FILE] [--only sizes|strings|cached] [--rounds N] [--size-max MIB]
//   [--spool FOLDER ...] [--scratch FOLDER] [--dictionary FILE --text FILE] [--text-limit KIB]
//
// It runs beside a Gfarm: tests/fixtures/gfarm.py run -- bench_gfarm. Its environment names the
// configuration, and TND_TEST_GLUSTER a volume that is read, too. --spool: the servers' folders,
// whose files are dropped from the page cache before each read; without it the caches stay warm.
// tools/bench_gfarm.sh does all this.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "no_api.hpp"
#include "support.cuh"

namespace bench {

namespace {

constexpr char folder_url[] = "gfarm:///bench";
constexpr char connect_url[] = "gfarm:///bench/connect";

struct settings {
  std::string only, scratch = ".", dictionary, text;
  std::vector<std::string> spools;
  u64 size_max = on_gpu ? 4096ull << 20 : 64ull << 20, text_size_max = on_gpu ? ~0ull : 256u << 10;
  u32 rounds = 3;
};

// A server by its name in Gfarm: the client reads files of the first by a descriptor, and files of
// the second over TCP.
struct server {
  const char *host;
  std::string what;
};
constexpr std::array hosts{"127.0.0.1", "127.0.0.2"};

std::vector<server> servers() {
  return {{hosts[0], "local replica"}, {hosts[1], "replica over TCP"}};
}

void run_tool(const std::vector<std::string> &words) {
  pid_t const child = fork();
  if (child < 0)
    throw std::runtime_error("fork failed");
  if (child == 0) {
    std::vector<char *> arguments;
    for (const std::string &word : words)
      arguments.push_back(const_cast<char *>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  int state = 0;
  if (waitpid(child, &state, 0) != child || state != 0)
    throw std::runtime_error(words[0] + " failed");
}

void store(const std::string &path, const std::string &url, const std::string &host) {
  run_tool({"gfreg", "-h", host, path, url});
}

// A file on the scratch disk, removed with this object.
class scratch_file {
 public:
  explicit scratch_file(const settings &use)
      : path_{use.scratch + "/tanada-gfarm-" + std::to_string(getpid())} {}
  ~scratch_file() {
    unlink(path_.c_str());
  }
  scratch_file(const scratch_file &) = delete;
  const std::string &path() const {
    return path_;
  }
  void fill(const std::string &bytes) const {
    std::ofstream to{path_, std::ios::binary | std::ios::trunc};
    to << bytes;
    close(to);
  }

 private:
  void close(std::ofstream &to) const {
    to.close();
    if (!to)
      throw std::runtime_error("cannot write " + path_);
  }
  std::string path_;
};

// How many of the file's pages are in the page cache.
u64 cached_pages(int fd, u64 size) {
  if (size == 0)
    return 0;
  void *const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    throw std::runtime_error("mmap of a spool's file failed");
  std::vector<unsigned char> pages((size + 4095) / 4096);
  int const code = mincore(mapped, size, pages.data());
  munmap(mapped, size);
  if (code != 0)
    throw std::runtime_error("mincore failed");
  return u64(std::count_if(
      pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }));
}

void drop_cache_of(const std::string &path) {
  int const fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat found{};
  if (fd < 0)
    throw std::runtime_error("cannot open " + path);
  (void)fdatasync(fd);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  u64 const rest = fstat(fd, &found) == 0 ? cached_pages(fd, u64(found.st_size)) : 0;
  close(fd);
  if (rest > 16)
    throw std::runtime_error(path + " stays in memory: its disk cannot be cold (tmpfs?)");
}

void drop_caches(const settings &use) {
  for (const std::string &spool : use.spools)
    for (const auto &entry : std::filesystem::recursive_directory_iterator(spool))
      if (entry.is_regular_file())
        drop_cache_of(entry.path());
}

std::string mib(u64 size) {
  return std::to_string(size >> 20) + " MiB";
}

// Chunks that occupy all blocks, of 512 KiB at most.
reading reading_of(u64 size) {
  u32 const block_count = on_gpu ? 132 : 2;
  u64 const share = std::max<u64>(size / block_count, 65536);
  u64 const chunk = std::min<u64>(u64{1} << (63 - __builtin_clzll(share)), 512u << 10);
  return {size, chunk, u32(std::min<u64>(block_count, (size + chunk - 1) / chunk))};
}

std::string path_of(u32 path) {
  switch (path) {
    case TND_GFILE_PATH_MAPPED:
      return "mapped";
    case TND_GFILE_PATH_DIRECT:
      return "direct";
    case TND_GFILE_PATH_DIRECT_COMPATIBLE:
      return "direct, a processor copies";
    default:
      return "staged";
  }
}

struct kernel_read {
  double seconds = 0;
  std::string path, reason;
};

void find_path(const instance &on, const std::string &url, kernel_read &read) {
  std::vector<tnd_gfile_file> files(8);
  uint32_t count = 0;
  check(tnd_gfile_get_files(on.get(), files.data(), uint32_t(files.size()), &count), "files");
  for (u32 i = 0; i < std::min<u32>(count, u32(files.size())); i++) {
    if (url != files[i].url)
      continue;
    read.path = path_of(files[i].path);
    read.reason = files[i].reason;
  }
}

// Reads the file until kernels read its own pages, for at most ten seconds. Files that kernels
// never read so are read three times.
void wait_until_mapped(instance &on, const std::string &url, u8 *target, const reading &how) {
  double const start = now_s();
  kernel_read read;
  for (u32 count = 0; read.path != "mapped" && now_s() - start < 10; count++) {
    if (count == 3 && read.reason.find("mapped") == std::string::npos)
      return;
    (void)seconds_to_read(on, url, target, how.size, how);
    find_path(on, url, read);
  }
}

// Opens the file, reads it into device memory, and closes it. The servers are connected before.
// `is_prepared`: kernels have read the file before, so its pages are mapped if they can be.
kernel_read read_by_kernels(
    const std::string &url, u64 size, u32 direct, u32 mapping, bool is_prepared = false) {
  reading const how = reading_of(size);
  tnd_gfile_config config = config_of(
      u32(how.chunk_size), 256u << 20, std::max<u64>(how.blocks * how.chunk_size * 2, 8u << 20));
  config.direct = direct;
  config.mapping = mapping;
  config.direct_window_size = 64u << 20;  // as in the paper
  instance on{config};
  examples::device_array<u8> target(size);
  (void)seconds_to_read(on, connect_url, target.data(), size, {1, 4096, 1});
  if (is_prepared)
    wait_until_mapped(on, url, target.data(), how);
  kernel_read read;
  read.seconds = seconds_to_read(on, url, target.data(), size, how);
  check_words(target.data(), size);
  find_path(on, url, read);
  return read;
}

// The file's content is that of make_file().
void write_by_kernels(const std::string &url, u64 size) {
  std::vector<u64> words(size / 8);
  for (u64 i = 0; i < words.size(); i++)
    words[i] = word_at(i * 8);
  examples::device_array<u64> const source(words);
  reading const how = reading_of(size);
  instance on{config_of(u32(how.chunk_size), 64u << 20, 64u << 20)};
  launch_write(on, url, reinterpret_cast<const u8 *>(source.data()), size, how);
  on.wait();
}

// Seconds of each of the three programs in alternating rounds.
struct curves {
  std::vector<double> no_api, staged, direct;
  kernel_read last_direct;
};

std::optional<double> gpu_bar(double bar) {
  return on_gpu ? std::optional{bar} : std::nullopt;
}

double median_ratio(const std::vector<double> &values, const std::vector<double> &rivals) {
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size(); i++)
    ratios.push_back(values[i] / rivals[i]);
  return median(ratios);
}

void add_row(report &to,
             const std::string &what,
             const std::vector<double> &values,
             const curves &measured,
             std::optional<double> bar) {
  row next{what,
           median(values) * 1e3,
           "ms",
           "no API: libgfarm's reads of 1 MiB and copies to the device",
           median(measured.no_api) * 1e3,
           bar,
           better::lower};
  next.ratio = median_ratio(values, measured.no_api);
  to.add(next);
}

// The bars are the paper's own worst ratios.
void add_curves(report &to, const std::string &what, const curves &measured) {
  add_row(to, what + ": without the direct path", measured.staged, measured, gpu_bar(1.3));
  const kernel_read &direct = measured.last_direct;
  if (direct.path == "staged") {
    std::fprintf(stderr,
                 "  %s: no direct path: %s\n",
                 what.c_str(),
                 direct.reason.empty() ? "none is offered" : direct.reason.c_str());
    return;
  }
  add_row(to,
          what + ": with the direct path (" + direct.path + ")",
          measured.direct,
          measured,
          gpu_bar(1.01));
}

std::string disk_state(const settings &use) {
  return use.spools.empty() ? "in memory" : "cold disk";
}

// Without a processor's copies between the store and the kernels, where the machine can do that:
// pages in the server's memory are read in place, and others go through the direct window.
kernel_read read_directly(const settings &use, const std::string &url, u64 size) {
  bool const is_cold = !use.spools.empty();
  return read_by_kernels(url,
                         size,
                         is_cold ? TND_GFILE_DIRECT_ON : TND_GFILE_DIRECT_AUTO,
                         is_cold ? TND_GFILE_MAPPING_OFF : TND_GFILE_MAPPING_AUTO,
                         !is_cold && on_gpu);
}

// Reads the file by each of the three programs, in rounds of which the first one is not counted.
curves measure_read(no_api_process &no_api, const settings &use, const std::string &url, u64 size) {
  curves measured;
  for (u32 round = 0; round <= use.rounds; round++) {
    drop_caches(use);
    double const by_hand = no_api.read(url, size);
    drop_caches(use);
    kernel_read const staged =
        read_by_kernels(url, size, TND_GFILE_DIRECT_OFF, TND_GFILE_MAPPING_OFF);
    drop_caches(use);
    measured.last_direct = read_directly(use, url, size);
    if (round == 0)
      continue;
    measured.no_api.push_back(by_hand);
    measured.staged.push_back(staged.seconds);
    measured.direct.push_back(measured.last_direct.seconds);
  }
  return measured;
}

void sizes(report &to, no_api_process &no_api, const settings &use) {
  for (u64 size = 1u << 20; size <= use.size_max; size *= 8) {
    for (const server &source : servers()) {
      std::string const name = "/bench/size-" + std::to_string(size >> 20) + "-" + source.host;
      std::string const url = "gfarm://" + name;
      no_api.create(url, source.host, size);
      add_curves(to,
                 "figure 6, " + mib(size) + ", " + source.what + ", " + disk_state(use),
                 measure_read(no_api, use, url, size));
      run_tool({"gfrm", name});
    }
  }
}

string_files store_strings(const settings &use, const server &on) {
  std::string const prefix = std::string{folder_url} + "/" + on.host + "-";
  string_files const files{
      prefix + "dictionary", prefix + "list", prefix + "counts", use.text_size_max};
  scratch_file const scratch{use};
  store(use.dictionary, files.dictionary, on.host);
  store(use.text, prefix + "text", on.host);
  scratch.fill(prefix + "text\n");
  store(scratch.path(), files.list, on.host);
  return files;
}

curves measure_strings(no_api_process &no_api, const settings &use, const string_files &files) {
  curves measured;
  for (u32 round = 0; round <= use.rounds; round++) {
    drop_caches(use);
    match_time const by_hand = no_api.match(files);
    drop_caches(use);
    match_time const staged = match_by_kernels(files, TND_GFILE_DIRECT_OFF);
    drop_caches(use);
    match_time const direct = match_by_kernels(files, TND_GFILE_DIRECT_ON);
    if (staged.counts_hash != by_hand.counts_hash || direct.counts_hash != by_hand.counts_hash)
      throw std::runtime_error("the counts by kernels differ from those without gfile");
    if (round == 0)
      continue;
    measured.no_api.push_back(by_hand.seconds);
    measured.staged.push_back(staged.seconds);
    measured.direct.push_back(direct.seconds);
  }
  return measured;
}

void strings(report &to, no_api_process &no_api, const settings &use) {
  if (use.dictionary.empty() || use.text.empty()) {
    std::fprintf(stderr, "  string matching left out: --dictionary and --text are not given\n");
    return;
  }
  for (const server &source : servers()) {
    curves const measured = measure_strings(no_api, use, store_strings(use, source));
    std::string const what = "figure 7, string matching, " + source.what + ", " + disk_state(use);
    add_row(to, what + ": without the direct path", measured.staged, measured, gpu_bar(0.97));
    add_row(to, what + ": with TND_GFILE_DIRECT=on", measured.direct, measured, gpu_bar(0.97));
  }
}

// Reads of a file that its server has in memory, with the settings that a user gets.
void cached_row(report &to,
                const std::string &url,
                const std::string &what,
                u64 size,
                const std::vector<double> &rival) {
  std::vector<double> seconds;
  kernel_read last;
  for (u32 round = 0; round < 4; round++) {
    last = read_by_kernels(url, size, TND_GFILE_DIRECT_AUTO, TND_GFILE_MAPPING_AUTO);
    if (round > 0)
      seconds.push_back(last.seconds);
  }
  double const gb = double(size) / 1e9;
  row next{"sequential read of " + mib(size) + " by kernels, " + what + " (" + last.path + ")",
           gb / median(seconds),
           "GB/s",
           "",
           std::nullopt,
           std::nullopt,
           better::higher};
  if (!rival.empty()) {
    next.rival = "no API: libgfarm's reads of 1 MiB and copies to the device";
    next.rival_value = gb / median(rival);
  }
  to.add(next);
}

void cached(report &to, no_api_process &no_api, const settings &use) {
  u64 const size = std::min<u64>(use.size_max, on_gpu ? 1024u << 20 : 64u << 20);
  for (const server &source : servers()) {
    std::string const url = std::string{folder_url} + "/cached-" + source.host;
    no_api.create(url, source.host, size);
    std::vector<double> rival;
    for (u32 round = 0; round < 4; round++)
      rival.push_back(no_api.read(url, size));
    rival.erase(rival.begin());
    cached_row(to, url, source.what, size, rival);
  }
  const char *const gluster = std::getenv("TND_TEST_GLUSTER");
  if (gluster == nullptr)
    return;
  std::string const url = std::string{gluster} + "cached";
  write_by_kernels(url, size);
  cached_row(to, url, "GlusterFS, two bricks on loopback", size, {});
}

bool take_option(settings &use, const std::string &word, const char *value) {
  if (value == nullptr)
    return false;
  if (word == "--only")
    use.only = value;
  else if (word == "--scratch")
    use.scratch = value;
  else if (word == "--dictionary")
    use.dictionary = value;
  else if (word == "--text")
    use.text = value;
  else if (word == "--spool")
    use.spools.emplace_back(value);
  else if (word == "--size-max")
    use.size_max = std::strtoull(value, nullptr, 10) << 20;
  else if (word == "--text-limit")
    use.text_size_max = std::strtoull(value, nullptr, 10) << 10;
  else if (word == "--rounds")
    use.rounds = u32(std::strtoul(value, nullptr, 10));
  else
    return false;
  return true;
}

int run(int argc, char **argv) {
  settings use;
  read_options(argc, argv, "bench/gfile/gfarm.cu", [&](const std::string &word, const char *value) {
    return take_option(use, word, value);
  });
  if (use.rounds == 0)
    throw std::runtime_error("--rounds is at least 1");
  no_api_process no_api;
  report to{on_gpu ? "gfarm" : "gfarm_host", on_gpu ? examples::device_name() : "host executor"};
  auto const is_wanted = [&](const char *part) {
    return use.only.empty() || use.only == part;
  };
  run_tool({"gfmkdir", "/bench"});
  no_api.create(connect_url, hosts[0], 4096);
  if (is_wanted("cached"))
    cached(to, no_api, use);
  if (is_wanted("strings"))
    strings(to, no_api, use);
  if (is_wanted("sizes"))
    sizes(to, no_api, use);
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_gfarm", [=] { return bench::run(argc, argv); });
}
