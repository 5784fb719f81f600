// onesided/job/staging.hpp: one-sided operations on device memory of PEs that no queue of ours
// reaches, through host memory on both sides; and calls: what the library at another PE is asked to
// do to its host memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "onesided/job/remote.hpp"
#include "seams/gpu/device_queue.hpp"

namespace tanada::pgas {

// A call that takes longer; see call_server.
class pending_call {
 public:
  virtual ~pending_call() = default;
  virtual status step() noexcept = 0;  // again: it is not done yet. Never waits; asked again and
                                       // again until it says something else
};

// What peers call. Nothing in `request` is to be believed; `reply` is filled whole where it returns
// ok, and empty where nobody asks for one. By any thread of the library, one call at a time, while
// other requests of all peers wait: it waits for nothing but what takes microseconds, and starts no
// operation of the job's.
class call_server {
 public:
  virtual ~call_server() = default;
  // again: it cannot be done at once, and nothing has happened. begin() follows.
  virtual status serve(pe_index pe, std::span<const std::byte> request,
                       std::span<std::byte> reply) noexcept = 0;
  // The bytes stay where they are until it is done. Others of the same peer go on meanwhile, but
  // for those behind a fence.
  virtual std::unique_ptr<pending_call> begin(pe_index, std::span<const std::byte>,
                                              std::span<std::byte>) noexcept {
    return nullptr;
  }
  // Before each round of asking pending ones.
  virtual void attend() noexcept {}
};

// Who takes what a fetch brings: each byte once, on the terms of call_server::serve.
class call_landing {
 public:
  virtual ~call_landing() = default;
  virtual void land(uint64_t at, std::span<const std::byte> bytes) noexcept = 0;
};

// Of one PE: an endpoint of its own, an area of host memory that the device copies to and from, and
// a thread that does what peers ask for while the program does not call. Data are always read by
// who is to have them, from the area of who has them; what is small travels with its request. So
// nobody writes to memory of another PE but that PE itself, and no part of the area is set aside
// for any peer.
//
// Where the fabric takes device memory (heap_view, which it may refuse: then one line says so)
// heaps stand in for areas: who is to have data reads them from the heap, or into it, and no queue
// copies. Either side may lack that.
//
// What the device may still be at, after an operation of the queue that did not end in time, is not
// used again before the queue has caught up; until then whatever needs the queue is refused with
// timed_out. A queue that has failed is not asked again: all of that is refused with its failure.
//
// Half of the area's slots are for our own operations, half for serving; a peer that does not
// answer holds at most half of either.
//
// Thread safety: all calls but create, join, stop and the destructor, any thread.
class stager {
 public:
  // What the others must know.
  struct contact {
    port::fabric_address address;
    port::fabric_remote area;
    port::fabric_remote heap;  // no bytes: the fabric does not reach it
  };

  struct options {
    uint64_t
        timeout_ns;  // of each operation: it then ends with timed_out, its peer is taken for lost
    port::clock *time;             // outlives the stager
    std::function<void()> attend;  // called while something is waited for, without the mutex: what
                                   // this PE owes others
    std::function<bool(const void *)> is_device_memory;  // whether processors do not reach it
    std::function<pe_index()> lost;  // a PE that is known to have died, or -1: its operations end,
                                     // what it holds is free again
    std::function<void(size_t offset, size_t size)>
        changed;                // called after others have changed the heap; null: nobody asks
    bool is_crowded = false;    // threads queue for processors: who waits is soon out of their way
    std::span<std::byte> heap;  // of the device: what others reach
    std::span<std::byte>
        area;          // host memory that the device copies to and from; outlives the stager
    size_t slot_size;  // bytes of the area that move at a time; the area has at least two
    call_server *calls =
        nullptr;  // outlives the stager; null: calls are refused with not_supported
    port::fabric_memory heap_view{};   // the heap as the fabric is told of it, which then moves it
                                       // itself; no `addr`: it does not
    std::function<status()> settle{};  // called when the fabric has written to the heap, before
                                       // anybody is told; null: no need
  };

  // `queue` null: there is no device, and no heap.
  static result<std::unique_ptr<stager>> create(std::unique_ptr<port::fabric_endpoint> endpoint,
                                                std::unique_ptr<port::device_queue> queue,
                                                pe_index me, const options &chosen);
  ~stager();  // no context of it is in use; stop()

