// Goal: a pool of several servers never loses what it acknowledged, and its names are linearizable,
// whatever happens to fewer servers than there are copies. Method: see cluster_harness.hpp.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/cluster_harness.hpp"

namespace tanada::test {
namespace {

uint64_t seed_count(uint64_t fallback) {
  const char *const wanted = std::getenv("TND_SIM_COUNT");
  return wanted == nullptr ? fallback : std::strtoull(wanted, nullptr, 10);
}

uint64_t first_seed() {
  const char *const wanted = std::getenv("TND_SIM_SEED");
  return wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
}

uint32_t step_count_of(cluster_weather weather) {
  bool const is_play =
      weather == cluster_weather::exiles || weather == cluster_weather::successions;
  return is_play ? 9'000 : 3'000;
}

const char *name_of(cluster_weather weather) {
  static constexpr const char *names[] = {"fair",
                                          "crashes",
                                          "stops",
                                          "cuts",
                                          "pauses",
                                          "etcd",
                                          "restarts",
                                          "disks",
                                          "exiles",
                                          "successions",
                                          "fragments",
                                          "all"};
  return names[size_t(weather)];
}

class cluster_sim : public testing::TestWithParam<cluster_weather> {};

TEST_P(cluster_sim, loses_nothing) {
  size_t operations = 0, backup_reads = 0, demotions = 0;
  uint64_t const first = first_seed();
  for (uint64_t seed = first; seed < first + seed_count(2); seed++) {
    cluster_run run{{.seed = seed, .weather = GetParam()}};
    std::string const failure = run.run(step_count_of(GetParam()));
    ASSERT_EQ(failure, "") << "seed " << seed << "; replay: TND_SIM_COUNT=1 TND_SIM_SEED=" << seed
                           << " cluster_sim --gtest_filter=*loses_nothing/" << name_of(GetParam());
    operations += run.operation_count();
    backup_reads += run.backup_read_count();
    demotions += run.demotion_count();
  }
  EXPECT_GT(operations, 100u * seed_count(2));
  EXPECT_GT(backup_reads, 4u * seed_count(2));
  bool const has_disks =
      GetParam() == cluster_weather::restarts || GetParam() == cluster_weather::disks;
  if (has_disks && seed_count(2) > 1) {
    EXPECT_GT(demotions, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(weathers,
                         cluster_sim,
                         testing::Values(cluster_weather::fair,
                                         cluster_weather::crashes,
                                         cluster_weather::stops,
                                         cluster_weather::cuts,
                                         cluster_weather::pauses,
                                         cluster_weather::etcd,
                                         cluster_weather::restarts,
                                         cluster_weather::disks,
                                         cluster_weather::exiles,
                                         cluster_weather::successions,
                                         cluster_weather::fragments,
                                         cluster_weather::all),
                         [](auto const &info) { return std::string{name_of(info.param)}; });

class cluster_library : public testing::TestWithParam<cluster_weather> {};

TEST_P(cluster_library, reads_do_not_fail) {
  uint64_t const first = first_seed();
  for (uint64_t seed = first; seed < first + seed_count(4); seed++) {
    cluster_run run{{.seed = seed, .weather = GetParam(), .has_library = true}};
    std::string const failure = run.run(step_count_of(GetParam()));
    ASSERT_EQ(failure, "") << "seed " << seed << "; replay: TND_SIM_COUNT=1 TND_SIM_SEED=" << seed
                           << " cluster_sim --gtest_filter=*cluster_library*/"
                           << name_of(GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(weathers,
                         cluster_library,
                         testing::Values(cluster_weather::fair,
                                         cluster_weather::crashes,
                                         cluster_weather::stops,
                                         cluster_weather::cuts,
                                         cluster_weather::pauses,
                                         cluster_weather::etcd,
                                         cluster_weather::restarts,
                                         cluster_weather::disks,
                                         cluster_weather::fragments,
                                         cluster_weather::all),
                         [](auto const &info) { return std::string{name_of(info.param)}; });

TEST(cluster_sim_repeat, a_seed_is_the_same_run) {
  uint64_t traces[2];
  for (uint64_t &trace : traces) {
    cluster_run run{{.seed = 1, .weather = cluster_weather::all}};
    EXPECT_EQ(run.run(1'000), "");
    trace = run.trace();
  }
  EXPECT_EQ(traces[0], traces[1]);
}

class cluster_planted : public testing::TestWithParam<cluster_mistake> {};

// The weather in which few seeds find a mistake.
cluster_weather weather_of(cluster_mistake mistake) {
  switch (mistake) {
    case cluster_mistake::endless_lease:
      return cluster_weather::exiles;
    case cluster_mistake::early_read:
    case cluster_mistake::unsynced_primary:
      return cluster_weather::successions;
    case cluster_mistake::lost_departure:
      return cluster_weather::stops;
    case cluster_mistake::dropped_version:
    case cluster_mistake::ignored_log_failure:
      return cluster_weather::disks;
    case cluster_mistake::unsynced_log:
    case cluster_mistake::other_bytes:
      return cluster_weather::restarts;
    case cluster_mistake::swept_fragment:
      return cluster_weather::fragments;
    default:
      return cluster_weather::all;
  }
}

TEST_P(cluster_planted, is_found) {
  auto const weather = weather_of(GetParam());
  for (uint64_t seed = 1; seed <= 300; seed++) {
    cluster_run run{{.seed = seed, .weather = weather, .mistake = GetParam()}};
    if (!run.run(step_count_of(weather)).empty())
      return;
  }
  FAIL() << "300 seeds do not find it";
}

INSTANTIATE_TEST_SUITE_P(mistakes,
                         cluster_planted,
                         testing::Values(cluster_mistake::early_read,
                                         cluster_mistake::early_acknowledgment,
                                         cluster_mistake::ignored_term,
                                         cluster_mistake::endless_lease,
                                         cluster_mistake::unsynced_primary,
                                         cluster_mistake::lost_removal,
                                         cluster_mistake::slow_clock,
                                         cluster_mistake::unsynced_successor,
                                         cluster_mistake::endless_service,
                                         cluster_mistake::lost_departure,
                                         cluster_mistake::unleased_backup,
                                         cluster_mistake::unsettled_backup,
                                         cluster_mistake::kept_backup,
                                         cluster_mistake::early_head,
                                         cluster_mistake::swept_open,
                                         cluster_mistake::swept_uncommitted,
                                         cluster_mistake::equal_versions,
                                         cluster_mistake::dropped_version,
                                         cluster_mistake::ignored_log_failure,
                                         cluster_mistake::unsynced_log,
                                         cluster_mistake::swept_fragment,
                                         cluster_mistake::other_bytes));

}  // namespace
}  // namespace tanada::test
