// cmd/tanada/interruption.cc: cleans up on SIGINT, SIGTERM and SIGHUP.
#include "interruption.hpp"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstring>
#include <string_view>

namespace tanada::command {
namespace {

// Read by the signal handler: the memory is complete before its flag is set.
char file_path[PATH_MAX];
std::atomic<bool> has_file = false;
termios saved_keyboard;
std::atomic<bool> has_saved_keyboard = false;
std::atomic<bool> has_screen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::string_view screen_on = "\x1b[?1049h\x1b[?25l", screen_off = "\x1b[?25h\x1b[?1049l";

void restore_screen() {
  if (has_screen.exchange(false))
    (void)!::write(STDOUT_FILENO, screen_off.data(), screen_off.size());
  if (has_saved_keyboard.exchange(false))
    ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_keyboard);
}

// Calls only async-signal-safe functions.
void clean_up_and_raise(int signal_number) {
  if (has_file.exchange(false))
    ::unlink(file_path);
  restore_screen();
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

std::atomic<int> received_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void record_signal(int signal_number) {
  received_signal = signal_number;
}

void install(void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigfillset(&action.sa_mask);
  for (int const number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction previous{};
    ::sigaction(number, nullptr, &previous);
    if (previous.sa_handler != SIG_IGN)
      ::sigaction(number, &action, nullptr);  // keep the signals that nohup ignores
  }
}

}  // namespace

void interruption_install() {
  install(clean_up_and_raise, 0);
}

void interruption_defer() {
  install(record_signal, int(SA_RESETHAND) | SA_RESTART);
}

int interruption_signal() {
  return received_signal;
}

interruption_file::interruption_file(const std::string &path) {
  if (path.size() >= sizeof file_path)
    return;  // too long for any system call, so the file cannot exist
  std::memcpy(file_path, path.c_str(), path.size() + 1);
  has_file = true;
}

interruption_file::~interruption_file() {
  has_file = false;
}

interruption_screen::interruption_screen(bool has_keyboard) {
  if (has_keyboard && ::tcgetattr(STDIN_FILENO, &saved_keyboard) == 0) {
    termios raw = saved_keyboard;
    raw.c_lflag &= tcflag_t(~(ICANON | ECHO));
    has_saved_keyboard = true;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  has_screen = true;
  (void)!::write(STDOUT_FILENO, screen_on.data(), screen_on.size());
}

interruption_screen::~interruption_screen() {
  restore_screen();
}

}  // namespace tanada::command
