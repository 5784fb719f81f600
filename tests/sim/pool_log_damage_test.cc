// Goal: a log that is damaged, truncated, full or crowded returns no object that was never put,
// loses no more than was damaged, and continues. Method: small logs on the simulated store, whose
// bytes the test changes one by one, or whose operations fail one by one.
#include <gtest/gtest.h>

#include "products/poold/log/testing/log_user.hpp"
#include "sim/clock.hpp"
#include "sim/store.hpp"

namespace tanada::pool {
namespace {

using names_map = std::map<std::string, uint64_t>;
using seams::store_op_kind;

// A store in a world of its own.
struct place {
  explicit place(sim::store_faults faults = {.volatile_cache = true})
      : store{world, faults}, user{store, clock} {}

  static log_options options() {
    log_options made;
    made.url = "sim://log/";
    made.identity[0] = 1;
    made.mark_delay_ns = ~uint64_t{0};
    made.verify_all = true;
    return made;
  }
  static std::string url(uint64_t file_sequence) {
    char name[64];
    std::snprintf(name,
                  sizeof name,
                  "sim://log/log-%016llx.tnd",
                  static_cast<unsigned long long>(file_sequence));
    return name;
  }
  std::string bytes_of_file(uint64_t file_sequence) {
    return store.contents(url(file_sequence)).value();
  }
  void restart(log_options how = options()) {
    ASSERT_EQ(user.open(how), status::ok);
  }
  void crash(const log_options &how = options()) {
    user.log.reset();
    store.crash();
    restart(how);
  }
  // The log runs until `is` holds, for at most 10,000 steps.
  template <class Condition>
  void work_until(Condition is) {
    for (uint32_t i = 0; i < 10'000 && !is(); i++)
      if (!user.log->poll())
        world.step();
  }
  // Names n1, n2, ... with these bytes, until the log accepts no more. Returns the version that it
  // refused.
  uint64_t fill(const std::string &bytes, uint64_t version_max) {
    uint64_t version = 1;
    while (version <= version_max &&
           user.commit({user.put("n" + std::to_string(version), version, bytes)}) == status::ok)
      version++;
    EXPECT_LE(version, version_max);
    return version;
  }

  sim::world world{1};
  sim::clock clock{world};
  sim::store store;
  log_user user;
};

void drain(log_user &user) {
  EXPECT_EQ(user.log->drain(~uint64_t{0}), status::ok);
}

// Five records; their final content and everything ever put.
struct small_log {
  std::string bytes;  // of the one file
  names_map names;
  std::map<uint64_t, std::string> contents;
  size_t last_record = 0;  // its offset

