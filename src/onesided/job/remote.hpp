// onesided/job/remote.hpp: one-sided operations on memory of PEs that the fabric reaches.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "onesided/job/epochs.hpp"
#include "onesided/job/symmetric_map.hpp"
#include "seams/clock/clock.hpp"

namespace tanada::pgas {

enum class signal_kind : uint8_t { set, add };

// One endpoint that starts operations, its peers, and what is under way. Several contexts may share
// one.
//
// Thread safety: any thread; calls of one lane wait for one another (a mutex), never while they
// wait for a peer.
class lane {
 public:
  struct options {
    uint64_t
        timeout_ns;  // of each operation: it then ends with timed_out, its peer is taken for lost
    port::clock *time;             // outlives the lane
    std::function<void()> attend;  // called while an operation is waited for, without the mutex:
                                   // what this PE owes others
    std::function<void()> begins;  // called when the first operation is under way, if it needs
                                   // attend() to come to its end
    std::function<pe_index()> lost =
        {};  // a PE that is known to have died, or -1: operations on it end; any thread
    bool is_crowded = false;  // threads queue for processors: who waits is soon out of their way
  };

  // `addresses`: of the endpoints that answer, by PE; peers are made known when they are first
  // used.
  lane(std::unique_ptr<port::fabric_endpoint> endpoint, std::vector<port::fabric_address> addresses,
       options chosen);
  ~lane();  // no operation is under way

  // Look after what is under way: fabrics that do not progress alone, or keep no order, need that
  // also for operations whose caller went on. Never blocks. True: there is something that will need
  // it again.
  bool attend() noexcept;

  // Writes and signals to one PE are performed in their order, without waits in between.
  bool is_ordered() const noexcept;

  // A PE on which an operation that nobody waited for has failed; -1. Of a lane that nobody polls
  // it is not known.
  pe_index failed() const noexcept;

  // Of a lane that answers: do what has come, unless somebody is at it. Never blocks.
  void look() noexcept;

  // Of a lane that answers: sleep until peers have used our memory, serving them meanwhile: ok;
  // timed_out at the deadline; busy: somebody else is at it.
  status rest(uint64_t deadline_ns) noexcept;

  struct state;
  state &inside() noexcept {
    return *state_;
  }

 private:
  std::unique_ptr<state> state_;
};

// The operations of one context: they are completed and ordered apart from those of all others.
//
// Ordering, for all calls: none, but what fence, quiet and put_signal say. `put` and non-fetching
// atomics return when their source may be used again, which says nothing of the target. `get` and
// fetching atomics return when the result is there.
// `_nbi`: source, target and result belong to the operation until quiet.
//
// Each returns ok; peer_lost, timed_out or access when it, or an earlier operation of this context
// whose outcome nobody has been told yet, has failed. After such a failure the memory it was to
// write, here or there, holds anything.
//
// Thread safety: any thread, unless the context's owner promised otherwise. quiet waits for what
// was started before it by its own thread, or by others that it is ordered after.
class remote_context {
 public:
  // `can_wait`: nobody is in a hurry for quiet, which then takes a millisecond more; signals cost
  // the fabric less.
  explicit remote_context(lane &owner, bool can_wait = false) : lane_{owner}, can_wait_{can_wait} {}
  ~remote_context();  // quiet has returned

  // `to.mapped` and `from.mapped` are not looked at. size > 0.
  status put(pe_index pe, place to, const void *source, size_t size);
  status put_nbi(pe_index pe, place to, const void *source, size_t size);
  status get(pe_index pe, void *target, place from, size_t size);
  status get_nbi(pe_index pe, void *target, place from, size_t size);

  // Elements u32 and u64. The result, of the element's size, is null for non-fetching forms (never
  // of fetch and compare_swap).
  struct atomic {
    port::fabric_atomic kind;
    port::fabric_element element;
    uint64_t operand = 0, compare = 0;
  };
  status update(pe_index pe, place to, const atomic &what, void *result);
  status update_nbi(pe_index pe, place to, const atomic &what, void *result);

  // target[i] += source[i], each element at once for other accumulates and atomics. size: bytes,
  // whole elements.
  status accumulate(pe_index pe, place to, port::fabric_element element, const void *source,
                    size_t size);

  // Write, then update the 64-bit signal: who sees the new signal sees what was written. size may
  // be 0. Both at one PE. put_signal returns as put does; where the fabric is ordered that is as
  // soon as the network has taken the source.
  struct signal {
    place at;
    signal_kind kind = signal_kind::set;
    uint64_t value = 0;
  };
  status put_signal(pe_index pe, place to, const void *source, size_t size, const signal &then);
  status put_signal_nbi(pe_index pe, place to, const void *source, size_t size, const signal &then);

  // Puts, signals and atomics started after it are seen by each PE after those started before it.
  // Does not wait.
  void fence() noexcept;

  // All operations of this context are complete, at their targets too.
  status quiet();

  // Something is under way, or a failure is not told yet.
  bool is_busy() const noexcept {
    return under_way_.is_any() || failure_.load(std::memory_order_relaxed) != 0;
  }

 private:
  friend struct lane::state;

  status tell() noexcept;
  status run(pe_index pe, place to, const atomic &what, void *result, bool waits);
  status put_then(pe_index pe, place to, const void *source, size_t size, const signal &then,
                  bool waits);

  lane &lane_;
  bool const can_wait_;
  epochs under_way_;
  std::atomic<int32_t> failure_{0};  // a status
  std::atomic<uint32_t> fences_{0};  // counted where something was under way

  uint32_t fences_kept_ = 0;  // under the lane's mutex
};

}  // namespace tanada::pgas
