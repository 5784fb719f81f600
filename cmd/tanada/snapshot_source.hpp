// cmd/tanada/snapshot_source.hpp: snapshots in pools or local files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npy.hpp"
#include "picture/field.hpp"

namespace tanada::command {

// Bytes that can be read in parts.
class readable {
 public:
  virtual ~readable() = default;
  virtual uint64_t size() const = 0;
  // Throws std::runtime_error, also for a range that does not exist.
  virtual void read(uint64_t offset, void *target, uint64_t bytes) = 0;
};

// A snapshot that is not open yet. `name` is the last part of its URL.
struct snapshot_location {
  std::string url, name;
};

// Opens snapshots in pools, with one connection for each namespace, and in files.
class snapshot_source {
 public:
  snapshot_source();
  ~snapshot_source();
  snapshot_source(const snapshot_source &) = delete;
  snapshot_source &operator=(const snapshot_source &) = delete;

  // The snapshot that `url` names, or all those whose names begin with it and end with .npy,
  // sorted. Throws std::runtime_error if no snapshot matches.
  std::vector<snapshot_location> find(const std::string &url);
  std::unique_ptr<readable> open(const snapshot_location &location);

 private:
  class connections;
  std::unique_ptr<connections> connections_;
};

// A plane of an array: normal to `axis` (0: x, the last dimension; 1: y; 2: z), at `index`; -1: the
// middle.
struct plane_selection {
  unsigned axis = 2;
  int64_t index = -1;
};

// Reads one plane, or all of a two-dimensional array. Throws std::runtime_error.
picture::plane read_plane(readable &source,
                          const std::string &url,
                          const plane_selection &selection);

}  // namespace tanada::command
