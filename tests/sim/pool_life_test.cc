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
  uint64_t const only = from_environment("TND_SIM_SEED", 0), count = from_environment("TND_SIM_COUNT", 50);
  uint64_t const first = only != 0 ? only : 1, last = only != 0 ? only : count;
  uint32_t failures = 0;
  pool_life::counters all;
  for (uint64_t seed = first; seed <= last && failures < 10; seed++) {
    pool_life life = life_of(seed);
    std::string const why = life.run(step_count);
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/pool_life_sim --gtest_filter=*hold/" << GetParam().name;
    failures += why.empty() ? 0 : 1;
    all.lives += life.counted().lives;
    all.durable += life.counted().durable;
    all.recovered_objects += life.counted().recovered_objects;
    all.grown += life.counted().grown;
  }
  if (only != 0 || failures > 0) return;
  // It is about something.
  EXPECT_GE(all.lives, 3 * count);
  EXPECT_GE(all.grown, 3 * count);
  if (GetParam().kept_on == medium::memory) return;
  EXPECT_GE(all.durable, 5 * count);
  EXPECT_GE(all.recovered_objects, 8 * count);
}

TEST_P(pool_lives, repeat_for_a_seed) {
  auto const trace_of = [&](uint64_t seed) {
    pool_life life = life_of(seed);
    (void)life.run(step_count);
    return life.trace();
  };
  EXPECT_EQ(trace_of(1), trace_of(1));
  EXPECT_NE(trace_of(1), trace_of(2));
}

INSTANTIATE_TEST_SUITE_P(sim, pool_lives,
                         testing::Values(life_case{"calm", sky::calm, medium::flash}, life_case{"cuts", sky::cuts, medium::flash},
                                         life_case{"errors", sky::errors, medium::flash},
                                         life_case{"full", sky::full, medium::flash}, life_case{"slow", sky::slow, medium::flash},
                                         life_case{"lies", sky::lies, medium::flash},
                                         life_case{"file_calm", sky::calm, medium::file},
                                         life_case{"file_cuts", sky::cuts, medium::file},
                                         life_case{"file_errors", sky::errors, medium::file},
                                         life_case{"file_full", sky::full, medium::file},
                                         life_case{"file_slow", sky::slow, medium::file},
                                         life_case{"file_lies", sky::lies, medium::file},
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
  uint32_t right = 0;
  for (uint64_t seed = 1; seed <= 100; seed++) {
    pool_life life{{seed, sky::calm, GetParam().planted, GetParam().kept_on}};
    std::string const why = life.run(step_count);
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
                                         planted_mistake{"lost_memory", mistake::lost_memory, "bytes are in use"},
                                         planted_mistake{"unsynced_file", mistake::unsynced_file, "is damaged", medium::file},
                                         planted_mistake{"early_reuse", mistake::early_reuse, "is damaged", medium::file},
                                         planted_mistake{"file_early_answer", mistake::early_answer, "came back", medium::file},
                                         planted_mistake{"file_lost_memory", mistake::lost_memory, "bytes are in use", medium::file}),
                         [](const auto &param) { return std::string{param.param.name}; });

}  // namespace
}  // namespace tanada::test
