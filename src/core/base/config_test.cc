#include "core/base/config.hpp"

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/log.hpp"

namespace tanada {
namespace {

constexpr const char *variable_name = "TND_MEM_STORE_SIZE_MAX";

class environment : public testing::Test {
 protected:
  ~environment() override {
    unsetenv(variable_name);
  }
  static void set(const char *text) {
    setenv(variable_name, text, 1);
  }
};

TEST(config, sizes) {
  const std::pair<const char *, uint64_t> good[] = {{"0", 0},
                                                    {"4096", 4096},
                                                    {"4096B", 4096},
                                                    {"64K", 64 << 10},
                                                    {"64KiB", 64 << 10},
                                                    {"2M", 2 << 20},
                                                    {"8GiB", 8ull << 30},
                                                    {"1T", 1ull << 40},
                                                    {"18446744073709551615", UINT64_MAX},
                                                    {"1.5G", 3ull << 29},
                                                    {".5m", 1 << 19},
                                                    {"3.1M", 3250586},
                                                    {"20k", 20480},
                                                    {"64kib", 64 << 10},
                                                    {"1.5", 2},
                                                    {"0.0000000000000000001T", 1},
                                                    {"16777215.999999999999T", UINT64_MAX}};
  for (auto const &[text, size] : good) {
    auto parsed = parse_size(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed.value(), size) << text;
  }
  for (const char *bad : {"",
                          " 1",
                          "1 ",
                          "-1",
                          "+1",
                          "0x10",
                          "1.G",
                          ".G",
                          ".",
                          "1..5G",
                          "1,5G",
                          "K",
                          "1 K",
                          "1KB",
                          "1e3",
                          "64KiBs",
                          "inf",
                          "18446744073709551616",
                          "16777216T",
                          "18446744073709551615.5",
                          "16777215.9999999999999T"})
    EXPECT_EQ(parse_size(bad).error(), status::invalid) << bad;
}

TEST(config, durations) {
  const std::pair<const char *, uint64_t> good[] = {{"100ns", 100},
                                                    {"10us", 10'000},
                                                    {"250ms", 250'000'000},
                                                    {"5s", 5'000'000'000},
                                                    {"2min", 120'000'000'000},
                                                    {"none", TND_NO_DEADLINE},
                                                    {"1.5s", 1'500'000'000},
                                                    {".25ms", 250'000},
                                                    {"0.5min", 30'000'000'000},
                                                    {"1.5ns", 2}};
  for (auto const &[text, duration_ns] : good) {
    auto parsed = parse_duration_ns(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed.value(), duration_ns) << text;
  }
  for (const char *bad : {"",
                          "5",
                          "s",
                          "5 s",
                          "-5s",
                          "5S",
                          "5sec",
                          "None",
                          "1.s",
                          ".s",
                          "1.5",
                          "18446744073709551615s"})
    EXPECT_EQ(parse_duration_ns(bad).error(), status::invalid) << bad;
}

TEST(config, counts) {
  EXPECT_EQ(parse_count("7", 1, 10).value(), 7u);
  EXPECT_EQ(parse_count("1", 1, 10).value(), 1u);
  EXPECT_EQ(parse_count("10", 1, 10).value(), 10u);
  EXPECT_EQ(parse_count("0", 1, 10).error(), status::range);
  EXPECT_EQ(parse_count("11", 1, 10).error(), status::range);
  EXPECT_EQ(parse_count("99999999999999999999999", 1, 10).error(), status::range);
  for (const char *bad : {"", "x", "7x", "-7", " 7"})
    EXPECT_EQ(parse_count(bad, 1, 10).error(), status::invalid) << bad;
}

TEST(config, choices) {
  constexpr std::string_view names[] = {"fifo", "lru", "clock"};
  EXPECT_EQ(parse_choice("lru", names).value(), 1u);
  EXPECT_EQ(parse_choice("LRU", names).error(), status::invalid);
  EXPECT_EQ(parse_choice("", names).error(), status::invalid);
}

TEST_F(environment, leaves_the_value_alone_when_unset_or_empty) {
  uint64_t value = 42;
  unsetenv(variable_name);
  EXPECT_EQ(environment_size(variable_name, value), status::ok);
  set("");
  EXPECT_EQ(environment_size(variable_name, value), status::ok);
  EXPECT_EQ(value, 42u);
}

TEST_F(environment, overwrites_the_value_when_set) {
  uint64_t size = 0, timeout_ns = 0;
  uint32_t count = 0, choice = 0;
  constexpr std::string_view names[] = {"fifo", "lru", "clock"};
  set("64KiB");
  EXPECT_EQ(environment_size(variable_name, size), status::ok);
  set("5s");
  EXPECT_EQ(environment_duration_ns(variable_name, timeout_ns), status::ok);
  set("12");
  EXPECT_EQ(environment_count(variable_name, 1, 64, count), status::ok);
  set("clock");
  EXPECT_EQ(environment_choice(variable_name, names, choice), status::ok);
  EXPECT_EQ(size, 65536u);
  EXPECT_EQ(timeout_ns, 5'000'000'000u);
  EXPECT_EQ(count, 12u);
  EXPECT_EQ(choice, 2u);
}

TEST_F(environment, a_bad_value_is_named_with_what_would_be_right) {
  uint64_t value = 42;
  uint32_t count = 42, choice = 42;
  constexpr std::string_view names[] = {"fifo", "lru"};
  set("lots");
  EXPECT_EQ(environment_size(variable_name, value), status::invalid);
  EXPECT_NE(last_message().find("TND_MEM_STORE_SIZE_MAX=lots"), std::string::npos)
      << last_message();
  EXPECT_NE(last_message().find("64KiB"), std::string::npos) << last_message();
  EXPECT_EQ(environment_duration_ns(variable_name, value), status::invalid);
  EXPECT_NE(last_message().find("250ms"), std::string::npos) << last_message();
  EXPECT_EQ(environment_choice(variable_name, names, choice), status::invalid);
  EXPECT_NE(last_message().find("fifo, lru"), std::string::npos) << last_message();
  set("65");
  EXPECT_EQ(environment_count(variable_name, 1, 64, count), status::range);
  EXPECT_NE(last_message().find("from 1 to 64"), std::string::npos) << last_message();
  EXPECT_EQ(value, 42u);
  EXPECT_EQ(count, 42u);
  EXPECT_EQ(choice, 42u);
}

TEST_F(environment, a_count_never_loses_bits) {
  uint32_t count = 42;
  set("4294967296");
  EXPECT_EQ(environment_count(variable_name, 0, UINT64_MAX, count), status::range);
  EXPECT_EQ(count, 42u);
}

}  // namespace
}  // namespace tanada
