// tanada pool bench: how fast objects of given sizes are put and got from here.
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
#include "pool_place.hpp"
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
  const char *path = "";  // of the last
};

figures figures_of(std::vector<double> &times, uint64_t size) {
  figures made;
  made.count = times.size();
  for (double const each : times)
    made.seconds += each;
  std::sort(times.begin(), times.end());
  auto const at = [&](double share) {
    return times[std::min(times.size() - 1, size_t(share * double(times.size())))];
  };
  made.p50_s = at(0.5);
  made.p99_s = at(0.99);
  made.size_per_s = made.seconds > 0 ? double(size) * double(made.count) / made.seconds : 0;
  return made;
}

nlohmann::json figures_json(const figures &of) {
  return {{"count", of.count},
          {"seconds", of.seconds},
          {"p50_ns", of.p50_s * 1e9},
          {"p99_ns", of.p99_s * 1e9},
          {"path", of.path},
          {"bytes_per_second", of.size_per_s},
          {"objects_per_second", of.seconds > 0 ? double(of.count) / of.seconds : 0}};
}

// nullopt: told.
std::optional<std::vector<uint64_t>> parse_sizes(const std::string &text, answer &told) {
  std::vector<uint64_t> sizes;
  std::istringstream words{text};
  for (std::string word; std::getline(words, word, ',');) {
    auto size = parse_size(word);
    if (!size.ok() || sizes.size() == 32) {
      told.fail("--sizes " + text, -EINVAL, "give sizes such as 4KiB,64MiB");
      return std::nullopt;
    }
    sizes.push_back(std::move(size).value());
  }
  for (uint64_t const each : sizes)
    if (each == 0 || each > object_size_max) {
      told.fail("--sizes " + text, -EINVAL, "a size is 1 B to 16 GiB");
      return std::nullopt;
    }
  return sizes;
}

// One object that is put and got again and again, and removed at the end, after an interruption,
// too.
class bench {
 public:
  bench(const pool_bench_options &wanted, tnd_pool *pool, const place &at, answer &told)
      : wanted_{wanted}, pool_{pool}, told_{told} {
    std::string const prefix = at.at.object.empty() ? "" : at.at.object + "/";
    name_ = prefix + "tanada-bench-" + std::to_string(::getpid());
  }
  ~bench() {
    if (is_there_)
      (void)!tnd_pool_remove(pool_, name_.c_str(), 0);
  }
  bench(const bench &) = delete;
  bench &operator=(const bench &) = delete;

  size_t count() const noexcept {
    return count_;
  }  // of sizes that were measured

  bool run(uint64_t size) {
    if (!has_room(size))
      return true;
    memory_.assign(size, std::byte{0x5A});
    uint32_t const flags = TND_POOL_EVICTABLE | (wanted_.durable ? uint32_t(TND_POOL_DURABLE) : 0u);
    is_there_ = true;
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
    if (wanted_.json)
      told_.document()["results"].push_back(
          {{"size", size}, {"put", figures_json(*put)}, {"get", figures_json(*get)}});
    else
      print(size, *put, *get);
    return true;
  }

 private:
  // A put makes a new version beside the one that it replaces. What is evictable belongs to others
  // and is not to go for this.
  bool has_room(uint64_t size) {
    if (is_there_) {
      (void)!tnd_pool_remove(pool_, name_.c_str(), 0);
      is_there_ = false;
    }
    tnd_pool_statistics all{};
    all.struct_size = sizeof all;
    if (tnd_pool_get_statistics(pool_, &all) != TND_OK)
      return true;  // the put will fail with the reason
    uint64_t const pool_room = all.capacity - std::min(all.capacity, all.used);
    uint64_t const quota_room = all.space_quota - std::min(all.space_quota, all.space_used);
    uint64_t const room = all.space_quota != 0 ? std::min(pool_room, quota_room) : pool_room;
    if (size <= room / 2)
      return true;
    std::fprintf(
        stderr,
        "tanada: objects of %s are left out: two versions of one need %s, and %s are free\n",
        size_text(double(size)).c_str(), size_text(2 * double(size)).c_str(),
        size_text(double(room)).c_str());
    told_.document()["left_out"].push_back(size);
    return false;
  }

  // At least three rounds after one that does not count, until the time is over.
  template <class Call>
  std::optional<figures> measure(uint64_t size, const Call &call) {
    std::vector<double> times;
    auto const start = clock::now();
    for (bool is_first = true;; is_first = false) {
      auto const before = clock::now();
      if (tnd_status const code = call(); code != TND_OK) {
        told_.fail(wanted_.url, code);
        return std::nullopt;
      }
      auto const after = clock::now();
      if (interruption_came() != 0)
        return std::nullopt;
      if (!is_first)
        times.push_back(std::chrono::duration<double>(after - before).count());
      bool const is_over = std::chrono::duration<double>(after - start).count() >= wanted_.seconds;
      if ((!is_over || times.size() < 3) && times.size() < round_count_max)
        continue;
      figures made = figures_of(times, size);
      made.path = last_path_name(pool_);
      return made;
    }
  }

  static void print(uint64_t size, const figures &put, const figures &get) {
    for (auto const &[name, of] : {std::pair{"put", put}, std::pair{"get", get}})
      std::printf("%10s  %s  %12s/s  %10.0f objects/s  p50 %9s  p99 %9s  by %s\n",
                  size_text(double(size)).c_str(), name, size_text(of.size_per_s).c_str(),
                  of.seconds > 0 ? double(of.count) / of.seconds : 0,
                  duration_text(of.p50_s).c_str(), duration_text(of.p99_s).c_str(), of.path);
    std::fflush(stdout);
  }

  pool_bench_options const &wanted_;
  tnd_pool *const pool_;
  answer &told_;
  std::string name_;
  size_t count_ = 0;
  bool is_there_ = false;
  std::vector<std::byte> memory_;
};

}  // namespace

int pool_bench(const pool_bench_options &wanted) {
  answer told{wanted.json};
  auto const at = place_parse(wanted.url, told);
  auto const sizes = parse_sizes(wanted.sizes, told);
  if (at && !at->is_pool)
    told.fail(wanted.url, -EINVAL, "give pool://host[:port]/namespace");
  if (!at || !at->is_pool || !sizes) {
    told.finish();
    return 2;
  }
  pool_session session{wanted, told};
  tnd_pool *const pool = session.connect(at->at);
  if (pool == nullptr)
    return told.finish();
  interruption_defer();
  {
    bench measured{wanted, pool, *at, told};
    for (uint64_t const size : *sizes)
      if (!measured.run(size))
        break;
    bool const has_failed = told.has_failed() || interruption_came() != 0;
    if (measured.count() == 0 && !has_failed)
      told.fail(wanted.url, -ENOSPC, "no size has room here: give smaller --sizes");
  }
  told.document()["connections"] = session.connections_json();
  if (int const signal_number = interruption_came(); signal_number != 0)
    ::raise(signal_number);
  return told.finish();
}

}  // namespace tanada::command
