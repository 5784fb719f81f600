// Goal: gfile keeps its contract for any store, thread order and timing: every read returns
// permitted bytes, every status is permitted, no data are lost silently, and nothing leaks. Method:
// all of gfile in one thread and from one seed (gfile_harness.hpp). Kernels of threads, warps or
// blocks run random scripts on files that all write to, files of their own, and a file that another
// node changes. One seed twice gives one trace; planted faults prove that each check can fail.
//
// TND_SIM_SEED=n runs only that seed; TND_SIM_COUNT=n runs that many of each weather;
// TND_SIM_TELL=1 prints each call.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "gfile_harness.hpp"

namespace gfile_sim {
namespace {

u64 current_seed = 0;

void on_abort(int) {
  char line[200];
  auto const *const test = testing::UnitTest::GetInstance()->current_test_info();
  int const size = std::snprintf(line,
                                 sizeof line,
                                 "\nreplay: TND_SIM_SEED=%llu bin/gfile_sim --gtest_filter=%s.%s\n",
                                 (unsigned long long)current_seed,
                                 test->test_suite_name(),
                                 test->name());
  if (write(2, line, size_t(size)) < 0)
    _exit(3);
  std::signal(SIGABRT, SIG_DFL);
}

u64 from_environment(const char *name, u64 otherwise) {
  const char *const text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

struct outcome {
  std::string why;
  u64 trace;
};

outcome run_seed(u64 seed, weather sky, plant planted = plant::none) {
  current_seed = seed;
  gfile_run run{{seed, sky, planted, from_environment("TND_SIM_TELL", 0) != 0}};
  std::string const why = run.run();
  return {why, run.trace()};
}

class weathers : public testing::TestWithParam<weather> {
 protected:
  void SetUp() override {
    std::signal(SIGABRT, on_abort);
  }
};

TEST_P(weathers, hold) {
  const char *const name = testing::UnitTest::GetInstance()->current_test_info()->name();
  u64 const only = from_environment("TND_SIM_SEED", ~u64{0}),
            count = from_environment("TND_SIM_COUNT", 800);
  u64 const first = only != ~u64{0} ? only : 1, last = only != ~u64{0} ? only : count;
  u32 failures = 0;
  for (u64 seed = first; seed <= last && failures < 10; seed++) {
    std::string const why = run_seed(seed, GetParam()).why;
    EXPECT_EQ(why, "") << "replay: TND_SIM_SEED=" << seed << " bin/gfile_sim --gtest_filter='*."
                       << name << "'";
    failures += why.empty() ? 0 : 1;
  }
}

TEST_P(weathers, repeat_for_a_seed) {
  for (u64 seed = 1; seed <= 5; seed++)
    EXPECT_EQ(run_seed(seed, GetParam()).trace, run_seed(seed, GetParam()).trace) << seed;
  EXPECT_NE(run_seed(1, GetParam()).trace, run_seed(2, GetParam()).trace);
}

std::string weather_name(const testing::TestParamInfo<weather> &of) {
  static constexpr const char *names[] = {"fair", "errors", "losses", "stalls"};
  return names[size_t(of.param)];
}
INSTANTIATE_TEST_SUITE_P(
    gfile_sim,
    weathers,
    testing::Values(weather::fair, weather::errors, weather::losses, weather::stalls),
    weather_name);

struct planted_fault {
  plant what;
  weather sky;
  const char *expected;  // in the message
};

class planted : public testing::TestWithParam<planted_fault> {};

TEST_P(planted, is_caught) {
  u32 caught = 0, right = 0;
  for (u64 seed = 1; seed <= 60; seed++) {
    std::string const why = run_seed(seed, GetParam().sky, GetParam().what).why;
    if (!why.empty())
      caught++;
    if (why.find(GetParam().expected) != std::string::npos)
      right++;
  }
  EXPECT_GE(caught, 5u);
  EXPECT_GE(right, 3u) << GetParam().expected;
}

std::string plant_name(const testing::TestParamInfo<planted_fault> &of) {
  static constexpr const char *names[] = {"none",
                                          "lost_write",
                                          "hidden_error",
                                          "flipped_read",
                                          "flipped_direct",
                                          "stale_version",
                                          "jumping_clock",
                                          "kept_page"};
  return names[size_t(of.param.what)];
}
INSTANTIATE_TEST_SUITE_P(
    gfile_sim,
    planted,
    testing::Values(planted_fault{plant::lost_write, weather::fair, "wrong byte"},
                    planted_fault{plant::hidden_error, weather::losses, "nobody was told"},
                    planted_fault{plant::flipped_read, weather::fair, "gread"},
                    planted_fault{plant::flipped_direct, weather::fair, "gread"},
                    planted_fault{plant::stale_version, weather::fair, "sim://foreign"},
                    planted_fault{plant::jumping_clock, weather::fair, "status -110"},
                    planted_fault{plant::kept_page, weather::fair, "still pinned"}),
    plant_name);

}  // namespace
}  // namespace gfile_sim
