// examples/fdtd/snapshots.hpp: the snapshots of a run, for any target.
#pragma once

#include <string>

#include "grid.hpp"

namespace fdtd {

/// Ez of every cell, at intervals. An error is thrown once, as std::runtime_error with the
/// snapshot's name, and ends the run.
class snapshots {
 public:
  virtual ~snapshots() = default;
  /// Takes the field as the kernels launched so far leave it. Launches kernels and waits if
  /// necessary; the next steps may follow.
  virtual void take(u32 step) = 0;
  /// Waits until every snapshot is stored.
  virtual void finish() = 0;
  /// The number of cells of the last snapshot, read back, whose bits differ from the field's. Call
  /// it after finish().
  virtual u64 count_differences() = 0;
  /// The location of the last snapshot.
  virtual std::string last_url() const = 0;
  virtual u32 count() const = 0;
  /// Seconds in which no step could run because of take(). Waiting in finish() is not included.
  virtual double lost_seconds() const = 0;
};

}  // namespace fdtd
