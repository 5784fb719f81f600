// products/poold/service.hpp: what all sessions of a daemon share.
#pragma once

#include <tanada/pool.h>

#include <array>
#include <atomic>

#include "products/poold/catalog.hpp"
#include "products/poold/error_counters.hpp"
#include "products/poold/key_ring.hpp"
#include "products/poold/mover.hpp"
#include "products/poold/refusal_log.hpp"
#include "products/poold/space.hpp"

namespace tanada::poold {

struct session_limits {
  uint32_t handle_count_max = 4096;        // open handles
  uint64_t handshake_ns = 10'000'000'000;  // from the connection to the welcome
  uint64_t fabric_proof_ns = wire::pool::fabric_proof_ns;
  uint64_t stall_ns =
      60'000'000'000;  // without progress in the middle of a frame, or of an answer nobody takes
  uint64_t output_size_max = 8 << 20;  // bytes of answers that wait, beside objects' own
  uint32_t late_count_max = 1024;      // answers that the journal or the fabric owes a client
  uint64_t turn_size = 4 << 20;        // bytes moved or summed before the others get their turn
};

// Bytes of objects that went one way, by tnd_pool_path.
struct path_counters {
  std::array<std::atomic<uint64_t>, TND_POOL_PATH_COUNT> of{};
  void add(tnd_pool_path path, uint64_t size) {
    of[path].fetch_add(size, std::memory_order_relaxed);
  }
  uint64_t sum() const {
    uint64_t all = 0;
    for (auto const &one : of)
      all += one.load(std::memory_order_relaxed);
    return all;
  }
};

struct service_counters {
  std::atomic<uint64_t> client_count{0}, refused{0};  // refused: connections that were not let in
  error_counters errors;
  path_counters written, read;  // what clients of this node copy themselves is as they tell
};

struct service {
  space &memory;
  catalog &objects;
  key_ring keys;
  session_limits limits{};
  uint64_t started_ns = 0;  // monotonic_clock
  mover *fabric = nullptr;  // none: bytes go by streams
  service_counters counters{};
  refusal_log refusals{};
  wire::pool::bytes32 id =
      pool::random_bytes();  // of this daemon's life: a client compares it on two connections
};

}  // namespace tanada::poold
