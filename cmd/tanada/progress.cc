// cmd/tanada/progress.cc: draws the progress line of a copy.
#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "core/base/assert.hpp"
#include "text.hpp"

namespace tanada::command {
namespace {

constexpr auto draw_period = std::chrono::milliseconds(100);
constexpr auto rate_period = std::chrono::seconds(3);
static_assert(draw_period < rate_period);
constexpr unsigned width_unknown = 80;

unsigned terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : width_unknown;
}

std::string bar(double share, unsigned width) {
  TND_ASSERT(share >= 0 && share <= 1);
  auto const full = unsigned(share * width);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "]";
}

// Keeps the end of a name, which distinguishes it from others.
std::string cut(const std::string &name, size_t width) {
  if (name.size() <= width)
    return name + std::string(width - name.size(), ' ');
  if (width < 4)
    return std::string(width, ' ');
  size_t begin = name.size() - width + 2;
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0) == 0x80)
    begin++;  // do not split a character
  return ".." + name.substr(begin);
}

}  // namespace

std::string progress_line(const progress_state &state, unsigned width) {
  std::string facts = size_text(double(state.done));
  double const share =
      state.total > 0 ? std::min(1.0, double(state.done) / double(state.total)) : 0;
  if (state.total > 0) {
    char percent[16];
    std::snprintf(percent, sizeof percent, "%3.0f %%  ", 100 * share);
    facts = percent + facts + " / " + size_text(double(state.total));
  }
  if (state.rate > 0) {
    facts += "  " + size_text(state.rate) + "/s";
    if (state.total > state.done)
      facts += "  " + duration_text(double(state.total - state.done) / state.rate) + " left";
  }
  if (facts.size() >= width)
    return facts.substr(0, width);
  unsigned const free_width = width - unsigned(facts.size());
  unsigned const bar_width =
      state.total > 0 && free_width >= 24 ? std::min(30u, free_width / 3) : 0;
  unsigned const name_width = free_width - (bar_width > 0 ? bar_width + 4 : 0) - 2;
  std::string line =
      free_width > 6 ? cut(printable(state.name), std::min(name_width, 40u)) + "  " : std::string();
  if (bar_width > 0)
    line += bar(share, bar_width) + "  ";
  return line + facts;
}

progress::progress(bool is_wanted, uint64_t total)
    : is_shown_{is_wanted && ::isatty(STDERR_FILENO) != 0} {
  state_.total = total;
  marks_.push_back({clock::now(), 0});
}

progress::~progress() {
  clear();
}

void progress::clear() {
  if (is_drawn_)
    std::fputs("\r\x1b[K", stderr);
  is_drawn_ = false;
}

void progress::add(uint64_t size) {
  state_.done += size;
  if (!is_shown_)
    return;
  TND_ASSERT(!marks_.empty());
  auto const time = clock::now();
  if (time - marks_.back().time >= draw_period)
    draw(time);
}

void progress::draw(clock::time_point time) {
  marks_.push_back({time, state_.done});
  while (marks_.size() > 2 && time - marks_.front().time > rate_period)
    marks_.pop_front();
  double const seconds = std::chrono::duration<double>(time - marks_.front().time).count();
  state_.rate = seconds > 0 ? double(state_.done - marks_.front().done) / seconds : 0;
  // Leave the last column free: a terminal may break the line there.
  std::fprintf(stderr, "\r%s\x1b[K", progress_line(state_, terminal_width() - 1).c_str());
  std::fflush(stderr);
  is_drawn_ = true;
}

}  // namespace tanada::command
