// tanada pool top: a live view of a pool.
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "interruption.hpp"
#include "pool_commands.hpp"
#include "pool_place.hpp"
#include "pool_top_view.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

constexpr size_t history_count_max = 120;

unsigned output_width() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Until the period is over or q was pressed: true.
bool is_quit_within(double seconds, bool has_keyboard) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    auto const left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return false;
    if (!has_keyboard) {
      std::this_thread::sleep_for(left);
      continue;
    }
    pollfd keyboard{STDIN_FILENO, POLLIN, 0};
    if (::poll(&keyboard, 1, int(left.count())) <= 0)
      continue;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) <= 0)
      has_keyboard = false;
    else if (key == 'q' || key == 'Q')
      return true;
  }
}

class top {
 public:
  top(const pool_top_options &wanted, tnd_pool *pool, const pool::address &at, bool is_live)
      : wanted_{wanted}, pool_{pool}, space_{at.space}, is_live_{is_live} {
    view_.url = space_url(at);
  }

  // TND_OK, or what the daemon's silence was.
  tnd_status sample() {
    view_.now.struct_size = sizeof view_.now;
    if (tnd_status const code = tnd_pool_get_statistics(pool_, &view_.now); code != TND_OK)
      return code;
    if (tnd_status const code = namespace_owned(pool_, space_, view_.owned); code != TND_OK)
      return code;
    view_.rates = rates_between(before_ ? &*before_ : nullptr, view_.now);
    if (before_)
      view_.history.push_back(view_.rates);
    if (view_.history.size() > history_count_max)
      view_.history.erase(view_.history.begin());
    before_ = view_.now;
    return TND_OK;
  }

  void show(const std::string &trouble) const {
    std::string text = wanted_.json ? dump(top_json(view_), -1) + "\n"
                                    : top_text(view_, is_live_ ? output_width() : 100);
    if (is_live_) {
      std::string lines;
      for (char const each : text + (trouble.empty() ? "q: end\n" : trouble + "\n"))
        lines += each == '\n' ? std::string("\x1b[K\n") : std::string(1, each);
      text = "\x1b[H" + lines + "\x1b[J";
    } else if (!wanted_.json) {
      text += "\n";
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  pool_top_options const &wanted_;
  tnd_pool *const pool_;
  std::string const space_;
  bool const is_live_;
  top_view view_{};
  std::optional<tnd_pool_statistics> before_;
};

}  // namespace

int pool_top(const pool_top_options &wanted) {
  answer told{false};
  auto const at = place_parse(wanted.url, told);
  if (!at || !at->is_pool) {
    if (at)
      told.fail(wanted.url, -EINVAL, "give pool://host[:port]/namespace");
    return 2;
  }
  pool_session session{wanted, told};
  tnd_pool *const pool = session.connect(at->at);
  if (pool == nullptr)
    return told.finish();
  bool const is_live = !wanted.json && ::isatty(STDOUT_FILENO) != 0;
  bool const has_keyboard = is_live && ::isatty(STDIN_FILENO) != 0;
  interruption_install();
  std::optional<interruption_screen> screen;
  if (is_live)
    screen.emplace(has_keyboard);
  top shown{wanted, pool, at->at, is_live};
  for (uint32_t taken = 1;; taken++) {
    tnd_status const code = shown.sample();
    if (code != TND_OK && !is_live) {
      told.fail(wanted.url, code);
      return told.finish();
    }
    // Live, a daemon that is away may come back.
    shown.show(code == TND_OK ? "" : std::string("no answer: ") + printable(tnd_last_message()));
    if (taken == wanted.count || is_quit_within(wanted.period_s, has_keyboard))
      return told.finish();
  }
}

}  // namespace tanada::command
