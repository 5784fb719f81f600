#include "core/base/log.hpp"

#include <gtest/gtest.h>
#include <tanada/status.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <thread>

#include "core/base/message.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada {
namespace {

TEST(log, fail_hands_the_status_back_and_keeps_the_message) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(fail(status::no_space, "pool of {} bytes is full", 4096), status::no_space);
  std::string const line = testing::internal::GetCapturedStderr();
  EXPECT_STREQ(tnd_last_message(), "pool of 4096 bytes is full");
  EXPECT_NE(line.find("pool of 4096 bytes is full (ENOSPC)\n"), std::string::npos) << line;
}

TEST(log, messages_belong_to_their_thread) {
  set_last_message("mine");
  std::string of_new_thread = "not read";
  std::thread{[&] {
    of_new_thread = tnd_last_message();
    set_last_message("theirs");
  }}.join();
  EXPECT_EQ(of_new_thread, "");
  EXPECT_EQ(last_message(), "mine");
}

TEST(log, levels_below_the_threshold_are_silent) {
  testing::internal::CaptureStderr();
  log(log_level::debug, "whispered");
  log(log_level::error, "shouted {{}} {}", 3);
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines.find("whispered"), std::string::npos);
  EXPECT_NE(lines.find("shouted {} 3\n"), std::string::npos) << lines;
}

TEST(log, a_long_message_is_cut_not_overrun) {
  set_last_message("");
  testing::internal::CaptureStderr();
  EXPECT_EQ(fail(status::io, "{}", std::string(5000, 'x')), status::io);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find('\0'), std::string::npos);
  EXPECT_EQ(last_message().size(), 1023u);
}

TEST(log, a_failure_whose_text_has_a_null_string_returns_its_status) {
  const char *const missing = nullptr;
  testing::internal::CaptureStderr();
  EXPECT_EQ(fail(status::io, "cannot open {}", missing), status::io);
  log(log_level::error, "cannot close {}", missing);
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(last_message(), "cannot open {}");
  EXPECT_NE(lines.find("cannot close {}\n"), std::string::npos) << lines;
}

TEST(log, who_prints_a_message_knows_whether_it_was_logged) {
  testing::internal::CaptureStderr();
  (void)fail(status::io, "once");
  EXPECT_TRUE(last_message_is_logged());
  set_last_message("not yet");
  EXPECT_FALSE(last_message_is_logged());
  (void)testing::internal::GetCapturedStderr();
}

size_t count_of(const std::string &text, const char *part) {
  size_t count = 0;
  for (size_t position = text.find(part); position != std::string::npos;
       position = text.find(part, position + 1))
    count++;
  return count;
}

TEST(log, a_deferred_message_is_left_to_the_program_that_takes_it) {
  testing::internal::CaptureStderr();
  {
    message_deferral deferral;
    EXPECT_EQ(fail(status::busy, "the port is taken"), status::busy);
    EXPECT_FALSE(last_message_is_logged());
    EXPECT_EQ(deferral.take(status::busy), "the port is taken (EBUSY)");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  {
    message_deferral const deferral;
    (void)fail(status::io, "not fatal");
    (void)fail(status::no_entry, "outer: {}", "inner");
    (void)fail(status::busy, "again: {}", last_message());
  }
  (void)fail(status::io, "as before");
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count_of(lines, "not fatal (EIO)"), 1u) << lines;
  EXPECT_EQ(count_of(lines, "inner"), 1u) << lines;
  EXPECT_EQ(count_of(lines, "again: outer: inner (EBUSY)"), 1u) << lines;
  EXPECT_EQ(count_of(lines, "as before (EIO)"), 1u) << lines;
  EXPECT_EQ(count_of(lines, "warning"), 3u) << lines;
}

TEST(log, a_silence_keeps_messages_and_logs_none) {
  testing::internal::CaptureStderr();
  {
    message_silence const silence;
    {
      message_silence const inner;
      (void)fail(status::busy, "quiet");
    }
    EXPECT_EQ(fail(status::io, "quiet, too"), status::io);
    EXPECT_EQ(last_message(), "quiet, too");
    EXPECT_FALSE(last_message_is_logged());
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  (void)fail(status::io, "as before");
  EXPECT_EQ(count_of(testing::internal::GetCapturedStderr(), "as before (EIO)"), 1u);
}

TEST(log, text_of_others_forges_no_line) {
  std::string const forged = "alice\n00:00:00.000 tanada error: forged\x1b[2J";
  testing::internal::CaptureStderr();
  log(log_level::warning, "key \"{}\" is refused", forged);
  (void)fail(status::access, "key \"{}\"", forged);
  std::string const lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
  EXPECT_EQ(lines.find('\x1b'), std::string::npos);
  EXPECT_NE(lines.find("alice\\x0A00:00:00.000"), std::string::npos) << lines;
  EXPECT_EQ(last_message().find('\n'), std::string::npos);
  testing::internal::CaptureStderr();
  (void)fail(status::access, "key \"{}\"", std::string("a\0b", 3));
  EXPECT_STREQ(tnd_last_message(), "key \"a\\x00b\"");
  (void)testing::internal::GetCapturedStderr();
  set_last_message("the peer sent\r\n");
  EXPECT_STREQ(tnd_last_message(), "the peer sent\\x0D\\x0A");
}

// Programs close their objects in atexit() handlers and in destructors of static objects.
void check_message_at_exit(const std::string &expected) {
  static std::string const *expected_message = nullptr;
  expected_message = new std::string{expected};
  (void)std::atexit([] {
    bool const is_kept = last_message() == *expected_message;
    set_last_message(std::string(200, 'b'));
    set_last_message("short");
    std::_Exit(is_kept && last_message() == "short" ? 0 : 1);
  });
}

TEST(log, the_main_thread_has_its_message_until_the_process_has_ended) {
  auto const end = [] {
    set_last_message(std::string(100, 'a'));
    check_message_at_exit(std::string(100, 'a'));
    std::exit(2);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

TEST(log, a_thread_that_calls_exit_may_set_messages_in_its_handlers) {
  auto const end = [] {
    std::thread{[] {
      set_last_message(std::string(100, 'a'));
      check_message_at_exit("");
      std::exit(2);
    }}.join();
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tanada
