// onesided/job/remote.hpp: one-sided operations on memory that only the fabric reaches.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "onesided/job/epochs.hpp"
#include "onesided/job/symmetric_map.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::onesided {

enum class signal_kind : uint8_t { set, add };

// An endpoint that starts operations, with its peers and outstanding operations. Several contexts
// may share one.
//
// Thread safety: any thread. The calls of one lane exclude one another by a mutex, which is not
// held while a call waits for a peer.
class lane {
 public:
  struct options {
    // Of each operation, which then ends with timed_out. Its peer is treated as failed.
    uint64_t timeout_ns;
    seams::clock *time;  // outlives the lane
    // Called without the mutex while a thread waits for an operation: makes progress for the whole
    // PE.
    std::function<void()> make_progress;
    // Called when the first operation becomes outstanding, if it needs progress calls to complete.
    std::function<void()> on_first_outstanding;
    // Returns a PE that is known to have failed, or -1. Operations on it end. Called by any thread.
    std::function<pe_index()> failed_pe = {};
    bool is_oversubscribed = false;  // waits yield early
  };

  // `addresses`: of the endpoints that serve, by PE. A peer is added when it is first used.
  lane(std::unique_ptr<seams::fabric_endpoint> endpoint,
       std::vector<seams::fabric_address> addresses,
       options chosen);
  ~lane();  // no operation is outstanding

  // Makes progress on outstanding operations. Fabrics without automatic progress, or without
  // ordering, need that even for operations whose caller does not wait. Never blocks. True: more
  // calls are needed.
  bool progress_outstanding() noexcept;

  // Whether writes and signals to one PE are performed in their order, without waits in between.
  bool is_ordered() const noexcept;

  // A PE on which an operation without a waiting caller has failed, or -1. It is not known unless a
  // thread polls the lane.
  pe_index failed_pe() const noexcept;

  // For a lane that serves: handles arrivals, unless another thread does so. Never blocks.
  void try_progress() noexcept;

  // For a lane that serves: sleeps until peers have accessed this PE's memory, and serves them
  // meanwhile. ok; timed_out at the deadline; busy: another thread uses the endpoint.
  status wait_for_access(uint64_t deadline_ns) noexcept;

  struct state;
  state &impl() noexcept {
    return *state_;
  }

 private:
  std::unique_ptr<state> state_;
};

// The operations of one context. They are completed and ordered independently of other contexts.
//
// Ordering, for all calls: none, except by fence, quiet and put_signal. `put` and non-fetching
// atomics return when their source may be reused, which implies nothing about the target. `get` and
// fetching atomics return when the result is there. In the `_nbi` forms source, target and result
// belong to the operation until quiet.
//
// Each call returns ok, or peer_lost, timed_out or access when it has failed, or when an earlier
// operation of this context has failed whose status was not returned yet. After a failure the
// memory that the operation was to write, local or remote, is undefined.
//
// Thread safety: any thread, unless the context's owner has promised otherwise. quiet waits for
// operations that its own thread started before, and for those of other threads that are ordered
// before it.
class remote_context {
 public:
  // `may_delay`: quiet may take a millisecond longer, and signals cost the fabric less.
  explicit remote_context(lane &owner, bool may_delay = false)
      : lane_{owner}, may_delay_{may_delay} {}
  ~remote_context();  // after quiet

  // `target.mapped` and `source.mapped` are ignored. size > 0.
  status put(pe_index pe, symmetric_address target, const void *source, size_t size);
  status put_nbi(pe_index pe, symmetric_address target, const void *source, size_t size);
  status get(pe_index pe, void *target, symmetric_address source, size_t size);
  status get_nbi(pe_index pe, void *target, symmetric_address source, size_t size);

  // Elements are u32 or u64. `result` has the element's size. It is null for non-fetching forms,
  // and never for fetch and compare_swap.
  struct atomic {
    seams::fabric_atomic kind;
    seams::fabric_element element;
    uint64_t operand = 0, compare = 0;
  };
  status update(pe_index pe, symmetric_address target, const atomic &operation, void *result);
  status update_nbi(pe_index pe, symmetric_address target, const atomic &operation, void *result);

  // Performs target[i] += source[i], each element atomically with respect to other accumulates and
  // atomics. `size` is in bytes, of whole elements.
  status accumulate(pe_index pe,
                    symmetric_address target,
                    seams::fabric_element element,
                    const void *source,
                    size_t size);

  // Writes, then updates the 64-bit signal: a PE that sees the new signal sees the written data.
  // Both are at one PE; size may be 0. put_signal returns as put does. On an ordered fabric that is
  // as soon as the network has taken the source.
  struct signal {
    symmetric_address location;
    signal_kind kind = signal_kind::set;
    uint64_t value = 0;
  };
  status put_signal(pe_index pe,
                    symmetric_address target,
                    const void *source,
                    size_t size,
                    const signal &signal_update);
  status put_signal_nbi(pe_index pe,
                        symmetric_address target,
                        const void *source,
                        size_t size,
                        const signal &signal_update);

  // Each PE sees puts, signals and atomics started after it later than those started before it.
  // Does not wait.
  void fence() noexcept;

  // What another context on the same lane starts after this call is ordered after this context's
  // fences, too. Returns a failure that no call has returned yet.
  status apply_fence();
  lane &shared_lane() const noexcept {
    return lane_;
  }

  // Waits until all operations of this context are complete, also at their targets.
  status quiet();

  // True while an operation is outstanding, or a failure has not been returned yet.
  bool is_busy() const noexcept {
    return epochs_.has_outstanding() || failure_.load(std::memory_order_relaxed) != 0;
  }

 private:
  friend struct lane::state;

  status take_failure() noexcept;
  status post_update(pe_index pe,
                     symmetric_address target,
                     const atomic &operation,
                     void *result,
                     bool is_blocking);
  status put_with_signal(pe_index pe,
                         symmetric_address target,
                         const void *source,
                         size_t size,
                         const signal &signal_update,
                         bool is_blocking);

  lane &lane_;
  bool const may_delay_;
  epochs epochs_;
  std::atomic<int32_t> failure_{0};       // a status
  std::atomic<uint32_t> fence_count_{0};  // counted only while operations are outstanding

  uint32_t fences_enforced_ = 0;  // under the lane's mutex: the last fence that was enforced
};

}  // namespace tanada::onesided
