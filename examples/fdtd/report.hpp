// examples/fdtd/report.hpp: the program's output during and after a run.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace fdtd {

/// A bar on a terminal, and otherwise a line for every tenth.
class progress {
 public:
  enum class style { lines, plain, color };  // print lines even on a terminal
  progress(unsigned step_count, double cells, style wanted);
  void update(unsigned step, unsigned snapshot_count);
  void finish();

 private:
  unsigned step_count_;
  double cells_;
  bool on_terminal_, color_;
  unsigned tenths_ = 0;
  std::chrono::steady_clock::time_point start_;
};

/// Seconds and bytes by phase.
class time_table {
 public:
  struct row {
    std::string what;
    double seconds = 0;
    double bytes = 0;
  };

  /// Runs `work` and adds its time to the row `what`.
  template <class Work>
  auto measure(const std::string &what, double bytes, Work work) {
    struct clock_out {
      row &target;
      std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
      ~clock_out() {
        target.seconds +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    };
    row &target = find(what);
    target.bytes += bytes;
    clock_out const running{target};
    return work();
  }
  void add(const std::string &what, double seconds, double bytes) {
    row &target = find(what);
    target.seconds += seconds;
    target.bytes += bytes;
  }
  const std::vector<row> &rows() const noexcept {
    return rows_;
  }
  double total() const;
  std::string to_text() const;

 private:
  row &find(const std::string &what);
  std::vector<row> rows_;
};

/// Writes `text` to a local file. Throws.
void write_text(const std::string &path, const std::string &text);

}  // namespace fdtd
