// onesided/job/lane_state.hpp: what is inside a lane; for lane.cc, lane_wait.cc and remote.cc
// alone.
#pragma once

#include <deque>
#include <vector>

#include "onesided/job/bounce.hpp"
#include "onesided/job/remote.hpp"
#include "onesided/job/turns.hpp"

namespace tanada::pgas {

// Rules of locking: turns'. The mutex of `turns_` protects everything here and what contexts keep
// for us, but for their atomics.
//
// A record belongs to an operation from its post until the fabric lets go of its memory; its index
// is the op_id. Whoever polls dispatches what has completed, whosever it is.
struct lane::state {
 public:
  // A blocking call, on its stack. Its failure is told by it and is not the context's.
  struct waiter {
    bool is_done = false;
    status code = status::ok;
  };

  // What becomes of an operation that has completed.
  struct aim {
    waiter *waits = nullptr;
    void *result = nullptr;  // of an atomic
    uint8_t result_size = 0;
    uint32_t bounce = bounce_pool::none;
    const port::fabric_op *then = nullptr;  // to be posted when this one is visible at the target
  };

  using held = turns::held;

  state(std::unique_ptr<port::fabric_endpoint> endpoint,
        std::vector<port::fabric_address> addresses, options chosen);
  ~state();

  held enter() {
    return turns_.enter();
  }

  bool attend() noexcept;
  void look() noexcept;
  pe_index failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);
  }
  status rest(uint64_t deadline_ns) noexcept;
  bool is_ordered() const noexcept {
    return is_ordered_;
  }
  size_t copied_size_max() const noexcept {
    return copied_size_max_;
  }
  // Under the mutex: those whose completions come late do not keep others from being started.
  bool is_roomy() const noexcept {
    return record_count_.load(std::memory_order_relaxed) < records_.size() / 2;
  }

  // `op` lacks what concerns the peer, the record and the deadline. Waits for room, and where the
  // context's fence asks for it. Not ok: nothing has been started.
  status start(held &lock, remote_context &owner, pe_index pe, port::fabric_op &op, const aim &to);

  // The op's source is the caller's again when it returns: it is copied, or else waited for.
  status start_from_caller(held &lock, remote_context &owner, pe_index pe, port::fabric_op &op,
                           const port::fabric_op *then);

  // The same, but for the wait, if there is one to come: `what` is not done then.
  status start_early(held &lock, remote_context &owner, pe_index pe, port::fabric_op &op,
                     const port::fabric_op *then, waiter &what);

  // A failure is in `what`.
  void wait(held &lock, remote_context &owner, waiter &what);

  // Until all that was started in the context before the call is complete.
  void drain(held &lock, remote_context &owner);

 private:
  static constexpr uint32_t none = ~uint32_t{0};

  struct record {
    remote_context *owner = nullptr;  // null: free, or nobody asks for it any more
    aim to{};
    pe_index pe = 0;
    status code = status::ok;  // what was told before it has settled
    uint8_t epoch = 0;         // of the context
    bool is_chained = false;   // `chained_` at this index is to be posted
    uint32_t next_free = none;
  };

  // lane.cc
  result<port::fabric_peer> peer_of(pe_index pe);
  uint32_t record_take(remote_context &owner, pe_index pe, const aim &to);
  void record_free(uint32_t index);
  size_t progress();
  void dispatch(const port::fabric_completion &done);
  void finish(uint32_t index, status code, uint64_t value);
  void release(record &of, status code);
  void post_chained();
  void lose(pe_index pe);
  void lose_dead();
  void leave(pe_index pe);
  void forget_lost();
  void abandon(remote_context &owner);

  // lane_wait.cc
  void step(held &lock, pacing &pace);
  template <class Done>
  void wait_until(held &lock, remote_context &owner, Done &&is_done);

  options const options_;
  std::vector<port::fabric_address> const addresses_;
  bounce_pool bounces_;  // the endpoint goes before it
  port::fabric_region_id bounce_region_ = port::no_fabric_region;
  std::unique_ptr<port::fabric_endpoint> const endpoint_;
  turns turns_;
  bool const is_ordered_;
  bool const needs_attention_;  // of operations that nobody waits for
  size_t const copied_size_max_;

  std::vector<port::fabric_peer> peers_;
  std::vector<bool> is_lost_;  // by PE
  std::vector<record> records_;
  std::atomic<uint32_t> record_count_{0};  // taken
  std::atomic<pe_index> failed_{-1};
  uint32_t first_free_ = none;
  std::vector<port::fabric_op> chained_;  // by record; empty on ordered fabrics
  std::deque<uint32_t> backlog_;          // records whose chained operation is due
  std::vector<pe_index> leaving_;         // PEs to be forgotten by the endpoint
};

}  // namespace tanada::pgas
