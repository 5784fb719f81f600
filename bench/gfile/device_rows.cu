// Rows for one file that several GPUs read at once: as instances of one process, and in a process
// for each GPU, which this program starts with --worker.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "files.hpp"
#include "support.cuh"

namespace bench {
namespace {

constexpr int round_count = 4;  // the first one is not counted
constexpr const char *by_hand = "by hand";

struct setting {
  const char *name;
  u32 threads;  // 0: default
  bool is_tuned, is_mapped;
};
constexpr setting settings[] = {{"default settings", 0, false, false},
                                {"tuned settings", 0, true, false},
                                {"tuned settings, 8 service threads", 8, true, false},
                                {"tuned settings, 4 service threads", 4, true, false},
                                {"mapped", 0, true, true}};

const setting &setting_of(const std::string &name) {
  for (setting const &candidate : settings)
    if (name == candidate.name)
      return candidate;
  throw std::runtime_error("no setting is called " + name);
}

tnd_gfile_config config_for(const setting &chosen, const reading &how, u32 device) {
  tnd_gfile_config config = TND_GFILE_CONFIG_INIT;
  config.device = examples::gfile_device;
  if (chosen.is_tuned)
    config = config_of(u32(how.chunk_size),
                       std::max<u64>(how.size / 16, 64u << 20),
                       how.blocks * how.chunk_size * 2,
                       chosen.threads);
  if (chosen.is_mapped)
    config.mapping = TND_GFILE_MAPPING_AUTO;
  config.device_index = device;
  return config;
}

// This thread's kernels run on the GPU of this number; there is one host executor.
u32 choose_device(u32 index) {
#if TND_SIMT_CUDA
  examples::cuda_check(cudaSetDevice(int(index)), "cudaSetDevice");
  return index;
#else
  return index * 0;
#endif
}

void wait_until_mapped(instance &on, const std::string &path, u8 *target, const reading &how) {
  double const start = now_s();
  reading const little{std::min<u64>(how.size, 1u << 20), how.chunk_size, 1};
  std::string reason;
  do {
    (void)seconds_to_read(on, path, target, how.size, little);
    if (on.path(reason) == TND_GFILE_PATH_MAPPED)
      return;
    usleep(1000);
  } while (now_s() - start < 20);
  throw std::runtime_error(path + " is not mapped: " + reason);
}

// One GPU's part: reads the whole file into its memory, with new tiers each time. `start` returns
// when all readers are prepared.
class reader {
 public:
  reader(std::string path, const reading &how, u32 device)
      : path_{std::move(path)}, how_{how}, device_{choose_device(device)}, target_(how.size) {}

  template <class Start>
  double seconds(const setting &chosen, Start start) {
    target_.clear();
    instance on{config_for(chosen, how_, device_)};
    if (chosen.is_mapped)
      wait_until_mapped(on, path_, target_.data(), how_);
    start();
    double const taken = seconds_to_read(on, path_, target_.data(), how_.size, how_);
    check_words(target_.data(), how_.size);
    return taken;
  }

  template <class Start>
  double seconds_by_hand(Start start) {
    start();
    return read_by_hand(path_, target_.data(), how_.size, on_gpu ? 8 : 2);
  }

