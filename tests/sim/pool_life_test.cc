// The whole pool under simulation, with a disk below it and its end at any moment: pool_life.hpp says what is checked.
//
// TND_SIM_SEED=n runs that seed alone; TND_SIM_COUNT=n that many of each weather.
#include <gtest/gtest.h>

#include <cstdlib>

#include "sim/pool_life.hpp"

namespace tanada::test {
namespace {

constexpr uint32_t step_count = 120;

uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

class pool_lives : public testing::TestWithParam<std::pair<const char *, sky>> {};

TEST_P(pool_lives, hold) {
  uint64_t const only = from_environment("TND_SIM_SEED", 0), count = from_environment("TND_SIM_COUNT", 50);
  uint64_t const first = only != 0 ? only : 1, last = only != 0 ? only : count;
  uint32_t failures = 0;
  pool_life::counters all;
  for (uint64_t seed = first; seed <= last && failures < 10; seed++) {
    pool_life life{{seed, GetParam().second}};
    std::string const why = life.run(step_count);
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/pool_life_sim --gtest_filter=*hold/" << GetParam().first;
    failures += why.empty() ? 0 : 1;
    all.lives += life.counted().lives, all.durable += life.counted().durable;
    all.recovered_objects += life.counted().recovered_objects;
  }
  if (only != 0 || failures > 0) return;
  // It is about something.
  EXPECT_GE(all.lives, 3 * count);
  EXPECT_GE(all.durable, 5 * count);
  EXPECT_GE(all.recovered_objects, 8 * count);
}

TEST_P(pool_lives, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    pool_life life{{seed, GetParam().second}};
    (void)life.run(step_count);
    return life.trace();
  };
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

INSTANTIATE_TEST_SUITE_P(sim, pool_lives,
                         testing::Values(std::pair{"calm", sky::calm}, std::pair{"cuts", sky::cuts},
                                         std::pair{"errors", sky::errors}, std::pair{"full", sky::full},
                                         std::pair{"slow", sky::slow}, std::pair{"lies", sky::lies}),
                         [](const auto &param) { return std::string{param.param.first}; });

struct planted_mistake {
  const char *name;
  mistake what;
  const char *expected;
};

class pool_life_planted : public testing::TestWithParam<planted_mistake> {};

TEST_P(pool_life_planted, is_caught) {
  uint32_t right = 0;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    std::string const why = pool_life{{seed, sky::calm, GetParam().what}}.run(step_count);
    if (why.find(GetParam().expected) != std::string::npos) right++;
  }
  EXPECT_GE(right, 4u);
}

INSTANTIATE_TEST_SUITE_P(sim, pool_life_planted,
                         testing::Values(planted_mistake{"early_answer", mistake::early_answer, "came back"},
                                         planted_mistake{"unsynced", mistake::unsynced, "came back"},
                                         planted_mistake{"lost_removal", mistake::lost_removal, "came back"},
                                         planted_mistake{"lost_rename", mistake::lost_rename, "came back"},
                                         planted_mistake{"lost_overwrite", mistake::lost_overwrite, "came back"},
                                         planted_mistake{"partial_sets", mistake::partial_sets, "came back"},
                                         planted_mistake{"old_versions", mistake::old_versions, "comes after"},
                                         planted_mistake{"lost_memory", mistake::lost_memory, "bytes are in use"}),
                         [](const auto &param) { return std::string{param.param.name}; });

}  // namespace
}  // namespace tanada::test
