// products/comex/packed_server.hpp: carries out the requests of other nodes' processes on our
// memory.
#pragma once

#include <atomic>
#include <optional>

#include "onesided/job/staging.hpp"
#include "onesided/swap/page_request_queue.hpp"
#include "products/comex/packed_wire.hpp"

namespace tanada::comex {

// Before open() every request fails with bad_state. Requests for memory that is swapped out are
// carried out page by page, while the process stays swapped out.
class packed_server final : public onesided::active_message_server {
 public:
  // Swapping state: the node table, this process's rank in it, and the page bits of all ranks. All
  // outlive the last call.
  struct swap_view {
    onesided::swap::node_table *table;
    uint32_t rank;
    std::span<onesided::swap::page_bits> stored, left_out;
    // The heap through a mapping without fault tracking: this thread must not wait for pages, since
    // other nodes wait for it.
    std::byte *memory;
  };

  // All outlive the last call. A `view` without a node table: memory is never swapped out.
  void open(const onesided::job &job,
            heap_locks::lock_word *locks,
            const swap_view &view = {nullptr, 0, {}, {}, nullptr});

  status serve(onesided::pe_index pe,
               std::span<const std::byte> request,
               std::span<std::byte> reply) noexcept override;
  std::unique_ptr<onesided::deferred_message> begin(onesided::pe_index pe,
                                                    std::span<const std::byte> request,
                                                    std::span<std::byte> reply) noexcept override;
  void begin_round() noexcept override;

 private:
  class swapped_out_message;

  status execute(const packed::request &request, std::span<std::byte> reply) const;
  bool are_in_memory(const packed::request &request) const;
  status add(const packed::request &request) const;
  void update(const packed::request &request, std::byte *before) const;

  const onesided::job *job_ = nullptr;
  heap_view heap_{};
  swap_view swap_{nullptr, 0, {}, {}, nullptr};
  std::optional<onesided::swap::page_request_queue> page_requests_;  // set if there is a node table
  std::atomic<bool> is_open_{false};
};

}  // namespace tanada::comex
