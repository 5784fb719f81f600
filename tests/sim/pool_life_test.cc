// The whole pool under simulation, with a disk below it and its end at any moment; pool_life.hpp
// describes the checks.
//
// TND_SIM_SEED=n runs only that seed. TND_SIM_COUNT=n runs that many of each weather, from seed
// TND_SIM_FIRST (1) on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sim/pool_life.hpp"

namespace tanada::test {
namespace {

constexpr uint32_t step_count = 120;
constexpr uint64_t repeated_count = 2;  // seeds

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

struct life_case {
  const char *name;
  sky over;
  medium kept_on;
};

class pool_lives : public testing::TestWithParam<life_case> {
 protected:
  pool_life life_of(uint64_t seed) const {
    return pool_life{{.seed = seed, .over = GetParam().over, .kept_on = GetParam().kept_on}};
  }
};

TEST_P(pool_lives, hold) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0),
                 count = from_environment("TND_SIM_COUNT", 50);
  uint64_t const first = only != 0 ? only : from_environment("TND_SIM_FIRST", 1);
  uint64_t const last = only != 0 ? only : first + count - 1;
  uint32_t failures = 0;
  pool_life::counters all;
  for (uint64_t seed = first; seed <= last && failures < 10; seed++) {
    pool_life life = life_of(seed);
    std::string const why = life.run(step_count);
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed
                       << " bin/pool_life_sim --gtest_filter=*hold/" << GetParam().name;
    failures += why.empty() ? 0 : 1;
    all.lives += life.counted().lives;
    all.durable += life.counted().durable;
    all.recovered_objects += life.counted().recovered_objects;
    all.grown += life.counted().grown;
    all.demoted += life.counted().demoted;
    all.promoted += life.counted().promoted;
    all.striped += life.counted().striped;
  }
  if (only != 0 || failures > 0)
    return;
  // The test has an effect.
  EXPECT_GE(all.lives, 3 * count);
  EXPECT_GE(all.grown, 3 * count);
  if (GetParam().kept_on == medium::memory)
    return;
  EXPECT_GE(all.durable, 5 * count);
  EXPECT_GE(all.recovered_objects, 8 * count);
  if (GetParam().kept_on != medium::tiers)
    return;
  EXPECT_GE(all.demoted, 2 * count);
  EXPECT_GE(all.promoted, 2 * count);
  if (GetParam().over != sky::full) {  // whose objects are small
    EXPECT_GE(all.striped, count);
  }
}

TEST_P(pool_lives, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    pool_life life = life_of(seed);
    (void)life.run(step_count);
    return life.trace();
  };
  // Independent of earlier runs in this process.
  std::vector<uint64_t> traces;
  for (uint64_t seed = 1; seed <= repeated_count; seed++)
    traces.push_back(trace_of(seed));
  for (uint64_t seed = repeated_count; seed > 0; seed--)
    EXPECT_EQ(trace_of(seed), traces[seed - 1]) << "seed " << seed;
  EXPECT_NE(traces[0], traces[1]);
}

INSTANTIATE_TEST_SUITE_P(sim,
                         pool_lives,
                         testing::Values(life_case{"calm", sky::calm, medium::flash},
                                         life_case{"cuts", sky::cuts, medium::flash},
                                         life_case{"errors", sky::errors, medium::flash},
                                         life_case{"full", sky::full, medium::flash},
                                         life_case{"slow", sky::slow, medium::flash},
                                         life_case{"lies", sky::lies, medium::flash},
                                         life_case{"tiers_calm", sky::calm, medium::tiers},
                                         life_case{"tiers_cuts", sky::cuts, medium::tiers},
                                         life_case{"tiers_errors", sky::errors, medium::tiers},
                                         life_case{"tiers_full", sky::full, medium::tiers},
                                         life_case{"tiers_slow", sky::slow, medium::tiers},
                                         life_case{"tiers_lies", sky::lies, medium::tiers},
                                         life_case{"file_calm", sky::calm, medium::file},
                                         life_case{"file_cuts", sky::cuts, medium::file},
                                         life_case{"file_errors", sky::errors, medium::file},
                                         life_case{"file_full", sky::full, medium::file},
                                         life_case{"file_slow", sky::slow, medium::file},
                                         life_case{"file_lies", sky::lies, medium::file},
                                         life_case{"pmem_calm", sky::calm, medium::persistent},
                                         life_case{"pmem_cuts", sky::cuts, medium::persistent},
                                         life_case{"pmem_errors", sky::errors, medium::persistent},
                                         life_case{"pmem_full", sky::full, medium::persistent},
                                         life_case{"pmem_slow", sky::slow, medium::persistent},
                                         life_case{"pmem_lies", sky::lies, medium::persistent},
                                         life_case{"memory_calm", sky::calm, medium::memory},
                                         life_case{"memory_cuts", sky::cuts, medium::memory},
                                         life_case{"memory_full", sky::full, medium::memory}),
                         [](const auto &param) { return std::string{param.param.name}; });

struct planted_mistake {
  const char *name;
  mistake planted;
  const char *expected;
  medium kept_on = medium::flash;
};

class pool_life_planted : public testing::TestWithParam<planted_mistake> {};

