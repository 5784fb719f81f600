// products/poold/service.hpp: the state that all sessions of a daemon share.
#pragma once

#include <tanada/pool.h>

#include <array>
#include <atomic>

#include "core/base/assert.hpp"
#include "products/poold/catalog.hpp"
#include "products/poold/cold_read.hpp"
#include "products/poold/cluster_gate.hpp"
#include "products/poold/error_counters.hpp"
#include "products/poold/key_ring.hpp"
#include "products/poold/local_stripes.hpp"
#include "products/poold/data_mover.hpp"
#include "products/poold/refusal_log.hpp"
#include "products/poold/request_histogram.hpp"
#include "products/poold/ring_budget.hpp"
#include "products/poold/pool_memory.hpp"

namespace tanada::poold {

struct session_limits {
  uint32_t handle_count_max = 4096;        // open handles
  uint64_t handshake_ns = 10'000'000'000;  // timeout from the connection to the welcome
  uint64_t fabric_proof_ns = wire::pool::fabric_proof_ns;
  uint64_t stall_ns =
      60'000'000'000;  // timeout without progress of a frame, or of a reply that is not read
  uint64_t output_size_max = 8 << 20;  // bytes of queued replies, without objects' bytes
  uint32_t deferred_count_max = 1024;  // replies that wait for the journal or the fabric
  uint64_t turn_size = 4 << 20;        // bytes moved or summed before other sessions are served
  // How long a request waits for memory: while objects are written, or while they are in use.
  uint64_t write_wait_ns = 30'000'000'000, use_wait_ns = 1'000'000'000;
  uint64_t ring_poll_ns = 50'000;  // a ring is polled after its last request; 0: no rings
};

// Bytes of objects moved in one direction, by tnd_pool_path.
struct path_counters {
  std::array<std::atomic<uint64_t>, TND_POOL_PATH_COUNT> sizes{};
  void add(tnd_pool_path path, uint64_t size) {
    TND_ASSERT(size_t(path) < sizes.size());
    sizes[path].fetch_add(size, std::memory_order_relaxed);
  }
  uint64_t sum() const {
    uint64_t total = 0;
    for (auto const &size : sizes)
      total += size.load(std::memory_order_relaxed);
    return total;
  }
};

struct service_counters {
  std::atomic<uint64_t> client_count{0}, refused_count{0};  // refused: rejected connections
  error_counters errors;
  request_histogram requests;
  path_counters written, read;  // clients that map the memory report their own copies
};

struct service {
  pool_memory &memory;
  catalog &objects;
  key_ring keys;
  session_limits limits{};
  uint64_t started_ns = 0;           // monotonic_clock
  uint32_t user = ~uint32_t{0};      // of the daemon's process
  data_mover *fabric = nullptr;      // null: bytes travel only over streams
  cluster_gate *cluster = nullptr;   // null: this is the pool's only server
  local_stripes *stripes = nullptr;  // null: a cluster, or objects are not larger than memory
  uint64_t stripe_size = 0;          // of a cluster: larger objects are striped; 0: none
  uint32_t version_max = wire::pool::protocol_version;  // of the protocol
  service_counters counters{};
  refusal_log refusals{};
  ring_budget rings{memory.capacity()};
  std::shared_ptr<read_budget> read_buffers =
      std::make_shared<read_budget>(read_budget::size_for(memory.capacity()));  // of cold objects
  wire::pool::bytes32 id =
      pool::random_bytes();  // identifies this run of the daemon across a client's connections
};

}  // namespace tanada::poold
