// products/pool/client/traffic.hpp: what a client moved, by path.
#pragma once

#include <tanada/pool.h>

namespace tanada::pool {

// How the bytes of one transfer go.
struct transfer_path {
  tnd_pool_path path = TND_POOL_PATH_NONE;
  bool is_staged = false;
};

class traffic {
 public:
  // A transfer that succeeded; one without bytes is none.
  void add(transfer_path by, uint64_t size, bool to_pool) {
    if (size == 0)
      return;
    tnd_pool_path_traffic &of = all_.by_path[by.path];
    (to_pool ? of.writes : of.reads)++;
    (to_pool ? of.written_size : of.read_size) += size;
    if (by.is_staged)
      all_.staged_size += size;
    all_.last_path = by.path;
    all_.last_is_staged = by.is_staged;
  }
  void add_map(uint64_t size) {
    all_.maps++;
    all_.mapped_size += size;
  }

  const tnd_pool_traffic &all() const noexcept {
    return all_;
  }
  uint64_t written_size() const noexcept {
    return sum(&tnd_pool_path_traffic::written_size);
  }
  uint64_t read_size() const noexcept {
    return sum(&tnd_pool_path_traffic::read_size);
  }

 private:
  uint64_t sum(uint64_t tnd_pool_path_traffic::*what) const noexcept {
    uint64_t all = 0;
    for (const tnd_pool_path_traffic &each : all_.by_path)
      all += each.*what;
    return all;
  }

  tnd_pool_traffic all_{.struct_size = sizeof(tnd_pool_traffic),
                        .last_path = TND_POOL_PATH_NONE,
                        .last_is_staged = 0,
                        .reserved = 0,
                        .by_path = {},
                        .staged_size = 0,
                        .maps = 0,
                        .mapped_size = 0};
};

}  // namespace tanada::pool
