#include "core/base/bounded_text.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace tanada {
namespace {

TEST(bounded_text, a_text_has_its_arguments) {
  int const count = 3;
  bounded_text const text{"{{{}}} {:#x}", fmt::make_format_args(count, count)};
  EXPECT_EQ(text.view(), "{3} 0x3");
  EXPECT_STREQ(text.c_str(), "{3} 0x3");
}

TEST(bounded_text, a_longer_text_is_truncated) {
  for (size_t size : {bounded_text::size_max, bounded_text::size_max + 1, size_t{5000}}) {
    std::string const part(size - 1, 'x');
    bounded_text const text{"y{}", fmt::make_format_args(part)};
    EXPECT_EQ(text.view(), "y" + std::string(bounded_text::size_max - 1, 'x'));
    EXPECT_EQ(std::strlen(text.c_str()), bounded_text::size_max);
  }
}

TEST(bounded_text, a_text_that_cannot_be_formatted_is_its_format) {
  const char *const missing = nullptr;
  bounded_text const text{"cannot open {}", fmt::make_format_args(missing)};
  EXPECT_EQ(text.view(), "cannot open {}");
  std::string const format(2000, 'f');
  bounded_text const longer{format + "{}", fmt::make_format_args(missing)};
  EXPECT_EQ(longer.view(), std::string(bounded_text::size_max, 'f'));
}

}  // namespace
}  // namespace tanada
