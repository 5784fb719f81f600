// Goal: with a fraction of the memory they need, processes run to their end, whatever they wait
// for. Memory stays within the budget, states change only as permitted, and processes find in
// memory what was written there. Method: random programs (comex_swap_harness.hpp). Planted bugs are
// found. TND_SIM_SEED=n runs only that seed; TND_SIM_COUNT=n runs that many of each weather.
#include <gtest/gtest.h>

#include <cstdlib>

#include "comex_swap_harness.hpp"

namespace tanada::test {
namespace {

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

constexpr const char *names[] = {"sweeps",
                                 "gets",
                                 "locks",
                                 "messages",
                                 "allocations",
                                 "spins",
                                 "unseen",
                                 "mixed",
                                 "failing",
                                 "strangers",
                                 "polls",
                                 "tasks"};
std::string name_of_weather(const testing::TestParamInfo<swap_weather> &info) {
  return names[size_t(info.param)];
}

class swap_weathers : public testing::TestWithParam<swap_weather> {};

TEST_P(swap_weathers, reach_their_end) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0),
                 count = from_environment("TND_SIM_COUNT", 200);
  uint32_t failures = 0;
  uint64_t swaps = 0, requests = 0;
  for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : count) && failures < 10;
       seed++) {
    swap_run run{seed, GetParam()};
    std::string const why = run.run();
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed
                       << " bin/comex_swap_sim --gtest_filter='*weathers*/"
                       << names[size_t(GetParam())] << "'";
    failures += !why.empty();
    swaps += run.counters().swaps_out;
    requests += run.counters().requests;
    // Only pinned memory may take more than there is.
    bool const may_be_beyond = run.waits_for_messages() || GetParam() == swap_weather::failing;
    EXPECT_TRUE(may_be_beyond || run.counters().beyond_budget == 0) << seed;
  }
  if (only != 0)
    return;
  EXPECT_TRUE(GetParam() == swap_weather::unseen || swaps > count / 2);
  EXPECT_TRUE((GetParam() != swap_weather::gets && GetParam() != swap_weather::strangers) ||
              requests > count);
}

TEST_P(swap_weathers, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    swap_run run{seed, GetParam()};
    (void)run.run();
    return run.trace();
  };
  for (uint64_t seed = 1; seed <= 3; seed++)
    EXPECT_EQ(trace_of(seed), trace_of(seed)) << seed;
  EXPECT_NE(trace_of(1), trace_of(2));
}

INSTANTIATE_TEST_SUITE_P(all,
                         swap_weathers,
                         testing::Values(swap_weather::sweeps,
                                         swap_weather::gets,
                                         swap_weather::locks,
                                         swap_weather::messages,
                                         swap_weather::allocations,
                                         swap_weather::spins,
                                         swap_weather::unseen,
                                         swap_weather::mixed,
                                         swap_weather::failing,
                                         swap_weather::strangers,
                                         swap_weather::polls,
                                         swap_weather::tasks),
                         name_of_weather);

class swap_plants : public testing::TestWithParam<std::pair<swap_plant, swap_weather>> {};

TEST_P(swap_plants, are_found) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    if (!swap_run{seed, GetParam().second, GetParam().first}.run().empty())
      return;
  }
  FAIL() << "60 seeds have not found it";
}

INSTANTIATE_TEST_SUITE_P(
    all,
    swap_plants,
    testing::Values(std::pair{swap_plant::touches_while_waiting, swap_weather::sweeps},
                    std::pair{swap_plant::unmarked_writes, swap_weather::gets},
                    std::pair{swap_plant::unmarked_writes, swap_weather::strangers},
                    std::pair{swap_plant::lost_write_back, swap_weather::gets},
                    std::pair{swap_plant::early_in, swap_weather::gets},
                    std::pair{swap_plant::never_prepared, swap_weather::sweeps},
                    std::pair{swap_plant::cache_beside_budget, swap_weather::gets},
                    std::pair{swap_plant::age_of_last_wait, swap_weather::polls},
                    std::pair{swap_plant::age_of_last_wait, swap_weather::tasks},
                    std::pair{swap_plant::zeros_as_stored, swap_weather::sweeps},
                    std::pair{swap_plant::zeros_as_stored, swap_weather::gets},
                    std::pair{swap_plant::hidden_left_out, swap_weather::gets},
                    std::pair{swap_plant::hidden_left_out, swap_weather::strangers},
                    std::pair{swap_plant::lost_wakeups, swap_weather::sweeps},
                    std::pair{swap_plant::lost_wakeups, swap_weather::mixed}));

// Ranks of a sweep that are resident when the barrier opens run first: there are no more moves than
// for the others.
TEST(comex_swap_sim, sweeps_move_what_they_must) {
  for (uint32_t const fraction : {2u, 4u, 8u}) {
    swap_setting const chosen{.ranks = 16,
                              .pages = 8,
                              .rounds = 10,
                              .budget_pages = 16 * 8 / fraction,
                              .slots = 2,
                              .moves_max = 2,
                              .cache_pages = 2};
    swap_run run{7, swap_weather::sweeps, chosen};
    ASSERT_EQ(run.run(), "");
    double const must = double(chosen.rounds + 1) * double(chosen.ranks - chosen.ranks / fraction);
    double const ratio = double(run.counters().swaps_in) / must;
    std::printf("memory for 1/%u: %llu moves in, %.2f of the least, %.1f ms\n",
                fraction,
                (unsigned long long)run.counters().swaps_in,
                ratio,
                double(run.now_ns()) / 1e6);
    EXPECT_LT(ratio, 1.3);
  }
}

}  // namespace
}  // namespace tanada::test
