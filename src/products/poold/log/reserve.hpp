// products/poold/log/reserve.hpp: space of a log's store that is released when the store is full.
#pragma once

#include <cstdint>

#include <tanada/device/detail/base/status.hpp>

namespace tanada::pool {

// Without a reserve a full store could not be emptied, because the record of a removal also needs
// space. The log holds the reserve. Once it is released, removals and compaction use its space, and
// puts are refused until it can be acquired again. Used by the thread that drives the log. Calls
// take no longer than file system calls that write no data.
class space_reserve {
 public:
  virtual ~space_reserve() = default;

  // ok: the reserve is held, whether or not it was before. no_space: it does not fit. Otherwise the
  // store's status.
  virtual status acquire() = 0;
  virtual status release() = 0;
  virtual uint64_t size() const = 0;       // bytes
  virtual uint64_t free_size() const = 0;  // free bytes of the store; 0: unknown
};

}  // namespace tanada::pool
