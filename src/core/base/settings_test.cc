#include "core/base/settings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/log.hpp"
#include "core/base/setting_names.hpp"

namespace tanada {
namespace {

// Sets a variable for one test.
class settings : public testing::Test {
 protected:
  ~settings() override {
    for (const std::string &name : names_)
      unsetenv(name.c_str());
  }
  void set(const std::string &name, const char *value) {
    setenv(name.c_str(), value, 1);
    names_.push_back(name);
  }

 private:
  std::vector<std::string> names_;
};

TEST_F(settings, known_names_pass) {
  set("TND_SIM_COUNT", "3");
  set("TND_POOLD_SIZE", "nonsense, which its product reports");
  set("SOMEBODY_ELSE", "1");
  EXPECT_EQ(settings_check(), status::ok);
}

TEST_F(settings, an_unknown_name_is_refused_with_the_nearest_one) {
  set("TND_GFILE_PAGESIZE", "64K");
  testing::internal::CaptureStderr();
  EXPECT_EQ(settings_check(), status::invalid);
  std::string const line = testing::internal::GetCapturedStderr();
  EXPECT_NE(last_message().find("TND_GFILE_PAGESIZE, which no Tanada product reads"),
            std::string::npos)
      << last_message();
  EXPECT_NE(last_message().find("use TND_GFILE_PAGE_SIZE if"), std::string::npos) << last_message();
  EXPECT_NE(line.find("error: the environment sets TND_GFILE_PAGESIZE"), std::string::npos) << line;
}

TEST_F(settings, every_unknown_name_is_reported) {
  set("TND_POOL_KEYFILE", "/nowhere");
  set("TND_02G_TICK", "1ms");
  EXPECT_EQ(settings_check(), status::invalid);
  EXPECT_NE(last_message().find("TND_POOL_KEY_FILE"), std::string::npos) << last_message();
  EXPECT_NE(last_message().find("TND_O2G_TICK"), std::string::npos) << last_message();
}

TEST_F(settings, an_unknown_name_without_a_value_counts_as_not_set) {
  set("TND_GFILE_PAGESIZE", "");
  EXPECT_EQ(settings_check(), status::ok);
}

TEST_F(settings, an_unknown_level_of_the_log_is_refused) {
  set("TND_LOG", "verbose");
  EXPECT_EQ(settings_check(), status::invalid);
  EXPECT_EQ(last_message(),
            "TND_LOG=verbose is invalid; choose one of: off, error, warning, info, debug");
  EXPECT_EQ(setting_faults().size(), 1u);
  for (std::string_view const level : log_level_names) {
    setenv("TND_LOG", std::string{level}.c_str(), 1);
    EXPECT_EQ(settings_check(), status::ok) << level;
  }
}

TEST_F(settings, a_name_with_control_characters_does_not_reach_the_log) {
  set("TND_A\nB\x1b[2J", "1");
  testing::internal::CaptureStderr();
  EXPECT_EQ(settings_check(), status::invalid);
  std::string const line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

TEST(settings_names, the_nearest_name_of_a_known_one_is_itself) {
  for (std::string_view const name : setting_names)
    EXPECT_EQ(nearest_name(name, setting_names), name);
}

TEST(settings_names, lists_are_sorted_and_disjoint) {
  EXPECT_TRUE(std::is_sorted(std::begin(setting_names), std::end(setting_names)));
  EXPECT_TRUE(std::is_sorted(std::begin(development_names), std::end(development_names)));
  for (std::string_view const name : development_names) {
    EXPECT_EQ(std::find(std::begin(setting_names), std::end(setting_names), name),
              std::end(setting_names))
        << name;
  }
}

}  // namespace
}  // namespace tanada
