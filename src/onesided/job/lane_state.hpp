// onesided/job/lane_state.hpp: private state of a lane; included only by lane.cc, lane_wait.cc and
// remote.cc.
#pragma once

#include <deque>
#include <vector>

#include "onesided/job/bounce_pool.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/progress_lock.hpp"

namespace tanada::onesided {

// Locking: the rules of progress_lock. The mutex of `progress_lock_` protects everything here, and
// what contexts keep for the lane, except their atomics.
//
// A record belongs to an operation from its post until the fabric releases its memory; its index is
// the op_id. A thread that polls dispatches all completions, also those of other threads.
struct lane::state {
 public:
  // A blocking call, on its stack. The call returns its own failure, which the context does not
  // keep.
  struct blocking_wait {
    bool is_done = false;
    status code = status::ok;
  };

  // What follows the completion of an operation.
  struct completion_action {
    blocking_wait *waiter = nullptr;
    void *result = nullptr;  // of an atomic
    uint8_t result_size = 0;
    uint32_t bounce_buffer = bounce_pool::no_buffer;
    const seams::fabric_op *chained_op = nullptr;  // posted when this one is visible at the target
  };

  using guard = progress_lock::guard;

  state(std::unique_ptr<seams::fabric_endpoint> endpoint,
        std::vector<seams::fabric_address> addresses,
        options chosen);
  ~state();

  guard enter() {
    return progress_lock_.acquire();
  }

  bool progress_outstanding() noexcept;
  void try_progress() noexcept;
  pe_index failed_pe() const noexcept {
    return failed_pe_.load(std::memory_order_relaxed);
  }
  status wait_for_access(uint64_t deadline_ns) noexcept;
  bool is_ordered() const noexcept {
    return is_ordered_;
  }
  size_t copied_size_max() const noexcept {
    return copied_size_max_;
  }
  // Whether enough records are free that delayed completions do not block new
  // operations.
  bool has_spare_records() const noexcept {
    TND_ASSERT(progress_lock_.is_held());
    return record_count_.load(std::memory_order_relaxed) < records_.size() / 2;
  }

  // Waits for operations before the owner's last fence, unless the fabric orders them.
  void enforce_fence(guard &lock, remote_context &owner);

  // Posts `op`, in which it sets the peer, the op_id and the deadline. Waits for a free record, and
  // for earlier operations if a fence of the context requires it. Not ok: nothing has been started.
  status start(guard &lock,
               remote_context &owner,
               pe_index pe,
               seams::fabric_op &op,
               const completion_action &action);

  // As start(). When it returns, the caller may reuse the op's source: it was copied, or the call
  // has waited.
  status start_from_caller(guard &lock,
                           remote_context &owner,
                           pe_index pe,
                           seams::fabric_op &op,
                           const seams::fabric_op *chained_op);

  // As start_from_caller(), without the wait. If one is needed, `waiter` is not done when it
  // returns.
  status start_early(guard &lock,
                     remote_context &owner,
                     pe_index pe,
                     seams::fabric_op &op,
                     const seams::fabric_op *chained_op,
                     blocking_wait &waiter);

  // `waiter` receives a failure.
  void wait(guard &lock, remote_context &owner, blocking_wait &waiter);

  // Waits until all operations are complete that were started in the context before the call.
  void drain(guard &lock, remote_context &owner);

 private:
  static constexpr uint32_t no_index = ~uint32_t{0};

  struct record {
    remote_context *owner = nullptr;  // null: free, or abandoned by its context
    completion_action action{};
    pe_index pe = 0;
    status code = status::ok;  // as reported before the operation settled
    uint8_t epoch = 0;         // of the context
    bool is_chained = false;   // the operation in `chained_` is still to be posted
    uint32_t next_free = no_index;
  };

  // lane.cc
  result<seams::fabric_peer> find_or_add_peer(pe_index pe);
  status try_start(remote_context &owner,
                   pe_index pe,
                   seams::fabric_op &op,
                   const completion_action &action);
  uint32_t record_take(remote_context &owner, pe_index pe, const completion_action &action);
  void record_free(uint32_t index);
  size_t progress();
  void dispatch(const seams::fabric_completion &done);
  void finish(uint32_t index, status code, uint64_t value);
  void release(record &entry, status code);
  void post_chained();
  void fail_peer(pe_index pe);
  void fail_dead_peers();
  void mark_failed(pe_index pe);
  void remove_failed_peers();
  void abandon(remote_context &owner);

  // lane_wait.cc
  void step(guard &lock, backoff_state &backoff);
  template <class Done>
  void wait_until(guard &lock, remote_context &owner, Done &&is_done);

  options const options_;
  std::vector<seams::fabric_address> const addresses_;
  bounce_pool bounce_buffers_;  // outlives the endpoint, which is declared later
  seams::fabric_region_id bounce_region_ = seams::no_fabric_region;
  std::unique_ptr<seams::fabric_endpoint> const endpoint_;
  progress_lock progress_lock_;
  bool const is_ordered_;
  bool const needs_progress_;  // for operations without a waiting caller
  size_t const copied_size_max_;

  std::vector<seams::fabric_peer> peers_;
  std::vector<bool> has_failed_;  // by PE
  std::vector<record> records_;
  std::atomic<uint32_t> record_count_{0};  // in use
  std::atomic<pe_index> failed_pe_{-1};
  uint32_t first_free_ = no_index;
  std::vector<seams::fabric_op> chained_;  // by record; empty on ordered fabrics
  std::deque<uint32_t> backlog_;           // records whose chained operation is due
  std::vector<pe_index> peers_to_remove_;  // failed PEs that the endpoint is still to remove
};

}  // namespace tanada::onesided
