// products/comex/packed_server.hpp: does to our memory what processes of other nodes ask for.
#pragma once

#include <atomic>
#include <optional>

#include "onesided/job/staging.hpp"
#include "onesided/swap/access_queue.hpp"
#include "products/comex/packed_wire.hpp"

namespace tanada::comex {

// Before open() everything is refused with bad_state. What memory that is away is asked for is done
// by and by, page by page, and its process sleeps on.
//
// Thread safety: as call_server; open, any thread.
class packed_server final : public pgas::call_server {
 public:
  // Of memory that leaves: the node's board, this process's rank there, and the bits of all. All
  // outlive the last call.
  struct away_side {
    swap::board *shared;
    uint32_t rank;
    std::span<swap::page_bits> stored;
    std::byte *memory;  // the heap, where nobody watches touches: what is waited for here, somebody
                        // elsewhere waits for, too
  };

  // All outlive the last call. `away`: its board null: all memory stays.
  void open(const pgas::job &job, heap_locks::word *locks,
            const away_side &away = {nullptr, 0, {}, nullptr});

  status serve(pgas::pe_index pe, std::span<const std::byte> request,
               std::span<std::byte> reply) noexcept override;
  std::unique_ptr<pgas::pending_call> begin(pgas::pe_index pe, std::span<const std::byte> request,
                                            std::span<std::byte> reply) noexcept override;
  void attend() noexcept override;

 private:
  class away_call;

  status act(const packed::request &what, std::span<std::byte> reply) const;
  status add(const packed::request &what) const;
  void update(const packed::request &what, std::byte *before) const;

  const pgas::job *job_ = nullptr;
  heap_side heap_{};
  away_side away_{nullptr, 0, {}, nullptr};
  std::optional<swap::access_queue> asks_;  // with a board
  std::atomic<bool> is_open_{false};
};

}  // namespace tanada::comex
