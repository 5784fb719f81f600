#include "report.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace fdtd {

using std::chrono::duration;
using std::chrono::steady_clock;

progress::progress(unsigned step_count, double cells, style wanted)
    : step_count_(step_count),
      cells_(cells),
      on_terminal_(wanted != style::lines && isatty(STDOUT_FILENO) == 1),
      color_(wanted == style::color),
      start_(steady_clock::now()) {}

void progress::update(unsigned step, unsigned snapshot_count) {
  double const seconds = duration<double>(steady_clock::now() - start_).count();
  double const rate = seconds > 0 ? cells_ * step / seconds / 1e6 : 0;
  if (!on_terminal_) {
    unsigned const tenths = step * 10 / step_count_;
    if (tenths == tenths_)
      return;
    tenths_ = tenths;
    std::printf("step %u of %u, %u snapshots, %.1f million cells/s\n",
                step,
                step_count_,
                snapshot_count,
                rate);
    std::fflush(stdout);
    return;
  }
  constexpr unsigned width = 32;
  unsigned const eighths = unsigned(double(step) / step_count_ * width * 8);
  static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string bar;
  for (unsigned i = 0; i < eighths / 8; i++)
    bar += "█";
  bar += parts[eighths % 8];
  unsigned const shown = eighths / 8 + (eighths % 8 != 0 ? 1 : 0);
  bar.append(width - (shown < width ? shown : width), ' ');
  std::printf("\r  %s%s%s %3u %%  step %u/%u  %u snapshots  %.1f Mcells/s  %.0f s left ",
              color_ ? "\033[36m" : "",
              bar.c_str(),
              color_ ? "\033[0m" : "",
              step * 100 / step_count_,
              step,
              step_count_,
              snapshot_count,
              rate,
              seconds / step * (step_count_ - step));
  std::fflush(stdout);
}

void progress::finish() {
  if (on_terminal_)
    std::printf("\n");
}

double time_table::total() const {
  double sum = 0;
  for (const row &r : rows_)
    sum += r.seconds;
  return sum;
}

time_table::row &time_table::find(const std::string &what) {
  for (row &r : rows_)
    if (r.what == what)
      return r;
  return rows_.emplace_back(row{what, 0, 0});
}

std::string time_table::to_text() const {
  char line[160];
  std::string text;
  double const all = total();
  std::snprintf(line,
                sizeof line,
                "%-18s %9s %7s %10s %10s\n",
                "where the time went",
                "s",
                "share",
                "MB",
                "MB/s");
  text += line;
  for (const row &r : rows_) {
    std::snprintf(line,
                  sizeof line,
                  "  %-17s %9.3f %5.1f %%",
                  r.what.c_str(),
                  r.seconds,
                  all > 0 ? 100 * r.seconds / all : 0);
    text += line;
    if (r.bytes > 0) {
      std::snprintf(line,
                    sizeof line,
                    " %10.1f %10.1f",
                    r.bytes / 1e6,
                    r.seconds > 0 ? r.bytes / 1e6 / r.seconds : 0);
      text += line;
    }
    text += "\n";
  }
  std::snprintf(line, sizeof line, "  %-17s %9.3f\n", "total", all);
  return text + line;
}

void write_text(const std::string &path, const std::string &text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + path);
}

}  // namespace fdtd