  explicit small_log(bool marked) {
    place made;
    made.restart();
    auto &user = made.user;
    for (uint64_t version = 1; version <= 5; version++)
      contents[version] = some_bytes(700 * version, uint32_t(version));
    auto const put = [&](const char *name, uint64_t version) {
      return user.put(name, version, contents[version]);
    };
    EXPECT_EQ(user.commit({put("a", 1), put("b", 2)}), status::ok);
    EXPECT_EQ(user.commit({put("c", 3)}), status::ok);
    EXPECT_EQ(user.commit({user.rename(3, "d"), user.remove(2)}), status::ok);
    EXPECT_EQ(user.commit({user.of_kind(change_kind::flags, 1, "", 77)}), status::ok);
    last_record = made.bytes_of_file(1).size();
    EXPECT_EQ(user.commit({put("a", 4), put("e", 5)}), status::ok);
    if (marked)
      drain(user);
    names = user.names();
    EXPECT_EQ(names, (names_map{{"a", 4}, {"d", 3}, {"e", 5}}));
    bytes = made.bytes_of_file(1);
  }
};

// All served objects were put; returns the names.
names_map served(place &where, const small_log &original) {
  auto const found = where.user.names();
  for (const auto &[name, version] : found) {
    auto const at = original.contents.find(version);
    EXPECT_NE(at, original.contents.end()) << version;
    if (at == original.contents.end())
      continue;
    EXPECT_EQ(where.user.read(version), at->second);
  }
  return found;
}

TEST(pool_log_damage, cut_at_every_byte_of_the_last_record) {
  small_log const original{false};
  names_map const before{{"a", 1}, {"d", 3}};
  for (bool const zeros : {false, true}) {
    for (size_t size = original.last_record; size <= original.bytes.size(); size++) {
      place where;
      where.store.contents_set(where.url(1),
                               original.bytes.substr(0, size) +
                                   std::string(zeros ? original.bytes.size() - size : 0, '\0'));
      where.restart();
      auto const found = served(where, original);
      ASSERT_TRUE(found == before || found == original.names) << size;
      ASSERT_TRUE(zeros || (found == original.names) == (size == original.bytes.size())) << size;
    }
  }
}

// With a mark after it, the last record is damaged and not a torn tail. The others stay in both
// cases.
TEST(pool_log_damage, flip_every_byte) {
  for (bool const marked : {false, true}) {
    small_log const original{marked};
    uint32_t whole = 0;
    for (size_t at = 0; at < original.bytes.size(); at++) {
      place where;
      std::string bytes = original.bytes;
      bytes[at] = char(bytes[at] ^ 0x10);
      where.store.contents_set(where.url(1), bytes);
      where.restart();
      auto const found = served(where, original);
      whole += found == original.names;
      // Any single record is damaged. Only the rename separates c from d, or b from nothing.
      size_t same = 0;
      for (const auto &[name, version] : original.names)
        same += found.contains(name) && found.at(name) == version;
      ASSERT_GE(same, 1u) << at;
      ASSERT_EQ(where.user.log->highest_version() >= 3, true) << at;
      if (at % 97 != 0)
        continue;
      ASSERT_EQ(where.user.commit({where.user.put("more", 9, original.contents.at(1))}),
                status::ok);
      where.restart();
      ASSERT_EQ(where.user.names().size(), found.size() + 1) << at;
    }
    EXPECT_GT(whole, original.bytes.size() / 2);       // padding, and removed objects
    EXPECT_LT(whole, original.bytes.size() * 9 / 10);  // the rest is detected
  }
}

TEST(pool_log_damage, a_damaged_record_before_a_mark_takes_no_other) {
  small_log const original{true};
  for (size_t const offset : {size_t{4'096}, original.last_record}) {
    place where;
    std::string bytes = original.bytes;
    bytes[offset + 50] ^= 1;
    where.store.contents_set(where.url(1), bytes);
    where.restart();
    EXPECT_EQ(served(where, original),
              offset == 4'096 ? (names_map{{"a", 4}, {"d", 3}, {"e", 5}})
                              : (names_map{{"a", 1}, {"d", 3}}));
  }
}

TEST(pool_log_damage, a_stale_block_is_no_record) {
  small_log const original{false};
  place where;
  // The first record's bytes replace the last one's: intact, and of this file, but from another
  // position.
  std::string bytes = original.bytes;
  bytes.replace(original.last_record, 4'096, bytes, 4'096, 4'096);
  where.store.contents_set(where.url(1), bytes);
  where.restart();
  EXPECT_EQ(served(where, original), (names_map{{"a", 1}, {"d", 3}}));
}

TEST(pool_log_damage, a_full_store_gives_no_space_and_the_log_stays_usable) {
  sim::store_faults faults{.volatile_cache = true, .capacity = 120'000};
  place where{faults};
  auto options = where.options();
  options.file_size = 40'000;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(9'000, 1);
  uint64_t const version = where.fill(bytes, 50);
  EXPECT_EQ(user.commit({user.put("m", 100, bytes)}), status::no_space);
  auto const held = user.names();
  EXPECT_EQ(held.size(), version - 1);
  where.restart(options);
  EXPECT_EQ(user.names(), held);
  faults.capacity = 200'000;
  where.store.faults_set(faults);
  EXPECT_EQ(user.commit({user.put("m", 101, bytes)}), status::ok);
  where.crash(options);
  EXPECT_EQ(user.names().size(), held.size() + 1);
  for (const auto &[name, each] : user.names())
    EXPECT_EQ(user.read(each), bytes);
}

TEST(pool_log_damage, below_size_max_removals_make_room) {
  place where;
  auto options = where.options();
  options.file_size = 64 << 10;
  options.size_max = 512 << 10;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(9'000, 1);
  uint64_t const version = where.fill(bytes, 100);
  EXPECT_GE(version, 20u);
  EXPECT_LE(user.log->counters().stored_size, options.size_max);
  for (uint64_t each = 1; each < version; each += 2)
    ASSERT_EQ(user.commit({user.remove(each)}), status::ok) << each;
  for (uint64_t each = 1; each < version / 3; each++) {
    ASSERT_EQ(user.commit({user.put("again" + std::to_string(each), 1'000 + each, bytes)}),
              status::ok)
        << each;
    ASSERT_LE(user.log->counters().stored_size, options.size_max);
  }
  auto const held = user.names();
  where.restart(options);
  EXPECT_EQ(user.names(), held);
  for (const auto &[name, each] : held)
    EXPECT_EQ(user.read(each), bytes);
}

// Twenty names are put again 3,000 times while the log can hold some 60 objects; one of them is
// only renamed.
class pool_log_compaction : public testing::TestWithParam<bool> {};

TEST_P(pool_log_compaction, keeps_up_under_load) {
  place where;
  auto options = where.options();
  options.with_data = GetParam();
  options.file_size = 64 << 10;
  options.compact_above = 256 << 10;
  options.size_max = 1 << 20;
  where.restart(options);
  auto &user = where.user;
  std::map<uint64_t, std::string> contents;
  contents[1] = some_bytes(3'000, 1);
  ASSERT_EQ(user.commit({user.put("old", 1, contents[1])}), status::ok);
  uint64_t largest = 0, files = 0;
  for (uint64_t version = 2; version <= 3'000; version++) {
    contents[version] = some_bytes(version % 10'000, uint32_t(version));
    auto const told =
        user.begin({user.put("n" + std::to_string(version * 7 % 20), version, contents[version])});
    if (version % 4 == 0) {
      ASSERT_EQ(user.wait(told), status::ok) << version;
    }
    if (version % 100 == 0) {
      ASSERT_EQ(user.commit({user.rename(1, "old" + std::to_string(version))}), status::ok);
    }
    largest = std::max(largest, user.log->counters().stored_size);
    files = std::max(files, user.log->counters().file_count);
  }
  ASSERT_EQ(user.log->drain(~uint64_t{0}), status::ok);
  EXPECT_LE(largest, options.compact_above + 6 * options.file_size);
  EXPECT_GE(files, 3u);
  auto const held = user.names();
  EXPECT_EQ(held.size(), 21u);
  EXPECT_EQ(held.at("old3000"), 1u);
  where.crash(options);
  EXPECT_EQ(user.names(), held);
  if (!options.with_data)
    return;
  for (const auto &[name, version] : held)
    EXPECT_EQ(user.read(version), contents[version]);
}

INSTANTIATE_TEST_SUITE_P(log, pool_log_compaction, testing::Bool(), [](const auto &param) {
  return param.param ? "with_data" : "journal";
});

TEST(pool_log_damage, a_file_nothing_needs_is_unlinked) {
  place where;
  auto options = where.options();
  options.file_size = 32 << 10;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(9'000, 1);
  for (uint64_t version = 1; version <= 20; version++)
    ASSERT_EQ(user.commit({user.put("a", version, bytes)}), status::ok);
  ASSERT_EQ(user.log->drain(~uint64_t{0}), status::ok);
  where.work_until([&] { return user.log->next_wake_ns() != 0; });
  EXPECT_LE(user.log->counters().file_count, 3u);
  EXPECT_EQ(where.store.contents(where.url(1)).error(), status::no_entry);
  EXPECT_EQ(user.names(), (names_map{{"a", 20}}));
}

TEST(pool_log_damage, a_log_that_mostly_lives_is_not_moved_about) {
  place where;
  auto options = where.options();
  options.file_size = 128 << 10;
  options.compact_above = 128 << 10;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(20'000, 1);
  uint64_t version = 0;
  for (uint64_t i = 0; i < 60; i++)
    ASSERT_EQ(user.commit({user.put("n" + std::to_string(i), ++version, bytes)}), status::ok);
  for (uint64_t i = 0; i < 10; i++)
    ASSERT_EQ(user.commit({user.put("n" + std::to_string(i * 5), ++version, bytes)}), status::ok);
  drain(user);
  EXPECT_EQ(user.log->counters().moved_size, 0u);
  for (uint64_t i = 0; i < 60; i++)
    ASSERT_EQ(user.commit({user.put("n" + std::to_string((i * 2 + 1) % 60), ++version, bytes)}),
              status::ok);
  drain(user);
  EXPECT_GT(user.log->counters().moved_size, 0u);
}

TEST(pool_log_damage, compaction_drops_an_object_whose_bytes_went_bad) {
  place where;
  auto options = where.options();
  options.verify_all = false;
  options.file_size = 64 << 10;
  options.compact_above = 0;
  std::vector<uint64_t> lost;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(9'000, 1);
  for (uint64_t version = 1; version <= 3; version++) {
    ASSERT_EQ(user.commit({user.put("n" + std::to_string(version), version, bytes)}), status::ok);
  }
  ASSERT_EQ(user.log->drain(~uint64_t{0}), status::ok);
  user.log.reset();
  std::string damaged = where.bytes_of_file(1);
  damaged[damaged.find(bytes) + 77] ^= 1;
  where.store.contents_set(where.url(1), damaged);
  options.on_lost = [&](const object_meta &meta) {
    lost.push_back(meta.version);
  };
  where.restart(options);
  ASSERT_EQ(user.commit({user.remove(3)}), status::ok);
  ASSERT_EQ(user.commit({user.put("n4", 4, bytes)}), status::ok);
  where.work_until([&] { return !lost.empty() && user.log->next_wake_ns() != 0; });
  EXPECT_EQ(lost, (std::vector<uint64_t>{1}));
  EXPECT_EQ(user.names(), (names_map{{"n2", 2}, {"n4", 4}}));
  where.restart(options);
  EXPECT_EQ(user.names(), (names_map{{"n2", 2}, {"n4", 4}}));
}

TEST(pool_log_damage, after_a_failed_write_or_sync_the_log_goes_on_in_another_file) {
  for (auto const kind : {store_op_kind::write, store_op_kind::sync}) {
    for (bool const cut_fails : {false, true}) {
      place where;
      where.restart();
      auto &user = where.user;
      std::string const bytes = some_bytes(9'000, 1);
      ASSERT_EQ(user.commit({user.put("a", 1, bytes)}), status::ok);
      sim::store_faults faults{.volatile_cache = true};
      faults.errors[size_t(kind)] = {100, status::io};
      if (cut_fails)
        faults.errors[size_t(store_op_kind::truncate)] = {100, status::io};
      where.store.faults_set(faults);
      EXPECT_EQ(user.commit({user.put("a", 2, bytes), user.put("b", 3, bytes)}), status::io);
      where.store.faults_set({.volatile_cache = true});
      EXPECT_EQ(user.names(), (names_map{{"a", 1}}));
      EXPECT_EQ(user.commit({user.put("c", 4, bytes)}), status::ok);
      EXPECT_GE(user.log->counters().file_count, 2u);
      where.crash();
      EXPECT_EQ(user.names(), (names_map{{"a", 1}, {"c", 4}}));
      EXPECT_EQ(user.read(1), bytes);
    }
  }
}

TEST(pool_log_damage, a_read_goes_on_while_its_file_is_unlinked) {
  place where{{.volatile_cache = true, .delay_ns_min = 1'000, .delay_ns_max = 1'000}};
  auto options = where.options();
  options.file_size = 32 << 10;
  where.restart(options);
  auto &user = where.user;
  std::string const bytes = some_bytes(9'000, 1);
  ASSERT_EQ(user.commit({user.put("a", 1, bytes)}), status::ok);
  std::string text(9'000, '?');
  std::optional<status> told;
  auto slow = sim::store_faults{
      .volatile_cache = true, .delay_ns_min = 900'000'000, .delay_ns_max = 900'000'000};
  where.store.faults_set(slow);
  ASSERT_EQ(user.log->read(1,
                           0,
                           {{reinterpret_cast<std::byte *>(text.data()), text.size()}},
                           [&](status code) { told = code; }),
            status::ok);
  where.store.faults_set({.volatile_cache = true});
  for (uint64_t version = 2; version <= 20; version++)
    ASSERT_EQ(user.commit({user.put("a", version, bytes)}), status::ok);
  for (uint32_t i = 0; i < 100'000 && where.store.contents(where.url(1)).ok(); i++) {
    user.log->poll();
    where.world.advance(1'000);
  }
  EXPECT_FALSE(where.store.contents(where.url(1)).ok());
  EXPECT_FALSE(told);
  while (!told) {
    if (!user.log->poll())
      where.world.step();
  }
  EXPECT_EQ(*told, status::ok);
  EXPECT_EQ(text, bytes);
}

// A failed sync leaves pages that count as written. If then the process ends, but not the machine,
// the next process finds the record and must make sure that it is not lost later.
TEST(pool_log_damage, what_a_failed_sync_left_is_written_again) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    place where;
    while (where.world.random.next() % 64 != seed)
      continue;
    where.restart();
    auto &user = where.user;
    std::string const bytes = some_bytes(9'000, 1);
    ASSERT_EQ(user.commit({user.put("a", 1, bytes)}), status::ok);
    sim::store_faults fails{.volatile_cache = true};
    for (auto const kind : {store_op_kind::sync, store_op_kind::truncate})
      fails.errors[size_t(kind)] = {100, status::io};
    where.store.faults_set(fails);
    ASSERT_EQ(user.commit({user.put("b", 2, bytes)}), status::io);
    user.log.reset();
    where.store.faults_set({.volatile_cache = true});
    where.restart();
    auto const found = user.names();
    where.crash();
    EXPECT_EQ(found, (names_map{{"a", 1}, {"b", 2}}));
    ASSERT_EQ(user.names(), found) << seed;
  }
}

}  // namespace
}  // namespace tanada::pool
