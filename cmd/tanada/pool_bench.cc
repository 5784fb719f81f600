// cmd/tanada/pool_bench.cc: tanada pool bench, which measures puts and gets of objects of given
// sizes.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <sstream>

#include "core/base/config.hpp"
#include "interruption.hpp"
#include "pool_commands.hpp"
#include "pool_location.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

using clock = std::chrono::steady_clock;

constexpr size_t round_count_max = 1'000'000;
constexpr uint64_t object_size_max = uint64_t{16} << 30;  // bytes: the buffer is as large

struct figures {
  size_t count = 0;
  double seconds = 0, p50_s = 0, p99_s = 0;
  double size_per_s = 0;  // bytes
  const char *path = "";  // of the last transfer
};

figures figures_of(std::vector<double> &times, uint64_t size) {
  figures result;
  result.count = times.size();
  for (double const time : times)
    result.seconds += time;
  std::sort(times.begin(), times.end());
  auto const percentile = [&](double share) {
    return times[std::min(times.size() - 1, size_t(share * double(times.size())))];
  };
  result.p50_s = percentile(0.5);
  result.p99_s = percentile(0.99);
  result.size_per_s = result.seconds > 0 ? double(size) * double(result.count) / result.seconds : 0;
  return result;
}

nlohmann::json figures_json(const figures &values) {
  return {{"count", values.count},
          {"seconds", values.seconds},
          {"p50_ns", values.p50_s * 1e9},
          {"p99_ns", values.p99_s * 1e9},
          {"path", values.path},
          {"bytes_per_second", values.size_per_s},
          {"objects_per_second", values.seconds > 0 ? double(values.count) / values.seconds : 0}};
}

// Returns nullopt after reporting an error.
std::optional<std::vector<uint64_t>> parse_sizes(const std::string &text, command_report &report) {
  std::vector<uint64_t> sizes;
  std::istringstream stream{text};
  for (std::string word; std::getline(stream, word, ',');) {
    auto size = parse_size(word);
    if (!size.ok() || sizes.size() == 32) {
      report.fail("--sizes " + text, -EINVAL, "give sizes such as 4KiB,64MiB");
      return std::nullopt;
    }
    sizes.push_back(std::move(size).value());
  }
  for (uint64_t const size_value : sizes)
    if (size_value == 0 || size_value > object_size_max) {
      report.fail("--sizes " + text, -EINVAL, "a size is 1 B to 16 GiB");
      return std::nullopt;
    }
  return sizes;
}

// An object that is put and got repeatedly, and removed at the end, also after an interruption.
class bench {
 public:
  bench(const pool_bench_options &options,
        tnd_pool *pool,
        const location &target,
        command_report &report)
      : options_{options}, pool_{pool}, report_{report} {
    std::string const prefix = target.address.object.empty() ? "" : target.address.object + "/";
    name_ = prefix + "tanada-bench-" + std::to_string(::getpid());
  }
  ~bench() {
    if (exists_)
      (void)!tnd_pool_remove(pool_, name_.c_str(), 0);
  }
  bench(const bench &) = delete;
  bench &operator=(const bench &) = delete;

  size_t count() const noexcept {
    return count_;
  }  // sizes that were measured