  const contact &own() const noexcept;
  bool is_direct() const noexcept;                   // the fabric has taken the heap
  status join(std::span<const contact> everybodys);  // by PE. Called once, before anything else

  void start();  // the thread
  // The thread. False: the queue has not done all that it was asked to do in time, so the device
  // may still be at the area and the heap, which then must stay where they are. Nothing else is
  // called after it.
  bool stop() noexcept;

  // Do what has come, unless somebody is at it. Never blocks. For all that wait.
  void attend() noexcept;

  // Slots of the area that are out of use: the queue failed, or did not end in time, while it had
  // them. They come back when it has caught up; after a failure they never do, and nothing more is
  // asked of the queue.
  size_t withheld() const noexcept;

  // A PE on which an operation that nobody waited for has failed; -1.
  pe_index failed() const noexcept;

  struct state;
  state &inside() noexcept {
    return *state_;
  }

 private:
  explicit stager(std::unique_ptr<state> made);
  std::unique_ptr<state> state_;
};

// The operations of one context, as remote_context's: ordering, completion, errors, thread safety.
// Places are device memory; local memory is the device's or the host's. put, put_signal and what
// does not fetch return when their source is copied, or read; their `_nbi` do not wait for that: a
// source in the heap is theirs until quiet.
class staged_context {
 public:
  explicit staged_context(stager &owner);
  ~staged_context();  // quiet has returned

  status put(pe_index pe, place to, const void *source, size_t size);
  status put_nbi(pe_index pe, place to, const void *source, size_t size);
  status get(pe_index pe, void *target, place from, size_t size);
  status get_nbi(pe_index pe, void *target, place from, size_t size);

  // Whether put_nbi leaves such a source where it is.
  bool may_keep(const void *source, size_t size) const noexcept;

  using atomic = remote_context::atomic;
  using signal = remote_context::signal;
  status update(pe_index pe, place to, const atomic &what, void *result);
  status update_nbi(pe_index pe, place to, const atomic &what, void *result);
  status put_signal(pe_index pe, place to, const void *source, size_t size, const signal &then);
  status put_signal_nbi(pe_index pe, place to, const void *source, size_t size, const signal &then);

  // Of the PE's call_server; as puts: with quiet they are performed, and what failed is told. Calls
  // that no fence is between may be performed in any order, so that a fetch after puts by calls
  // needs one.
  //
  // `fill` writes the request's `size` bytes, once, before call() returns. A request of up to
  // message_size_max() goes with one message; one of up to call_size_max() is read from here by its
  // PE. invalid beyond.
  size_t message_size_max() const noexcept;
  size_t call_size_max() const noexcept;
  status call(pe_index pe, size_t size, const std::function<void(std::span<std::byte>)> &fill);
  // `size` bytes, up to call_size_max(), that `request`, of up to message_size_max(), has for an
  // answer: they land from `first` on. `to` is in use until quiet has returned.
  status fetch(pe_index pe, std::span<const std::byte> request, size_t size, call_landing &to,
               uint64_t first);

  // Does not wait.
  void fence() noexcept {
    fences_.fetch_add(1, std::memory_order_relaxed);
  }
  status quiet();
  // Of calls and fetches, with no other thread in any: what is under way lands nowhere any more,
  // and who asks next is told timed_out.
  void abandon();
  // Until nothing is under way: true, and quiet() would not wait; or until then.
  bool wait_until(uint64_t deadline_ns);
  // Until a call of `size` bytes, or a fetch of so many, would not wait to be started, if nobody
  // else starts one; or until then.
  bool wait_for_room(pe_index pe, size_t size, uint64_t deadline_ns);
  bool is_busy() const noexcept {
    return under_way_.is_any() || failure_.load(std::memory_order_relaxed) != 0;
  }

 private:
  friend struct stager::state;

  status tell() noexcept;
  status run(pe_index pe, place to, const atomic &what, void *result, bool waits);
  status put_by(pe_index pe, place to, const void *source, size_t size, bool waits);
  status put_signal_by(pe_index pe, place to, const void *source, size_t size, const signal &then,
                       bool waits);

  stager &stager_;
  epochs under_way_;
  std::atomic<int32_t> failure_{0};  // a status
  std::atomic<uint32_t> fences_{0};

  std::vector<uint32_t>
      fences_told_;  // by PE: the last that its stream has; under the stager's mutex
};

}  // namespace tanada::pgas
