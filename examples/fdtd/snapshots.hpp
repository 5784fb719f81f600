// fdtd/snapshots.hpp: the snapshots of a run, wherever they go.
#pragma once

#include <string>

#include "grid.hpp"

namespace fdtd {

/// Ez of every cell, now and then. Failures are std::runtime_error that names the snapshot, once;
/// the run ends there.
class snapshots {
 public:
  virtual ~snapshots() = default;
  /// Take the field as the kernels launched so far leave it. Launches and waits as it must; the
  /// next steps may follow.
  virtual void take(u32 step) = 0;
  /// Wait until every snapshot taken is where it belongs.
  virtual void finish() = 0;
  /// Cells of the last snapshot, read back, whose bits differ from the field's. After finish().
  virtual u64 count_differences() = 0;
  /// Where the last one is.
  virtual std::string last_url() const = 0;
  virtual u32 count() const = 0;
  /// Seconds in which no step could run because of take(); what finish() waits for is not in it.
  virtual double lost_seconds() const = 0;
};

}  // namespace fdtd
