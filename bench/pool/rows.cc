#include "rows.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

namespace bench {
namespace {

constexpr unsigned client_count = 4;

double gb_s(double seconds, uint64_t size) {
  return double(size) / seconds / 1e9;
}

const timings &side(const outcome &one, bool is_put) {
  return is_put ? one.put : one.get;
}

const timings *side_of(const std::map<std::string, outcome> &found, const char *id, bool is_put) {
  auto const at = found.find(id);
  return at == found.end() ? nullptr : &side(at->second, is_put);
}

// The pool against each rival, if there is a pool.
void duel_rows(report &out,
               field &all,
               const std::map<std::string, outcome> &found,
               const std::vector<duel> &duels,
               const std::string &what,
               bool is_put,
               uint64_t size) {
  for (const duel &each : duels) {
    const timings *const mine = side_of(found, each.mine, is_put);
    if (mine == nullptr)
      continue;
    row made = compare(what + ", " + all.label(each.mine),
                       *mine,
                       all.label(each.theirs),
                       side_of(found, each.theirs, is_put),
                       size);
    made.bar = each.bar;
    out.add(made);
  }
}

// Each rival against the reference.
void rival_rows(report &out,
                field &all,
                const std::map<std::string, outcome> &found,
                const char *measure,
                const std::string &what,
                bool is_put,
                uint64_t size) {
  for (const auto &[id, each] : found) {
    if (id == id::pool_local || id == id::pool_tcp)
      continue;
    bool const is_measure = id == measure;
    out.add(compare(what + ", " + all.label(id),
                    side(each, is_put),
                    is_measure ? "" : all.label(measure),
                    is_measure ? nullptr : side_of(found, measure, is_put),
                    size));
  }
}

std::string size_name(uint64_t size) {
  if (size >> 20 == 0)
    return std::to_string(size >> 10) + " KiB";
  return size >> 30 != 0 ? std::to_string(size >> 30) + " GiB"
                         : std::to_string(size >> 20) + " MiB";
}

}  // namespace

row compare(const std::string &what,
            const timings &mine,
            const std::string &rival,
            const timings *theirs,
            uint64_t size) {
  row made;
  made.what = what;
  made.unit = size != 0 ? "GB/s" : "us";
  made.direction = size != 0 ? better::higher : better::lower;
  made.value = size != 0 ? gb_s(mine.median_s(), size) : mine.median_s() * 1e6;
  made.rival = rival;
  if (theirs != nullptr) {
    made.rival_value = size != 0 ? gb_s(theirs->median_s(), size) : theirs->median_s() * 1e6;
    made.ratio = size != 0 ? ratio_of_rounds(*theirs, mine) : ratio_of_rounds(mine, *theirs);
  }
  return made;
}

void bulk_rows(report &out, field &all) {
  auto const found = contest(all,
                             {id::memcpy,
                              id::tcp,
                              id::memcached_unix,
                              id::memcached_tcp,
                              id::nfs,
                              id::mooncake,
                              id::mooncake_engine,
                              id::nixl,
                              id::redis_unix,
                              id::redis_tcp,
                              id::pool_local,
                              id::pool_tcp},
                             {bulk_size, 9, 2});
  std::vector<duel> const duels{{id::pool_tcp, id::tcp, 0.9},
                                {id::pool_tcp, id::mooncake, 2},
                                {id::pool_tcp, id::memcached_tcp, {}},
                                {id::pool_local, id::memcpy, 0.8},
                                {id::pool_local, id::memcached_unix, 2},
                                {id::pool_local, id::nixl, {}}};
  for (bool const is_put : {true, false}) {
    std::string const what = is_put ? "64 MiB put" : "64 MiB get";
    duel_rows(out, all, found, duels, what, is_put, bulk_size);
    rival_rows(out, all, found, id::tcp, what, is_put, bulk_size);
  }
}

namespace {

// Gets of many objects in turn, of which a client's cache of recent ones holds few, or all.
std::vector<double> scattered_get_s(client &store, unsigned key_count) {
  std::vector<uint8_t> const source(4096, 9);
  std::vector<uint8_t> target(source.size());
  for (unsigned i = 0; i < key_count; i++)
    (void)store.put("scattered" + std::to_string(i), source.data(), source.size(), 1);
  std::vector<double> seconds;
  for (unsigned i = 0; i < std::max(2 * key_count, 5000u); i++) {
    unsigned const key = unsigned(uint64_t{i} * 7919 % key_count);
    double const took =
        store.get("scattered" + std::to_string(key), target.data(), target.size(), 1).front();
    if (i >= key_count)
      seconds.push_back(took);
  }
  return seconds;
}

void scattered_rows(report &out, field &all) {
  for (unsigned const key_count : {100u, 10000u})
    for (const char *const each : {id::memcached_unix, id::pool_local, id::pool_tcp}) {
      if (!all.has(each))
        continue;
      try {
        double const p50_s = median(scattered_get_s(all.connection(each), key_count));
        out.add({"4 KiB get p50, " + std::to_string(key_count) + " objects by turns, " +
                     all.label(each),
                 p50_s * 1e6,
                 "us",
                 "",
                 {},
                 {},
                 better::lower});
      } catch (const std::runtime_error &error) {
        all.leave(each, error.what());
      }
    }
}

}  // namespace

void small_rows(report &out, field &all) {
  auto const found = contest(all,
                             {id::tcp,
                              id::memcached_unix,
                              id::memcached_tcp,
                              id::nfs,
                              id::mooncake,
                              id::mooncake_engine,
                              id::nixl,
                              id::redis_unix,
                              id::redis_tcp,
                              id::pool_local,
                              id::pool_tcp},
                             {4096, 9, 300});
  std::vector<duel> const duels{{id::pool_tcp, id::tcp, 1.3},
                                {id::pool_tcp, id::memcached_tcp, {}},
                                {id::pool_local, id::memcached_unix, {}},
                                {id::pool_local, id::nixl, {}}};
  if (const timings *const mine = side_of(found, id::pool_local, false)) {
    row made = compare("4 KiB get p50, " + all.label(id::pool_local), *mine, "", nullptr, 0);
    made.bar = 2;
    out.add(made);
  }
  for (bool const is_put : {false, true}) {
    std::string const what = is_put ? "4 KiB put" : "4 KiB get";
    std::vector<duel> held = duels;
    if (is_put)
      held.front().bar.reset();  // the bar is for gets
    duel_rows(out, all, found, held, what + " p50", is_put, 0);
    rival_rows(out, all, found, id::tcp, what + " p50", is_put, 0);
    for (const auto &[id, each] : found)
      out.add({what + " p99, " + all.label(id),
               side(each, is_put).part_s(0.99) * 1e6,
               "us",
               "",
               {},
               {},
               better::lower});
  }
  scattered_rows(out, all);
}

namespace {

// Objects per second of four clients of one store, each with its own connection.
double rate_of(rival &store,
               const std::vector<uint8_t> &source,
               unsigned round,
               double duration_s) {
  std::vector<std::unique_ptr<client>> clients;
  for (unsigned i = 0; i < client_count; i++)
    clients.push_back(store.connect());
  std::vector<double> rates(client_count, 0);
  std::vector<std::string> errors(client_count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < client_count; i++)
    threads.emplace_back([&, i] {
      try {
        rates[i] =
            clients[i]->put_many("many" + std::to_string(round) + "_" + std::to_string(i) + "_",
                                 source.data(),
                                 duration_s);
      } catch (const std::runtime_error &error) {
        errors[i] = error.what();
      }
    });
  for (auto &each : threads)
    each.join();
  double sum = 0;
  for (unsigned i = 0; i < client_count; i++) {
    if (!errors[i].empty())
      throw std::runtime_error(errors[i]);
    sum += rates[i];
  }
  return sum;
}

}  // namespace

void rate_rows(report &out, field &all) {
  constexpr unsigned rounds = 3;
  constexpr double duration_s = 2;
  std::vector<uint8_t> const source(4096, 7);
  std::map<std::string, std::vector<double>> rates;
  for (unsigned round = 0; round < rounds; round++)
    for (const char *const each :
         {id::mooncake, id::memcached_unix, id::memcached_tcp, id::pool_local, id::pool_tcp}) {
      if (!all.has(each))
        continue;
      try {
        rates[each].push_back(rate_of(all.store(each), source, round, duration_s));
      } catch (const std::runtime_error &error) {
        all.leave(each, error.what());
        rates.erase(each);
      }
    }
  auto const theirs = rates.find(id::mooncake);
  for (const auto &[each, mine] : rates) {
    bool const is_pool = each == id::pool_local || each == id::pool_tcp;
    row made{"4 KiB puts committed by 4 clients, " + all.label(each),
             median(mine) / 1000,
             "k/s",
             "",
             {},
             {}};
    if (is_pool)
      made.rival = all.label(id::mooncake) + " by batch_put_from of 64";
    if (is_pool)
      made.bar = 5;
    if (is_pool && theirs != rates.end()) {
      std::vector<double> ratios;
      for (size_t i = 0; i < mine.size(); i++)
        ratios.push_back(mine[i] / theirs->second[i]);
      made.rival_value = median(theirs->second) / 1000;
      made.ratio = median(ratios);
    }
    out.add(made);
  }
}

void link_rows(report &out, field &all, uint64_t size_max) {
  constexpr uint64_t size_min = 4 << 10, call_size = 4 << 20;
  for (uint64_t size = size_min; size <= size_max; size <<= 2) {
    unsigned const count = unsigned(std::clamp<uint64_t>(call_size / size, 1, 16));
    auto const found =
        contest(all, {id::pool_tcp, id::pool_fabric, id::nfs, id::nfs_rdma}, {size, 5, count});
    for (bool const is_put : {true, false}) {
      std::string const what = size_name(size) + (is_put ? " put" : " get");
      duel_rows(out,
                all,
                found,
                {{id::pool_fabric, id::nfs, is_put ? 5.7 : 2.7},
                 {id::pool_fabric, id::nfs_rdma, {}},
                 {id::pool_tcp, id::nfs, {}}},
                what,
                is_put,
                size);
    }
  }
}

void size_rows(report &out, field &all, uint64_t size_max) {
  for (uint64_t size = uint64_t{1} << 20; size <= size_max; size <<= 2) {
    unsigned const count = unsigned(std::clamp<uint64_t>(bulk_size / 4 / size, 1, 16));
    contest_size const rounds{size, size >= uint64_t{1} << 28 ? 5u : 9u, count};
    auto const found = contest(all, {id::nfs, id::tcp, id::pool_local, id::pool_tcp}, rounds);
    for (bool const is_put : {true, false}) {
      std::string const what = size_name(size) + (is_put ? " write" : " read");
      duel_rows(out,
                all,
                found,
                {{id::pool_local, id::nfs, is_put ? 5.7 : 2.7}, {id::pool_tcp, id::nfs, {}}},
                what,
                is_put,
                size);
      rival_rows(out, all, found, id::nfs, what, is_put, size);
      for (const auto &[id, each] : found) {
        const timings &one = side(each, is_put);
        std::string const part = one.calls.size() >= 100 ? " p99 of " : " slowest of ";
        out.add({what + part + std::to_string(one.calls.size()) + ", " + all.label(id),
                 one.part_s(0.99) * 1e3,
                 "ms",
                 "",
                 {},
                 {},
                 better::lower});
      }
    }
  }
}

}  // namespace bench
