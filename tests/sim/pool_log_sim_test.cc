// Goal: after recovery the log contains everything that it reported durable, in the order of the
// appends, each transaction whole or not at all, with the bytes that were put. This holds whatever
// happens to the store: power failures at any moment, torn writes, failing operations, no space.
// Stores that lie (lost and misdirected writes) may cost objects, but every served object is some
// version as it was put. Method: random transactions on a simulated store, with several power
// failures. Each recovery is compared with the states that a model permits. Planted lies show that
// the checks can fail.
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "pool_log_model.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::pool {
namespace {

using seams::store_op_kind;

enum class weather { crashes, errors, full, lies };

// A part of the simulated store's capacity.
class capacity_reserve final : public space_reserve {
 public:
  capacity_reserve(sim::store &store, sim::store_faults &faults, uint64_t size)
      : store_{store}, faults_{faults}, size_{size} {}

  status acquire() override {
    if (is_held_)
      return status::ok;
    if (free_size() < size_)
      return status::no_space;
    is_held_ = true;
    faults_.capacity -= size_;
    store_.faults_set(faults_);
    return status::ok;
  }
  status release() override {
    faults_.capacity += is_held_ ? size_ : 0;
    is_held_ = false;
    store_.faults_set(faults_);
    return status::ok;
  }
  uint64_t size() const override {
    return size_;
  }
  uint64_t free_size() const override {
    return faults_.capacity - std::min(faults_.capacity, store_.used_size());
  }

 private:
  sim::store &store_;
  sim::store_faults &faults_;
  uint64_t size_;
  bool is_held_ = false;
};

class log_run {
 public:
  using plant = std::function<void(sim::store_faults &)>;

  // `strict`: the store is reliable. `trusting`: bytes are served without checking their checksum.
  log_run(
      uint64_t seed, weather which, bool strict, bool trusting = false, const plant &planted = {})
      : world_{seed},
        clock_{world_},
        which_{which},
        strict_{strict},
        trusting_{trusting},
        with_data_{trusting || world_.random.chance(70)},
        source_{world_.random, with_data_} {
    faults_ = draw_faults();
    if (planted)
      planted(faults_);
    store_ = std::make_unique<sim::store>(world_, faults_);
    options_ = draw_options();
    if (which_ == weather::full && options_.size_max == ~uint64_t{0} && with_data_ &&
        world_.random.chance(70))
      draw_reserve();
  }

  bool run() {
    uint64_t const rounds = world_.random.between(1, 4);
    for (uint64_t round = 0; round <= rounds && why_.empty(); round++) {
      if (!open())
        break;
      check_state();
      if (round == rounds) {
        check_emptying();
        break;
      }
      work();
      bool const drained =
          world_.random.chance(20) && log_->drain(world_.now_ns() + 1'000'000'000) == status::ok;
      log_.reset();
      store_->close_files();
      if (!drained || world_.random.chance(50))
        store_->crash();
    }
    return why_.empty();
  }
  const std::string &why() const {
    return why_;
  }
  uint64_t acknowledged_count() const {
    return acknowledged_count_;
  }
  uint64_t file_count() const {
    return files_seen_;
  }

 private:
  enum class fate { waiting, durable, failed };
  struct entry {
    transaction changes;
    fate what = fate::waiting;
  };

  sim::store_faults draw_faults() {
    auto &random = world_.random;
    sim::store_faults faults;
    faults.volatile_cache = true;
    faults.delay_ns_max = 1'000 + random.below(100'000);
    if (which_ == weather::errors) {
      for (auto const kind : {store_op_kind::open,
                              store_op_kind::write,
                              store_op_kind::truncate,
                              store_op_kind::sync,
                              store_op_kind::unlink,
                              store_op_kind::sync_names,
                              store_op_kind::read}) {
        if (random.chance(40))
          faults.errors[size_t(kind)] = {uint32_t(random.below(15)), status::io};
      }
      if (random.chance(50))
        faults.torn_write_percent = uint32_t(random.below(10));
    }
    if (which_ == weather::full)
      faults.capacity = 50'000 + random.below(300'000);
    if (which_ == weather::lies) {
      if (random.chance(70))
        faults.lost_write_percent = uint32_t(random.below(10));
      if (random.chance(70))
        faults.misdirected_write_percent = uint32_t(random.below(10));
      if (random.chance(30))
        faults.torn_write_percent = uint32_t(random.below(10));
    }
    return faults;
  }