  bool run(uint64_t size) {
    if (!has_free_space(size))
      return true;
    memory_.assign(size, std::byte{0x5A});
    uint32_t const flags =
        TND_POOL_EVICTABLE | (options_.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
    exists_ = true;
    auto const put = measure(size, [&] {
      return tnd_pool_put(pool_, name_.c_str(), memory_.data(), size, flags, nullptr);
    });
    if (!put)
      return false;
    uint64_t got = 0;
    auto const get = measure(
        size, [&] { return tnd_pool_get(pool_, name_.c_str(), memory_.data(), size, &got, 0); });
    if (!get)
      return false;
    count_++;
    if (options_.json)
      report_.document()["results"].push_back(
          {{"size", size}, {"put", figures_json(*put)}, {"get", figures_json(*get)}});
    else
      print(size, *put, *get);
    return true;
  }

 private:
  // A put creates a new version beside the one that it replaces. Evictable objects belong to other
  // users and must not be evicted for a benchmark.
  bool has_free_space(uint64_t size) {
    if (exists_) {
      (void)!tnd_pool_remove(pool_, name_.c_str(), 0);
      exists_ = false;
    }
    tnd_pool_statistics statistics{};
    statistics.struct_size = sizeof statistics;
    if (tnd_pool_get_statistics(pool_, &statistics) != TND_OK)
      return true;  // the put will fail and report the reason
    uint64_t const pool_free_size =
        statistics.capacity - std::min(statistics.capacity, statistics.used);
    uint64_t const quota_free_size =
        statistics.space_quota - std::min(statistics.space_quota, statistics.space_used);
    uint64_t const free_size =
        statistics.space_quota != 0 ? std::min(pool_free_size, quota_free_size) : pool_free_size;
    if (size <= free_size / 2)
      return true;
    std::fprintf(stderr,
                 "tanada: skipping objects of %s: two versions of one need %s, and %s are free\n",
                 size_text(double(size)).c_str(),
                 size_text(2 * double(size)).c_str(),
                 size_text(double(free_size)).c_str());
    report_.document()["left_out"].push_back(size);
    return false;
  }

  // Runs one warm-up round, then at least three rounds, until the time is over.
  template <class Call>
  std::optional<figures> measure(uint64_t size, const Call &call) {
    std::vector<double> times;
    auto const start = clock::now();
    for (bool is_first = true;; is_first = false) {
      auto const call_start = clock::now();
      if (tnd_status const code = call(); code != TND_OK) {
        report_.fail(options_.url, code);
        return std::nullopt;
      }
      auto const call_end = clock::now();
      if (interruption_signal() != 0)
        return std::nullopt;
      if (!is_first)
        times.push_back(std::chrono::duration<double>(call_end - call_start).count());
      bool const is_over =
          std::chrono::duration<double>(call_end - start).count() >= options_.seconds;
      if ((!is_over || times.size() < 3) && times.size() < round_count_max)
        continue;
      figures result = figures_of(times, size);
      result.path = last_path_name(pool_);
      return result;
    }
  }

  static void print(uint64_t size, const figures &put, const figures &get) {
    for (auto const &[name, values] : {std::pair{"put", put}, std::pair{"get", get}})
      std::printf("%10s  %s  %12s/s  %10.0f objects/s  p50 %9s  p99 %9s  by %s\n",
                  size_text(double(size)).c_str(),
                  name,
                  size_text(values.size_per_s).c_str(),
                  values.seconds > 0 ? double(values.count) / values.seconds : 0,
                  duration_text(values.p50_s).c_str(),
                  duration_text(values.p99_s).c_str(),
                  values.path);
    std::fflush(stdout);
  }

  pool_bench_options const &options_;
  tnd_pool *const pool_;
  command_report &report_;
  std::string name_;
  size_t count_ = 0;
  bool exists_ = false;
  std::vector<std::byte> memory_;
};

}  // namespace

int pool_bench(const pool_bench_options &options) {
  command_report report{options.json};
  auto const target = location_parse(options.url, report);
  auto const sizes = parse_sizes(options.sizes, report);
  if (target && !target->is_pool)
    report.fail(options.url, -EINVAL, "give pool://host[:port]/namespace");
  if (!target || !target->is_pool || !sizes) {
    report.finish();
    return 2;
  }
  pool_session session{options, report};
  tnd_pool *const pool = session.connect(target->address);
  if (pool == nullptr)
    return report.finish();
  interruption_defer();
  {
    bench measured{options, pool, *target, report};
    for (uint64_t const size : *sizes)
      if (!measured.run(size))
        break;
    bool const has_failed = report.has_failed() || interruption_signal() != 0;
    if (measured.count() == 0 && !has_failed)
      report.fail(options.url, -ENOSPC, "no size fits into the free space: give smaller --sizes");
  }
  report.document()["connections"] = session.connections_json();
  if (int const signal_number = interruption_signal(); signal_number != 0)
    ::raise(signal_number);
  return report.finish();
}

}  // namespace tanada::command
