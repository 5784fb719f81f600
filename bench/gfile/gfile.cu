// bench/gfile: reads and writes by kernels, against programs without gfile and against the
// hardware's limits.
//
// bench_gfile[_cuda] [--json FILE] [--file PATH] [--memory FOLDER] [--size MIB] [--chunk KIB]
//   [--blocks N]
//                      [--only miss|misses|random|sequential|memory|device|sizes|write|
//                              strings|opens|stream|defaults|devices]
//                      [--strings "OPTIONS OF string_match"] [--devices N]
//
// --file: read this file, created if it does not exist, instead of one in the temporary folder.
// --memory: a folder on tmpfs, by default /dev/shm. The rows of string matching run the example
// string_match beside this program. The rows of --devices GPUs at once run only if they are named.
// --worker SETTING is one of their processes.
//
// Settings of the instance can be overridden by TND_GFILE_...; the bars are for a GPU.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "files.hpp"
#include "support.cuh"

namespace bench {

void make_file(const std::string &path, uint64_t size) {
  int const fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0)
    throw std::runtime_error("cannot create " + path);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; t++)
    threads.emplace_back([=] {
      std::vector<u64> piece(1u << 19);
      for (u64 at = t * (4ull << 20); at < size; at += 8 * (4ull << 20)) {
        for (u64 i = 0; i < piece.size(); i++)
          piece[i] = word_at(at + i * 8);
        if (pwrite(fd, piece.data(), std::min<u64>(4u << 20, size - at), off_t(at)) < 0)
          std::perror("pwrite");
      }
    });
  for (auto &thread : threads)
    thread.join();
  close(fd);
}

namespace {

// Median seconds of three runs of the example; empty if it does not run.
std::optional<double> time_strings(const std::string &command) {
  std::vector<double> times;
  for (int i = 0; i < 4; i++) {
    FILE *const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr)
      return std::nullopt;
    std::string output;
    for (char piece[512]; std::fgets(piece, sizeof piece, pipe) != nullptr;)
      output += piece;
    size_t const at = output.find("\"total\": ");
    if (pclose(pipe) != 0 || at == std::string::npos)
      return std::nullopt;
    if (i > 0)
      times.push_back(std::strtod(output.c_str() + at + 9, nullptr));
  }
  return median(times);
}

}  // namespace

void strings(report &to, const std::string &options) {
  std::filesystem::path const self = std::filesystem::read_symlink("/proc/self/exe");
  std::string const program = self.parent_path() / (on_gpu ? "string_match_cuda" : "string_match");
  std::string const folder =
      (std::filesystem::temp_directory_path() / ("tanada-strings-" + std::to_string(getpid())))
          .string();
  std::string const command = "'" + program + "' --json --output '" + folder + "' " + options;
  std::optional<double> const with = time_strings(command),
                              without = time_strings(command + " --no-api");
  std::filesystem::remove_all(folder);
  if (!with) {
    std::fprintf(stderr, "  string matching left out: %s does not run\n", program.c_str());
    return;
  }
  to.add({"string matching, a thread a word, files read and written in kernels",
          *with * 1e3,
          "ms",
          "the same kernels, read(2) and copies",
          without ? std::optional<double>{*without * 1e3} : std::nullopt,
          on_gpu ? std::optional<double>{0.97} : std::nullopt,
          better::lower});
}

namespace {

int run(int argc, char **argv) {
  reading how{on_gpu ? 8ull << 30 : 256ull << 20, on_gpu ? 1u << 19 : 1u << 18, on_gpu ? 132u : 4u};
  std::string path, only, string_options, worker, memory = "/dev/shm";
  u32 devices = 2;
  read_options(
      argc, argv, "bench/gfile/gfile.cu", [&](const std::string &option, const char *value) {
        if (option == "--file")
          path = value;
        else if (option == "--memory")
          memory = value;
        else if (option == "--size")
          how.size = std::strtoull(value, nullptr, 10) << 20;
        else if (option == "--only")
          only = value;
        else if (option == "--chunk")
          how.chunk_size = std::strtoull(value, nullptr, 10) << 10;
        else if (option == "--strings")
          string_options = value;
        else if (option == "--devices")
          devices = u32(std::strtoul(value, nullptr, 10));
        else if (option == "--worker")
          worker = value;
        else if (option == "--blocks")
          how.blocks = u32(std::strtoul(value, nullptr, 10));
        else
          return false;
        return true;
      });
  if (!worker.empty())
    return work(path, how, worker);
  bool const temporary = path.empty();
  if (temporary)
    path = (std::filesystem::temp_directory_path() / ("tanada-bench-" + std::to_string(getpid())))
               .string();
  auto const wanted = [&](const char *part) {
    return only.empty() || only == part;
  };
  report to{on_gpu ? "gfile" : "gfile_host", device_name()};
  if (wanted("sequential")) {
    if (!std::filesystem::exists(path) || std::filesystem::file_size(path) != how.size)
      make_file(path, how.size);
    sequential(to, path, how);
    if (temporary)
      std::filesystem::remove(path);
  }
  // The host executor does not map files that can be truncated.
  if (wanted("memory") && on_gpu)
    from_memory(to, memory, how);
  if (wanted("random"))
    random_hits(to);
  if (wanted("device"))
    from_device_tier(to, how);
  if (wanted("miss"))
    miss_latency(to);
  if (wanted("misses"))
    miss_rate(to);
  if (wanted("opens")) {
    opens(to, memory, "");
    opens(to, std::filesystem::temp_directory_path(), " on a disk");
  }
  if (only == "devices")
    by_devices(to, memory, how, devices);
  if (only == "stream") {
    make_file(path, how.size);
    stream_by_default(to, path, how);
    if (temporary)
      std::filesystem::remove(path);
  }
  if (wanted("defaults")) {
    make_file(path, how.size);
    by_default(to, path, memory, how);
    if (temporary)
      std::filesystem::remove(path);
  }
  if (wanted("write"))
    writing(to, memory, how);
  if (wanted("strings"))
    strings(to, string_options);
  if (wanted("sizes"))
    by_size(to, memory, how);
  return to.finish(argc, argv);
}

}  // namespace
}  // namespace bench

int main(int argc, char **argv) {
  return bench::guarded("bench_gfile", [=] { return bench::run(argc, argv); });
}
