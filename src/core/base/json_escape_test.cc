#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/base/log_format.hpp"

namespace tanada {
namespace {

TEST(json_escape, quotes_backslashes_and_control_characters_are_escaped) {
  EXPECT_EQ(json_escaped("a \"b\" \\ c"), "a \\\"b\\\" \\\\ c");
  EXPECT_EQ(json_escaped("line\nnext\x01"), "line\\u000Anext\\u0001");
  EXPECT_EQ(json_escaped(""), "");
}

TEST(json_escape, utf8_stays_and_other_bytes_become_hexadecimal) {
  EXPECT_EQ(json_escaped("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xbe"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8c\xbe");
  EXPECT_EQ(json_escaped("\xff"), "\\\\xFF");
  EXPECT_EQ(json_escaped("\xc3"), "\\\\xC3");             // the text ends within a character
  EXPECT_EQ(json_escaped("\xc0\x80"), "\\\\xC0\\\\x80");  // a zero in two bytes
  EXPECT_EQ(json_escaped("\xed\xa0\x80"), "\\\\xED\\\\xA0\\\\x80");  // half of a pair of UTF-16
  EXPECT_EQ(json_escaped("\xf4\x90\x80\x80"), "\\\\xF4\\\\x90\\\\x80\\\\x80");
}

TEST(json_escape, log_lines_are_objects) {
  testing::internal::CaptureStderr();
  set_log_format(log_format::json);
  log(log_level::error, "no \"{}\"", "space\x1b");
  log_notice("ready");
  set_log_format(log_format::text);
  std::string const text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("\"level\":\"error\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"message\":\"no \\\"space\\\\x1B\\\"\"}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\"level\":\"info\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"message\":\"ready\"}\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace tanada