 private:
  std::string path_;
  reading how_;
  u32 device_;
  examples::device_array<u8> target_;
};

// Medians of rounds: GB/s of all GPUs, from the common start to the last one's end, and the rate of
// the slowest GPU as a part of the fastest one's.
struct outcome {
  double rate, fairness;
};

outcome outcome_of(const std::vector<std::vector<double>> &rounds, u64 size) {
  std::vector<double> rates, parts;
  for (size_t i = 1; i < rounds.size(); i++) {
    auto const [least, most] = std::minmax_element(rounds[i].begin(), rounds[i].end());
    rates.push_back(double(size) * double(rounds[i].size()) / *most / 1e9);
    parts.push_back(*least / *most);
  }
  return {median(rates), median(parts)};
}

outcome in_one_process(u32 count,
                       const std::string &path,
                       const reading &how,
                       const setting &chosen) {
  std::vector<std::vector<double>> rounds(round_count, std::vector<double>(count));
  std::barrier meeting{std::ptrdiff_t(count)};
  std::vector<std::string> failures(count);
  std::vector<std::thread> threads;
  for (u32 i = 0; i < count; i++)
    threads.emplace_back([&, i] {
      try {
        reader part{path, how, i};
        for (auto &round : rounds)
          round[i] = part.seconds(chosen, [&] { meeting.arrive_and_wait(); });
      } catch (const std::exception &error) {
        failures[i] = error.what();
        meeting.arrive_and_drop();
      }
    });
  for (auto &thread : threads)
    thread.join();
  for (auto const &failure : failures)
    if (!failure.empty())
      throw std::runtime_error(failure);
  return outcome_of(rounds, how.size);
}

// A process that runs this program with --worker. Lines: it writes "ready", reads "go", writes the
// seconds, in each round.
class worker_process {
 public:
  worker_process(u32 device, const std::string &path, const reading &how, const char *setting) {
    int to_child[2], from_child[2];
    if (pipe2(to_child, O_CLOEXEC) != 0 || pipe2(from_child, O_CLOEXEC) != 0)
      throw std::runtime_error("pipe2 failed");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_child[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from_child[1], 1);
    std::string const self = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::string> words = {self,
                                      "--worker",
                                      setting,
                                      "--file",
                                      path,
                                      "--size",
                                      std::to_string(how.size >> 20),
                                      "--chunk",
                                      std::to_string(how.chunk_size >> 10),
                                      "--blocks",
                                      std::to_string(how.blocks)};
    std::vector<char *> arguments;
    for (auto &word : words)
      arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // The worker's only GPU. The variable does not reach other processes.
    setenv("CUDA_VISIBLE_DEVICES", std::to_string(device).c_str(), 1);
    int const code = posix_spawn(&pid_, self.c_str(), &actions, nullptr, arguments.data(), environ);
    unsetenv("CUDA_VISIBLE_DEVICES");
    posix_spawn_file_actions_destroy(&actions);
    close(to_child[0]);
    close(from_child[1]);
    input_ = fdopen(from_child[0], "r");
    output_ = fdopen(to_child[1], "w");
    if (code != 0 || input_ == nullptr || output_ == nullptr)
      throw std::runtime_error("cannot start " + self);
  }
  worker_process(const worker_process &) = delete;
  ~worker_process() {
    std::fclose(output_);
    std::fclose(input_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string line() {
    char text[64];
    if (std::fgets(text, sizeof text, input_) == nullptr)
      throw std::runtime_error("a worker has ended");
    return text;
  }
  void go() {
    std::fputs("go\n", output_);
    std::fflush(output_);
  }

 private:
  pid_t pid_ = -1;
  std::FILE *input_ = nullptr, *output_ = nullptr;
};

outcome in_processes(u32 count, const std::string &path, const reading &how, const char *setting) {
  std::vector<std::unique_ptr<worker_process>> workers;
  for (u32 i = 0; i < count; i++)
    workers.push_back(std::make_unique<worker_process>(i, path, how, setting));
  std::vector<std::vector<double>> rounds(round_count, std::vector<double>(count));
  for (auto &round : rounds) {
    for (auto &worker : workers)
      (void)worker->line();
    for (auto &worker : workers)
      worker->go();
    for (u32 i = 0; i < count; i++)
      round[i] = std::strtod(workers[i]->line().c_str(), nullptr);
  }
  return outcome_of(rounds, how.size);
}

// Bytes that threads copy within the host's memory, in GB/s.
double host_copy_rate(unsigned thread_count, u64 size) {
  std::vector<u8> source(size, 1), target(size, 2);
  u64 const part = size / thread_count;
  std::vector<double> times;
  for (int round = 0; round < round_count; round++) {
    std::vector<std::thread> threads;
    double const start = now_s();
    for (unsigned i = 0; i < thread_count; i++)
      threads.emplace_back(
          [&, i] { std::memcpy(target.data() + i * part, source.data() + i * part, part); });
    for (auto &thread : threads)
      thread.join();
    times.push_back(now_s() - start);
  }
  return double(part * thread_count) / median(times) / 1e9;
}

struct comparison {
  std::string what;
  u32 count;
  outcome all, single;
};

void add_rows(report &to, const comparison &compared) {
  std::string const single = std::to_string(compared.count) + " times one GPU";
  to.add({compared.what,
          compared.all.rate,
          "GB/s",
          single,
          compared.single.rate * compared.count,
          on_gpu ? std::optional{0.9} : std::nullopt,
          better::higher});
  to.add({compared.what + ": slowest GPU by fastest GPU",
          compared.all.fairness,
          "",
          "",
          std::nullopt,
          on_gpu ? std::optional{0.9} : std::nullopt,
          better::higher});
}

// A group of rows that fails is left out, and the others follow.
template <class Rows>
void attempt(const std::string &what, Rows rows) {
  try {
    rows();
  } catch (const std::exception &error) {
    std::fprintf(stderr, "  left out: %s: %s\n", what.c_str(), error.what());
  }
}

void process_rows(report &to, const std::string &path, const reading &how, u32 count) {
  std::string const processes = std::to_string(count) + " processes with a GPU each, ";
  std::optional<double> hand;
  attempt(by_hand, [&] { hand = in_processes(count, path, how, by_hand).rate; });
  for (const char *const name : {settings[0].name, settings[1].name})
    attempt(processes + name, [&] {
      outcome const all = in_processes(count, path, how, name);
      add_rows(to, {processes + name, count, all, in_processes(1, path, how, name)});
      to.add({processes + name,
              all.rate,
              "GB/s",
              "pread by 8 threads of each process with pinned double buffers",
              hand,
              std::nullopt,
              better::higher});
    });
}

}  // namespace

void by_devices(report &to, const std::string &folder, const reading &how, u32 count) {
  memory_backed_file const file{folder, how.size};
  std::string const &path = file.path();
  double const copied = host_copy_rate(std::max(1u, std::thread::hardware_concurrency() / 2),
                                       std::min<u64>(how.size, 2ull << 30));
  to.add({"a copy within the host's memory by half of the processors' threads",
          copied,
          "GB/s",
          "",
          std::nullopt,
          std::nullopt,
          better::higher});
  process_rows(to, path, how, count);
  for (setting const &chosen : settings) {
    if (chosen.is_mapped && !on_gpu)
      continue;  // the host executor does not map files that can be truncated
    std::string const what = std::to_string(count) + " GPUs of one process, " + chosen.name;
    attempt(what, [&] {
      outcome const all = in_one_process(count, path, how, chosen);
      add_rows(to, {what, count, all, in_one_process(1, path, how, chosen)});
    });
  }
}

int work(const std::string &path, const reading &how, const std::string &setting_name) {
  reader part{path, how, 0};
  auto const start = [] {
    char text[16];
    std::fputs("ready\n", stdout);
    std::fflush(stdout);
    if (std::fgets(text, sizeof text, stdin) == nullptr)
      throw std::runtime_error("the first process has ended");
  };
  for (int round = 0; round < round_count; round++) {
    double const taken = setting_name == by_hand ? part.seconds_by_hand(start)
                                                 : part.seconds(setting_of(setting_name), start);
    std::fputs((std::to_string(taken) + "\n").c_str(), stdout);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace bench
