// One-sided operations under simulation; pgas_harness.hpp describes the checks.
//
// TND_SIM_SEED=n runs only that seed; TND_SIM_COUNT=n runs that many of each weather.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/pgas_harness.hpp"

namespace tanada::test {
namespace {

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

using conditions = std::tuple<pgas_weather, pgas_way>;
class pgas_weathers : public testing::TestWithParam<conditions> {
 protected:
  static std::string run(uint64_t seed) {
    return pgas_run{seed, std::get<0>(GetParam()), pgas_plant::none, std::get<1>(GetParam())}.run();
  }
};

TEST_P(pgas_weathers, hold) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0),
                 count = from_environment("TND_SIM_COUNT", 500);
  uint32_t failures = 0;
  for (uint64_t seed = only != 0 ? only : 1; seed <= (only != 0 ? only : count) && failures < 10;
       seed++) {
    std::string const why = run(seed);
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/pgas_sim --gtest_filter='*"
                       << testing::UnitTest::GetInstance()->current_test_info()->name() << "'";
    failures += why.empty() ? 0 : 1;
  }
}

TEST_P(pgas_weathers, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    pgas_run once{seed, std::get<0>(GetParam()), pgas_plant::none, std::get<1>(GetParam())};
    EXPECT_EQ(once.run(), "");
    return once.trace();
  };
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

std::string weather_name(const testing::TestParamInfo<conditions> &of) {
  static constexpr const char *names[] = {
      "ordered", "unordered", "narrow", "dying", "parted", "lossy"};
  static constexpr const char *ways[] = {"", "staged_", "taken_"};
  return ways[size_t(std::get<1>(of.param))] + std::string{names[size_t(std::get<0>(of.param))]};
}
INSTANTIATE_TEST_SUITE_P(
    pgas_sim,
    pgas_weathers,
    testing::Combine(testing::Values(pgas_weather::ordered,
                                     pgas_weather::unordered,
                                     pgas_weather::narrow,
                                     pgas_weather::dying,
                                     pgas_weather::parted,
                                     pgas_weather::lossy),
                     testing::Values(pgas_way::direct, pgas_way::staged, pgas_way::taken)),
    weather_name);

struct planted {
  const char *name;
  pgas_plant plant;
  pgas_weather weather;
  pgas_way way = pgas_way::direct;
};
class pgas_plants : public testing::TestWithParam<planted> {};

// The checks can fail: every planted fault is found within a few seeds.
TEST_P(pgas_plants, are_found) {
  std::string why;
  uint64_t seed = 0;
  while (why.empty() && seed < 50)
    why = pgas_run{++seed, GetParam().weather, GetParam().plant, GetParam().way}.run();
  EXPECT_NE(why, "");
  RecordProperty("found", why);
  if (from_environment("TND_SIM_TELL", 0) != 0)
    std::printf("%s, seed %d: %s\n", GetParam().name, int(seed), why.c_str());
}

INSTANTIATE_TEST_SUITE_P(
    pgas_sim,
    pgas_plants,
    testing::Values(
        planted{"lost", pgas_plant::lost, pgas_weather::ordered},
        planted{"corrupt", pgas_plant::corrupt, pgas_weather::unordered},
        planted{"overtaken", pgas_plant::overtaken, pgas_weather::ordered},
        planted{"uncopied", pgas_plant::uncopied, pgas_weather::ordered},
        planted{"early_completion", pgas_plant::early_completion, pgas_weather::unordered},
        planted{"done_twice", pgas_plant::done_twice, pgas_weather::unordered},
        planted{"hidden_failure", pgas_plant::hidden_failure, pgas_weather::dying},
        planted{"silent_completion", pgas_plant::silent_completion, pgas_weather::ordered},
        planted{"torn_atomic", pgas_plant::torn_atomic, pgas_weather::ordered},
        planted{"staged_lost", pgas_plant::lost, pgas_weather::ordered, pgas_way::staged},
        planted{"staged_corrupt", pgas_plant::corrupt, pgas_weather::unordered, pgas_way::staged},
        planted{"staged_overtaken", pgas_plant::overtaken, pgas_weather::ordered, pgas_way::staged},
        planted{
            "staged_done_twice", pgas_plant::done_twice, pgas_weather::unordered, pgas_way::staged},
        planted{"staged_silent_completion",
                pgas_plant::silent_completion,
                pgas_weather::ordered,
                pgas_way::staged},
        planted{"taken_lost", pgas_plant::lost, pgas_weather::ordered, pgas_way::taken},
        planted{"taken_corrupt", pgas_plant::corrupt, pgas_weather::unordered, pgas_way::taken}),
    [](auto &of) { return std::string{of.param.name}; });

}  // namespace
}  // namespace tanada::test
