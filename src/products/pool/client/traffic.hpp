// products/pool/client/traffic.hpp: counts a client's transfers, by path.
#pragma once

#include <tanada/pool.h>

#include <cstddef>
#include <iterator>

#include "core/base/assert.hpp"

namespace tanada::pool {

// The path of one transfer's bytes.
struct transfer_path {
  tnd_pool_path path = TND_POOL_PATH_NONE;
  bool is_staged = false;
};

class traffic {
 public:
  // Counts a transfer that succeeded; one without bytes does not count.
  void add(transfer_path via, uint64_t size, bool to_pool) {
    if (size == 0)
      return;
    TND_ASSERT(size_t(via.path) < std::size(counters_.by_path));
    tnd_pool_path_traffic &counters = counters_.by_path[via.path];
    (to_pool ? counters.writes : counters.reads)++;
    (to_pool ? counters.written_size : counters.read_size) += size;
    if (via.is_staged)
      counters_.staged_size += size;
    counters_.last_path = via.path;
    counters_.last_is_staged = via.is_staged;
  }
  void add_map(uint64_t size) {
    counters_.maps++;
    counters_.mapped_size += size;
  }

  const tnd_pool_traffic &counters() const noexcept {
    return counters_;
  }
  uint64_t written_size() const noexcept {
    return sum(&tnd_pool_path_traffic::written_size);
  }
  uint64_t read_size() const noexcept {
    return sum(&tnd_pool_path_traffic::read_size);
  }

 private:
  uint64_t sum(uint64_t tnd_pool_path_traffic::*field) const noexcept {
    uint64_t total = 0;
    for (const tnd_pool_path_traffic &path : counters_.by_path)
      total += path.*field;
    return total;
  }

  tnd_pool_traffic counters_{.struct_size = sizeof(tnd_pool_traffic),
                             .last_path = TND_POOL_PATH_NONE,
                             .last_is_staged = 0,
                             .reserved = 0,
                             .by_path = {},
                             .staged_size = 0,
                             .maps = 0,
                             .mapped_size = 0};
};

}  // namespace tanada::pool