  log_options draw_options() {
    auto &random = world_.random;
    log_options options;
    options.url = "sim://log/";
    options.identity[0] = 42;
    options.with_data = with_data_;
    options.verify_all = strict_ || random.chance(50);
    options.file_size = random.between(8'192, 150'000);
    options.compact_above = random.between(10'000, 300'000);
    if (which_ == weather::full && random.chance(50))
      options.size_max = random.between(100'000, 400'000);
    options.group_size_max = random.between(1, 100'000);
    options.mark_delay_ns = random.below(2'000'000);
    options.retry_delay_ns = 1'000'000;
    options.io_timeout_ns = ~uint64_t{0};
    if (trusting_)
      options.verify_all = false;
    return options;
  }

  // A journal's put is as small as a removal, so no reserve suffices for all of them.
  void draw_reserve() {
    options_.file_size = world_.random.between(30'000, 60'000);
    // A large transaction may have made a file larger.
    reserve_.emplace(
        *store_, faults_, options_.file_size * 3 / 2 + world_.random.between(150'000, 250'000));
    faults_.capacity += 2 * reserve_->size();
    store_->faults_set(faults_);
    options_.reserve = &*reserve_;
  }

  status commit(const transaction &changes) {
    std::optional<status> outcome;
    auto const code = log_->append(changes, [&](status told) { outcome = told; });
    if (code != status::ok)
      return code;
    while (!outcome) {
      if (log_->poll())
        continue;
      if (!world_.step())
        world_.advance(100'000);
    }
    return *outcome;
  }

  // A full store is emptied by removing one object after the other, and then accepts objects again.
  void check_emptying() {
    if (!reserve_ || !why_.empty())
      return;
    std::vector<uint64_t> versions;
    do {
      if (source_.puts_count() > 5'000)
        return fail("a store with a capacity does not fill up");
    } while (put_filler() == status::ok);
    log_->visit([&](const live_object &each) { versions.push_back(each.meta.version); });
    for (uint64_t const version : versions) {
      change removal;
      removal.kind = change_kind::remove;
      removal.meta.version = version;
      if (commit({removal}) != status::ok)
        return fail("a full store refuses to remove an object");
    }
    for (uint32_t tries = 0; put_filler() != status::ok; tries++) {
      if (tries == 100)
        return fail("a store that was emptied takes no object");
      world_.advance(options_.retry_delay_ns);
    }
  }
  status put_filler() {
    uint64_t const number = source_.puts_count();
    return commit(
        {source_.put("filler" + std::to_string(number), 1 + world_.random.below(18'000))});
  }

  // A failing store may fail recovery; it works the next time.
  bool open() {
    if (world_.random.chance(50)) {
      auto calm = faults_;
      calm.errors = {};
      calm.torn_write_percent = 0;
      calm.lost_write_percent = 0;
      calm.misdirected_write_percent = 0;
      store_->faults_set(calm);
    }
    for (uint32_t tries = 0; tries < 20; tries++) {
      if (tries == 10)
        store_->faults_set({.volatile_cache = true});
      auto opened = durable_log::open(*store_, clock_, options_);
      if (!opened.ok()) {
        if (opened.error() == status::invalid)
          break;
        store_->crash();
        continue;
      }
      store_->faults_set(faults_);
      log_ = std::move(opened).value();
      source_.count_from(log_->highest_version());
      return true;
    }
    fail("the log does not open");
    return false;
  }

  void work() {
    entries_.clear();
    likely_ = state_;
    for (uint64_t left = world_.random.between(5, 600); left != 0 && why_.empty(); left--) {
      if (world_.random.chance(12))
        append();
      if (world_.random.chance(70))
        world_.step();
      log_->poll();
      files_seen_ = std::max(files_seen_, log_->counters().file_count);
      if (log_->next_wake_ns() > world_.now_ns())
        world_.advance(world_.random.below(400'000));
      if (world_.random.chance(2))
        check_read();
    }
  }

  void append() {
    auto const made = std::make_shared<entry>(entry{source_.draw(likely_)});
    auto const code = log_->append(made->changes, [this, made](status told) { tell(*made, told); });
    if (code == status::again || code == status::too_big)
      return;
    if (code != status::ok)
      return fail("an append is refused");
    likely_.apply(made->changes);
    entries_.push_back(made);
  }

  void tell(entry &which, status code) {
    if (which.what != fate::waiting)
      return fail("reported twice");
    which.what = code == status::ok ? fate::durable : fate::failed;
    if (code != status::ok)
      return;
    acknowledged_count_++;
    for (const auto &other : entries_) {
      if (other.get() == &which)
        break;
      if (other->what == fate::waiting)
        return fail("told out of order");
    }
  }

  // A live object, read in part while the log continues.
  void check_read() {
    std::optional<live_object> chosen;
    log_->visit([&](const live_object &each) {
      if (each.offset != 0 && each.meta.size != 0 && (!chosen || world_.random.chance(20)))
        chosen = each;
    });
    if (!chosen)
      return;
    uint64_t const version = chosen->meta.version, offset = world_.random.below(chosen->meta.size);
    auto const buffer = std::make_shared<std::string>(chosen->meta.size - offset, '?');
    auto const code = log_->read(version,
                                 offset,
                                 {{reinterpret_cast<std::byte *>(buffer->data()), buffer->size()}},
                                 [this, version, offset, buffer](status told) {
                                   bool const same =
                                       *buffer == source_.bytes(version).substr(offset);
                                   if (told == status::ok && !same && strict_)
                                     fail("a read gives other bytes");
                                 });
    if (code != status::ok)
      fail("a read is refused");
  }

  // What recovery may return: all durable transactions in order, then a prefix of those in flight
  // or failed since.
  void check_state() {
    pool_state found;
    log_->visit([&](const live_object &each) { found.objects[each.meta.version] = each.meta; });
    if (!strict_)
      check_versions(found);
    else if (!allowed(found))
      return fail("recovery gives a state that never was");
    check_bytes();
    state_ = std::move(found);
  }

  bool allowed(const pool_state &found) const {
    pool_state durable = state_;
    size_t last = entries_.size();
    for (size_t i = 0; i < entries_.size(); i++) {
      if (entries_[i]->what != fate::durable)
        continue;
      durable.apply(entries_[i]->changes);
      last = i;
    }
    if (found == durable)
      return true;
    size_t const begin = last == entries_.size() ? 0 : last + 1;
    for (size_t first = begin; first < entries_.size(); first++) {
      auto const wanted = entries_[first]->what;
      pool_state next = durable;
      for (size_t i = first; i < entries_.size(); i++) {
        if (entries_[i]->what != wanted)
          continue;
        next.apply(entries_[i]->changes);
        if (found == next)
          return true;
      }
      if (wanted == fate::waiting)
        break;
    }
    return false;
  }

  void check_versions(const pool_state &found) {
    for (const auto &[version, meta] : found.objects) {
      if (!source_.knows(version))
        return fail("recovery gives a version nobody put");
      auto put = source_.put_meta(version);
      put.name = meta.name;
      put.flags = meta.flags;
      if (put != meta)
        return fail("recovery gives an object that nobody put like that");
    }
  }

  // All bytes, as a server would recover them.
  void check_bytes() {
    store_->faults_set({.volatile_cache = true});
    std::vector<uint64_t> versions;
    log_->visit([&](const live_object &each) {
      if (each.offset != 0)
        versions.push_back(each.meta.version);
    });
    for (uint64_t const version : versions) {
      auto const object = log_->find(version);
      if (!object && !strict_)
        continue;  // compaction has found it damaged
      if (!object)
        return fail("reading takes an object away");
      auto const meta = object->meta;
      std::string text(meta.size, '?');
      std::optional<status> told;
      auto *const target = reinterpret_cast<std::byte *>(text.data());
      if (log_->read(version, 0, {{target, text.size()}}, [&](status code) { told = code; }) !=
          status::ok) {
        return fail("an object is refused");
      }
      while (!told) {
        if (!log_->poll())
          world_.step();
      }
      if (*told != status::ok && strict_)
        return fail("an object cannot be read");
      bool const served =
          *told == status::ok &&
          (trusting_ || checksum_of(meta.kind, std::as_bytes(std::span{text})) == meta.checksum);
      if (served ? text != source_.bytes(version) : strict_)
        return fail("an object has other bytes");
    }
    store_->faults_set(faults_);
  }

  void fail(const char *why) {
    if (why_.empty())
      why_ = why;
  }

  sim::world world_;
  sim::clock clock_;
  weather which_;
  bool strict_, trusting_, with_data_;
  transaction_source source_;
  sim::store_faults faults_;
  std::unique_ptr<sim::store> store_;
  std::optional<capacity_reserve> reserve_;
  log_options options_;
  std::unique_ptr<durable_log> log_;
  pool_state state_, likely_;
  std::vector<std::shared_ptr<entry>> entries_;
  uint64_t acknowledged_count_ = 0, files_seen_ = 0;
  std::string why_;
};

uint64_t number(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

class pool_log_holds : public testing::TestWithParam<std::pair<const char *, weather>> {};

TEST_P(pool_log_holds, in_all_seeds) {
  auto const [name, which] = GetParam();
  uint64_t const wanted = number("TND_SIM_SEED", 0);
  uint64_t const first = wanted != 0 ? wanted : 1,
                 count = wanted != 0 ? 1 : number("TND_SIM_COUNT", 300);
  uint64_t acknowledged = 0, many_files = 0;
  for (uint64_t seed = first; seed < first + count; seed++) {
    log_run one{seed, which, which != weather::lies};
    ASSERT_TRUE(one.run()) << one.why() << "; replay: TND_SIM_SEED=" << seed
                           << " pool_log_sim --gtest_filter=*" << name << "*";
    acknowledged += one.acknowledged_count();
    many_files += one.file_count() >= 3;
  }
  if (wanted != 0)
    return;
  EXPECT_GE(acknowledged, count * 5);
  EXPECT_GE(many_files, count / 4);
}

INSTANTIATE_TEST_SUITE_P(sim,
                         pool_log_holds,
                         testing::Values(std::pair{"crashes", weather::crashes},
                                         std::pair{"errors", weather::errors},
                                         std::pair{"full", weather::full},
                                         std::pair{"lies", weather::lies}),
                         [](const auto &param) { return std::string{param.param.first}; });

uint32_t caught(weather which, bool strict, bool trusting, const log_run::plant &planted) {
  uint32_t count = 0;
  for (uint64_t seed = 1; seed <= 100; seed++)
    count += !log_run{seed, which, strict, trusting, planted}.run();
  return count;
}

TEST(pool_log_planted, a_store_that_lies_about_a_sync_is_caught) {
  for (auto const kind : {store_op_kind::sync, store_op_kind::sync_names}) {
    EXPECT_GE(
        caught(weather::crashes,
               true,
               false,
               [&](sim::store_faults &faults) { faults.errors[size_t(kind)] = {100, status::ok}; }),
        20u);
  }
}

TEST(pool_log_planted, lost_and_misdirected_writes_are_caught_where_nothing_may_be_lost) {
  for (auto const plant :
       {&sim::store_faults::lost_write_percent, &sim::store_faults::misdirected_write_percent}) {
    EXPECT_GE(
        caught(
            weather::crashes, true, false, [&](sim::store_faults &faults) { faults.*plant = 5; }),
        20u);
  }
}

TEST(pool_log_planted, a_server_that_compares_no_checksum_is_caught) {
  for (auto const plant :
       {&sim::store_faults::lost_write_percent, &sim::store_faults::misdirected_write_percent}) {
    EXPECT_GE(
        caught(weather::lies, false, true, [&](sim::store_faults &faults) { faults.*plant = 10; }),
        5u);
  }
}

}  // namespace
}  // namespace tanada::pool
