// comex/packed_server.hpp: does to our memory what processes of other nodes ask for.
#pragma once

#include <atomic>

#include "comex/packed_wire.hpp"
#include "pgas/staging.hpp"

namespace tanada::comex {

// Before open() everything is refused with bad_state.
//
// Thread safety: as call_server; open, any thread.
class packed_server final : public pgas::call_server {
 public:
  // Both outlive the last call.
  void open(const pgas::job &job, heap_locks::word *locks) noexcept;

  status serve(pgas::pe_index pe, std::span<const std::byte> request, std::span<std::byte> reply) noexcept override;

 private:
  status add(const packed::request &what) const;

  const pgas::job *job_ = nullptr;
  heap_side heap_{};
  std::atomic<bool> is_open_{false};
};

}  // namespace tanada::comex
