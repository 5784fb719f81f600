// products/poold/log/reserve.hpp: room in a log's store that is released when the store is full.
#pragma once

#include <cstdint>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::pool {

// Without a reserve a full store could not be emptied: the record of a removal needs room, too. The
// reserve is room that the log holds. Once it is released, removals and compaction use it, and no
// put is taken until it could be acquired again. Used by the thread that drives the log; calls take
// no longer than those of a file system that writes no data.
class room_reserve {
 public:
  virtual ~room_reserve() = default;

  // Returns: ok: held, also when it was held before; no_space; others: the store's.
  virtual status acquire() = 0;
  virtual status release() = 0;
  virtual uint64_t size() const = 0;       // bytes
  virtual uint64_t free_size() const = 0;  // bytes that the store has room for now; 0: not known
};

}  // namespace tanada::pool
