// seams/bootstrap/value_table.hpp: what one process publishes. Implementations of the seam keep one
// for each process.
#pragma once

#include <functional>
#include <map>

#include "seams/bootstrap/bootstrap.hpp"

namespace tanada::port {

// Values wait until the next exchange and are visible from then on. Not thread-safe.
class value_table {
 public:
  // invalid: an empty key. too_big, exists: as bootstrap::publish says.
  status publish(std::string_view key, std::span<const std::byte> value);

  // What was published since the last settle(), as bytes for the others; then all of it is visible
  // here.
  std::vector<std::byte> settle();

  // Take in what settle() of another process gave. protocol, and nothing taken in, for bytes that
  // it did not give.
  status absorb(std::span<const std::byte> bytes);

  // no_entry: not there, or not settled.
  result<std::vector<std::byte>> find(std::string_view key) const;

 private:
  using values = std::map<std::string, std::vector<std::byte>, std::less<>>;

  values waiting_, visible_;
};

}  // namespace tanada::port
