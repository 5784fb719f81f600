// seams/bootstrap/value_table.hpp: the values that one process publishes. Implementations of the
// seam keep a table for each process.
#pragma once

#include <functional>
#include <map>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::seams {

// Values wait until the next exchange and are visible from then on. Not thread-safe.
class value_table {
 public:
  // invalid: an empty key. too_big, exists: as for bootstrap::publish.
  status publish(std::string_view key, std::span<const std::byte> value);

  // The values published since the last call, as bytes for the other processes. From then on all of
  // them are visible here.
  std::vector<std::byte> take_published();

  // Adds the values that take_published() of another process returned. protocol: the bytes are
  // malformed, and nothing was added.
  status merge(std::span<const std::byte> bytes);

  // no_entry: it was not published, or is not visible yet.
  result<std::vector<std::byte>> find(std::string_view key) const;

 private:
  using values = std::map<std::string, std::vector<std::byte>, std::less<>>;

  values unpublished_, visible_;
};

}  // namespace tanada::seams
