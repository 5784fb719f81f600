// cmd/tanada/snapshot_source.hpp: snapshots wherever they are: objects of a pool or local files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "npy.hpp"
#include "picture/field.hpp"

namespace tanada::command {

// Bytes that can be read piece by piece.
class readable {
 public:
  virtual ~readable() = default;
  virtual uint64_t size() const = 0;
  // Throws std::runtime_error, for a range that is not there, too.
  virtual void read(uint64_t offset, void *target, uint64_t bytes) = 0;
};

// Something that can be drawn, not opened yet. `name` is what it is called at the end of its URL.
struct snapshot_place {
  std::string url, name;
};

// Opens places of pools, a connection a namespace, and files.
class snapshot_source {
 public:
  snapshot_source();
  ~snapshot_source();
  snapshot_source(const snapshot_source &) = delete;
  snapshot_source &operator=(const snapshot_source &) = delete;

  // What `url` names: that itself, or everything that begins with it and ends with .npy, sorted.
  // Throws std::runtime_error when there is nothing.
  std::vector<snapshot_place> find(const std::string &url);
  std::unique_ptr<readable> open(const snapshot_place &place);

 private:
  class connections;
  std::unique_ptr<connections> connections_;
};

// Which plane of an array: across `axis` (0: x, the last dimension; 1: y; 2: z), at `index`; -1: in
// the middle.
struct plane_wanted {
  unsigned axis = 2;
  int64_t index = -1;
};

// Read one plane; of an array of two dimensions the array. Throws std::runtime_error.
picture::plane read_plane(readable &source, const std::string &url, const plane_wanted &wanted);

}  // namespace tanada::command
