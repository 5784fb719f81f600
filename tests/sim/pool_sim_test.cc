// The pool under simulation; pool_harness.hpp describes the checks.
//
// TND_SIM_SEED=n runs only that seed; TND_SIM_COUNT=n runs that many of each weather.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/pool_harness.hpp"

namespace tanada::test {
namespace {

constexpr uint32_t step_count = 150;

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string outcome_of(const pool_setting &setting) {
  return pool_run{setting}.run(step_count);
}

class pool_weathers : public testing::TestWithParam<weather> {};

TEST_P(pool_weathers, hold) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0),
                 count = from_environment("TND_SIM_COUNT", 300);
  uint32_t failures = 0;
  for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : count) && failures < 10;
       seed++) {
    std::string const why = outcome_of({seed, GetParam()});
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/pool_sim --gtest_filter='*"
                       << testing::UnitTest::GetInstance()->current_test_info()->name() << "'";
    failures += why.empty() ? 0 : 1;
  }
}

TEST_P(pool_weathers, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    pool_run run{{seed, GetParam()}};
    EXPECT_EQ(run.run(step_count), "");
    return run.trace();
  };
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

std::string weather_name(const testing::TestParamInfo<weather> &of) {
  static constexpr const char *names[] = {"fair", "cuts", "full"};
  return names[size_t(of.param)];
}
INSTANTIATE_TEST_SUITE_P(pool_sim,
                         pool_weathers,
                         testing::Values(weather::fair, weather::cuts, weather::full),
                         weather_name);

struct planted_mistake {
  plant what;
  const char *expected;
};

class pool_planted : public testing::TestWithParam<planted_mistake> {};

TEST_P(pool_planted, is_caught) {
  uint32_t right = 0;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    std::string const why = outcome_of({seed, weather::fair, GetParam().what});
    if (why.find(GetParam().expected) != std::string::npos)
      right++;
  }
  EXPECT_GE(right, 5u);
}

std::string plant_name(const testing::TestParamInfo<planted_mistake> &of) {
  static constexpr const char *names[] = {"none", "torn_object", "lost_commit", "stale_object"};
  return names[size_t(of.param.what)];
}
INSTANTIATE_TEST_SUITE_P(pool_sim,
                         pool_planted,
                         testing::Values(planted_mistake{plant::torn_object, "is a mix of bytes"},
                                         planted_mistake{plant::lost_commit, "nobody removed it"},
                                         planted_mistake{plant::stale_object, "is a mix of bytes"}),
                         plant_name);

}  // namespace
}  // namespace tanada::test
