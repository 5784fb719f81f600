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

// Read by the handler: plain memory that is whole before the flag beside it says so.
char file_path[PATH_MAX];
std::atomic<bool> has_file = false;
termios keyboard_before;
std::atomic<bool> has_keyboard_before = false;
std::atomic<bool> has_screen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr std::string_view screen_on = "\x1b[?1049h\x1b[?25l", screen_off = "\x1b[?25h\x1b[?1049l";

void restore_screen() {
  if (has_screen.exchange(false))
    (void)!::write(STDOUT_FILENO, screen_off.data(), screen_off.size());
  if (has_keyboard_before.exchange(false))
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keyboard_before);
}

// Calls nothing that POSIX does not allow here.
void clean_up_and_die(int signal_number) {
  if (has_file.exchange(false))
    ::unlink(file_path);
  restore_screen();
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

std::atomic<int> came = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void remember(int signal_number) {
  came = signal_number;
}

void install(void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigfillset(&action.sa_mask);
  for (int const each : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before{};
    ::sigaction(each, nullptr, &before);
    if (before.sa_handler != SIG_IGN)
      ::sigaction(each, &action, nullptr);  // nohup stays nohup
  }
}

}  // namespace

void interruption_install() {
  install(clean_up_and_die, 0);
}

void interruption_defer() {
  install(remember, int(SA_RESETHAND) | SA_RESTART);
}

int interruption_came() {
  return came;
}

interruption_file::interruption_file(const std::string &path) {
  if (path.size() >= sizeof file_path)
    return;  // no system call took such a path, so there is no such file
  std::memcpy(file_path, path.c_str(), path.size() + 1);
  has_file = true;
}

interruption_file::~interruption_file() {
  has_file = false;
}

interruption_screen::interruption_screen(bool has_keyboard) {
  if (has_keyboard && ::tcgetattr(STDIN_FILENO, &keyboard_before) == 0) {
    termios raw = keyboard_before;
    raw.c_lflag &= tcflag_t(~(ICANON | ECHO));
    has_keyboard_before = true;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  has_screen = true;
  (void)!::write(STDOUT_FILENO, screen_on.data(), screen_on.size());
}

interruption_screen::~interruption_screen() {
  restore_screen();
}

}  // namespace tanada::command
