// o2g engines under simulation; o2g_harness.hpp describes the checks.
//
// TND_SIM_SEED=n runs only that seed; TND_SIM_COUNT=n runs that many of each weather.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/o2g_harness.hpp"

namespace tanada::test {
namespace {

constexpr uint32_t step_count = 2'000;

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

class o2g_weathers : public testing::TestWithParam<o2g_weather> {};

TEST_P(o2g_weathers, hold) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0),
                 count = from_environment("TND_SIM_COUNT", 80);
  uint32_t failures = 0;
  for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : count) && failures < 10;
       seed++) {
    std::string const why = o2g_run{seed, GetParam()}.run(step_count);
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/o2g_sim --gtest_filter='*"
                       << testing::UnitTest::GetInstance()->current_test_info()->name() << "'";
    failures += why.empty() ? 0 : 1;
  }
}

TEST_P(o2g_weathers, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    o2g_run run{seed, GetParam()};
    EXPECT_EQ(run.run(step_count), "");
    return run.trace();
  };
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

std::string weather_name(const testing::TestParamInfo<o2g_weather> &of) {
  static constexpr const char *names[] = {"fair", "ending", "dying", "refusing", "cutting"};
  return names[size_t(of.param)];
}
INSTANTIATE_TEST_SUITE_P(o2g_sim,
                         o2g_weathers,
                         testing::Values(o2g_weather::fair,
                                         o2g_weather::ending,
                                         o2g_weather::dying,
                                         o2g_weather::refusing,
                                         o2g_weather::cutting),
                         weather_name);

}  // namespace
}  // namespace tanada::test