TEST_P(pool_life_planted, is_caught) {
  constexpr uint32_t wanted_count = 4;
  uint32_t right = 0;
  for (uint64_t seed = 1; seed <= 300 && right < wanted_count; seed++) {
    pool_life life{{seed, sky::calm, GetParam().planted, GetParam().kept_on}};
    std::string const why = life.run(step_count);
    if (why.find(GetParam().expected) != std::string::npos)
      right++;
  }
  EXPECT_EQ(right, wanted_count);
}

INSTANTIATE_TEST_SUITE_P(
    sim,
    pool_life_planted,
    testing::Values(
        planted_mistake{"early_answer", mistake::early_answer, "came back"},
        planted_mistake{"unsynced", mistake::unsynced, "came back"},
        planted_mistake{"lost_removal", mistake::lost_removal, "came back"},
        planted_mistake{"lost_rename", mistake::lost_rename, "came back"},
        planted_mistake{"lost_overwrite", mistake::lost_overwrite, "came back"},
        planted_mistake{"partial_sets", mistake::partial_sets, "came back"},
        planted_mistake{"old_versions", mistake::old_versions, "comes after"},
        planted_mistake{"lost_memory", mistake::lost_memory, "bytes are in use"},
        planted_mistake{"tiers_early_answer", mistake::early_answer, "came back", medium::tiers},
        planted_mistake{"other_bytes", mistake::other_bytes, "status -5", medium::tiers},
        planted_mistake{"lost_stripe", mistake::lost_stripe, "is damaged", medium::tiers},
        planted_mistake{"kept_stripes", mistake::kept_stripes, "without an object", medium::tiers},
        planted_mistake{"unsynced_file", mistake::unsynced_file, "is damaged", medium::file},
        planted_mistake{"short_sync", mistake::short_sync, "is damaged", medium::file},
        planted_mistake{"early_name", mistake::early_name, "is damaged", medium::file},
        planted_mistake{"early_reuse", mistake::early_reuse, "is damaged", medium::file},
        planted_mistake{"whole_pages", mistake::whole_pages, "is damaged", medium::file},
        planted_mistake{"pmem_unflushed", mistake::unsynced_file, "is damaged", medium::persistent},
        planted_mistake{"pmem_short_flush", mistake::short_sync, "is damaged", medium::persistent},
        planted_mistake{"pmem_early_name", mistake::early_name, "is damaged", medium::persistent},
        planted_mistake{"pmem_early_reuse", mistake::early_reuse, "is damaged", medium::persistent},
        planted_mistake{"file_early_answer", mistake::early_answer, "came back", medium::file},
        planted_mistake{
            "file_lost_memory", mistake::lost_memory, "bytes are in use", medium::file}),
    [](const auto &param) { return std::string{param.param.name}; });

// One client's names: "old" with these flags, and "other". Returns whether the model accepts ok as
// an answer to the change.
bool may_be_done(uint32_t flags_of_old, bool evicts, const name_change &change) {
  name_model model{evicts, evicts};
  model.accept({{"old", {2, flags_of_old}}, {"other", {3, 0}}});
  model.sent(change);
  return model.settled(outcome::done, 1);
}

TEST(pool_life_model,
     an_exclusive_change_is_done_over_an_object_only_if_room_may_have_been_made_of_that) {
  using kind = name_change::kind;
  name_change const put{
      .what = kind::put, .made = {{"old", {4, 0}}}, .name = {}, .new_name = {}, .exclusive = true};
  name_change const rename{
      .what = kind::rename, .made = {}, .name = "other", .new_name = "old", .exclusive = true};
  for (const name_change &change : {put, rename}) {
    EXPECT_TRUE(may_be_done(TND_POOL_EVICTABLE, true, change));
    EXPECT_FALSE(may_be_done(TND_POOL_EVICTABLE, false, change));
    for (uint32_t const flags : {0, int(TND_POOL_PINNED), TND_POOL_EVICTABLE | TND_POOL_PINNED}) {
      EXPECT_FALSE(may_be_done(flags, true, change));
    }
  }
}

TEST(pool_life_model, a_reader_may_get_what_an_exclusive_put_replaces_a_dropped_object_by) {
  name_model model{true, true};
  model.accept({{"old", {2, TND_POOL_EVICTABLE}}});
  model.sent({.what = name_change::kind::put,
              .made = {{"old", {4, 0}}},
              .name = {},
              .new_name = {},
              .exclusive = true});
  EXPECT_EQ(model.readable("old"), (std::set<uint64_t>{0, 2, 4}));
  ASSERT_TRUE(model.settled(outcome::unknown, 1));
  EXPECT_TRUE(model.seen({{"old", {4, 0}}}));
}

TEST(pool_life_disk, files_of_processes_that_have_ended_are_removed) {
  pid_t const child = fork();
  if (child == 0)
    _exit(0);
  ASSERT_GT(child, 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  std::string const left = backing_disk::path_of(child), used = backing_disk::path_of(1);
  for (const std::string &path : {left, used})
    std::ofstream{path};
  backing_disk::remove_leftovers();
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::remove(used));
}

}  // namespace
}  // namespace tanada::test
