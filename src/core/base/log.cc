// Log lines on stderr, and the last message of each thread.
#include "core/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <tanada/status.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "core/base/bounded_text.hpp"
#include "core/base/escape.hpp"
#include "core/base/log_format.hpp"
#include "core/base/message.hpp"
#include "core/base/setting_names.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada {
namespace {

// Storage of a thread's last message. Other objects of the thread may set and read it while they
// are destroyed, and afterwards.
class message_slot {
 public:
  std::string &text() noexcept {
    if (!is_live_)
      new (bytes_) std::string;
    is_live_ = true;
    return *std::launder(reinterpret_cast<std::string *>(bytes_));
  }
  void release() noexcept {
    if (is_live_)
      std::destroy_at(&text());
    is_live_ = false;
  }

 private:
  alignas(std::string) std::byte bytes_[sizeof(std::string)] = {};
  bool is_live_ = false;
};
constinit thread_local message_slot slot_of_thread;  // trivially destroyed

// Releases the message at the end of a thread, except the main thread. There exit() destroys
// thread_local objects before it runs atexit() handlers and static destructors, in which programs
// close objects and print why that failed.
struct slot_releaser {
  ~slot_releaser() {
    if (gettid() != getpid())
      slot_of_thread.release();
  }
};

std::string &message_of_thread() {
  thread_local slot_releaser releaser;
  return slot_of_thread.text();
}

bool &is_message_logged() {
  thread_local bool is_logged = false;
  return is_logged;
}

// Whether the last message of the thread waits under a message_deferral.
struct deferred_message {
  bool is_on = false, is_pending = false;
  status code = status::ok;
};
deferred_message &deferred_of_thread() {
  thread_local deferred_message state;
  return state;
}

// Whether a message_silence is active.
bool &is_silent() {
  thread_local bool is_on = false;
  return is_on;
}

// An invalid value leaves the default here; settings_check() reports it.
spdlog::level::level_enum level_of_environment() {
  const char *const text = std::getenv("TND_LOG");
  if (text == nullptr)
    return spdlog::level::warn;
  auto const *const known = std::find(std::begin(log_level_names), std::end(log_level_names), text);
  return known != std::end(log_level_names) ? spdlog::level::from_str(text) : spdlog::level::warn;
}

spdlog::level::level_enum spdlog_level(log_level level) {
  static constexpr spdlog::level::level_enum levels[] = {
      spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  return levels[int(level)];
}

constexpr const char *text_pattern = "%H:%M:%S.%e tanada %l: %v";
constexpr const char *json_pattern =
    R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","pid":%P,"thread":%t,"message":"%v"})";

std::atomic<log_format> format_of_lines = log_format::text;

// Never destroyed: threads blocked in a store may outlive main and still log.
spdlog::logger &logger() {
  static spdlog::logger &instance = *[] {
    auto *const created =
        new spdlog::logger{"tanada", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    created->set_pattern(text_pattern);
    created->set_level(level_of_environment());
    return created;
  }();
  return instance;
}

// The message of a line, without characters that would end it.
std::string formatted(std::string_view text) {
  std::string escaped = escape_control(text);
  return format_of_lines == log_format::json ? json_escaped(escaped) : escaped;
}

}  // namespace

void set_log_format(log_format format) {
  format_of_lines = format;
  if (format == log_format::json)
    logger().set_pattern(json_pattern, spdlog::pattern_time_type::utc);
  else
    logger().set_pattern(text_pattern);
}

void log_notice(std::string_view text) noexcept try {
  std::string const line = formatted(text);
  for (auto const &sink : logger().sinks())
    sink->log(spdlog::details::log_msg{"tanada", spdlog::level::info, line});
} catch (const std::exception &) {
  std::fprintf(stderr, "tanada: insufficient memory to log: %.*s\n", int(text.size()), text.data());
}

void log_text(log_level level, fmt::string_view format, fmt::format_args arguments) noexcept try {
  auto const native_level = spdlog_level(level);
  if (!logger().should_log(native_level))
    return;
  bounded_text const text{format, arguments};
  logger().log(native_level, "{}", formatted(text.view()));
} catch (const std::bad_alloc &) {
  std::fprintf(stderr,
               "tanada: insufficient memory to format a log line: %.*s\n",
               int(format.size()),
               format.data());
}

namespace {

void log_failure(status code) {
  log(log_level::warning, "{} ({})", last_message(), tnd_status_name(tnd_status(code)));
}

// Log the pending message before `next` replaces it, unless `next` contains it.
void log_deferred(const std::string &next) {
  deferred_message &deferred = deferred_of_thread();
  if (!std::exchange(deferred.is_pending, false) || last_message().empty())
    return;
  if (!next.empty() && next.find(last_message()) != std::string::npos)
    return;
  log_failure(deferred.code);
  is_message_logged() = logger().should_log(spdlog::level::warn);
}

}  // namespace

// Escape it: callers print it unchanged, and the message of a daemon comes from its peer.
void set_last_message(std::string_view message) {
  std::string text = escape_control(message);
  log_deferred(text);
  message_of_thread() = std::move(text);
  is_message_logged() = false;
}

message_deferral::message_deferral() noexcept
    : is_inner_{std::exchange(deferred_of_thread().is_on, true)} {}

message_deferral::~message_deferral() {
  if (is_inner_)
    return;
  log_deferred({});
  deferred_of_thread().is_on = false;
}

std::string message_deferral::take(status code) {
  deferred_of_thread().is_pending = false;
  std::string text = last_message();
  if (text.empty())
    text = tnd_status_text(tnd_status(code));
  return text + " (" + tnd_status_name(tnd_status(code)) + ")";
}

message_silence::message_silence() noexcept : is_inner_{std::exchange(is_silent(), true)} {}

message_silence::~message_silence() {
  is_silent() = is_inner_;
}

bool is_level_logged(log_level level) {
  return logger().should_log(spdlog_level(level));
}

bool last_message_is_logged() noexcept {
  return is_message_logged();
}

const std::string &last_message() {
  return message_of_thread();
}

status fail_text(status code, fmt::string_view format, fmt::format_args arguments) {
  set_last_message(bounded_text{format, arguments}.view());
  if (is_silent())
    return code;
  deferred_message &deferred = deferred_of_thread();
  if (deferred.is_on) {
    deferred.is_pending = true;
    deferred.code = code;
    return code;
  }
  log_failure(code);
  is_message_logged() = logger().should_log(spdlog::level::warn);
  return code;
}

}  // namespace tanada

const char *tnd_last_message() noexcept {
  return tanada::last_message().c_str();
}
