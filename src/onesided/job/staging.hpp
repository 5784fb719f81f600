// onesided/job/staging.hpp: one-sided operations on device memory that no local queue reaches,
// through host memory on both sides. Also active messages: requests that the library at another PE
// carries out on its host memory.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "onesided/job/remote.hpp"
#include "seams/gpu/device_queue.hpp"

namespace tanada::onesided {

// An active message that takes longer; see active_message_server.
class deferred_message {
 public:
  virtual ~deferred_message() = default;
  // Never waits. again: it is not done yet. It is called repeatedly until it returns another
  // status.
  virtual status step() noexcept = 0;
};

// Carries out active messages of peers. `request` is untrusted input. A call that returns ok has
// filled `reply` completely; `reply` is empty if the sender expects no data. Any thread of the
// library calls it, one call at a time, while other requests of all peers wait. It therefore waits
// for nothing that takes more than microseconds, and starts no operation of the job.
class active_message_server {
 public:
  virtual ~active_message_server() = default;
  // again: the request cannot be carried out at once and had no effect. begin() follows.
  virtual status serve(pe_index pe,
                       std::span<const std::byte> request,
                       std::span<std::byte> reply) noexcept = 0;
  // The bytes stay valid until the request is done. Other requests of the same peer continue
  // meanwhile, except those after a fence. Null: insufficient memory.
  virtual std::unique_ptr<deferred_message> begin(pe_index,
                                                  std::span<const std::byte>,
                                                  std::span<std::byte>) noexcept {
    return nullptr;
  }
  // Called before each round of step() calls.
  virtual void begin_round() noexcept {}
};

// Receives the data of a fetch: each byte once, under the rules of active_message_server::serve.
class fetch_sink {
 public:
  virtual ~fetch_sink() = default;
  virtual void write(uint64_t offset, std::span<const std::byte> bytes) noexcept = 0;
};

// The stager of one PE. It has its own endpoint, a staging buffer in host memory that the device
// copies to and from, and a thread that serves peers while the program makes no calls. The receiver
// of data reads them from the sender's staging buffer; small data travel with their request. So no
// PE writes to the memory of another one, and no part of the staging buffer is reserved for a peer.
//
// Where the fabric accepts device memory (`heap_view`; a refusal is logged once), heaps replace
// staging buffers: the receiver reads data from the heap or into it, and no queue copies. Either
// side may lack that.
//
// Slots that the device may still access, after a queue operation that did not end in time, are
// quarantined until the queue has caught up. Until then requests that need the queue are refused
// with timed_out. A failed queue is not used again: such requests are refused with its failure.
//
// Half of the slots are for the PE's own operations, half for serving peers. In a job of more than
// two PEs, one peer holds at most half of either.
//
// Thread safety: any thread, except create, join, stop and the destructor.
class stager {
 public:
  // What peers need to know.
  struct contact {
    seams::fabric_address address;
    seams::fabric_remote staging_buffer;
    seams::fabric_remote heap;  // size 0: the fabric does not reach it
  };

  struct options {
    // Of each operation, which then ends with timed_out. Its peer is treated as failed.
    uint64_t timeout_ns;
    seams::clock *time;  // outlives the stager
    // Called without the mutex while a thread waits: makes progress for the whole PE.
    std::function<void()> make_progress;
    std::function<bool(const void *)> is_device_memory;  // whether processors cannot access it
    // Returns a PE that is known to have failed, or -1. Its operations end, and its slots become
    // free.
    std::function<pe_index()> failed_pe;
    // Called after peers have changed the heap. May be null.
    std::function<void(size_t offset, size_t size)> on_heap_changed;
    bool is_oversubscribed = false;  // waits yield early
    std::span<std::byte> heap;       // of the device: what peers access
    // Host memory that the device copies to and from. Outlives the stager.
    std::span<std::byte> staging_buffer;
    size_t slot_size;  // bytes of a staged transfer; the buffer has at least two slots
    // Outlives the stager. Null: active messages are refused with not_supported.
    active_message_server *message_server = nullptr;
    // The heap as the fabric addresses it, if the fabric is to move it without staging. Null
    // `addr`: it is not.
    seams::fabric_memory heap_view{};
    // Called when the fabric has written to the heap, before the completion is reported. May be
    // null.
    std::function<status()> flush_fabric_writes{};
  };

  // `queue` is null if there is no device, and hence no heap.
  static result<std::unique_ptr<stager>> create(std::unique_ptr<seams::fabric_endpoint> endpoint,
                                                std::unique_ptr<seams::device_queue> queue,
                                                pe_index me,
                                                const options &chosen);
  ~stager();  // after stop(); no context is in use

  const contact &own_contact() const noexcept;
  bool is_direct() const noexcept;                 // the fabric has accepted the heap
  status join(std::span<const contact> contacts);  // by PE; called once, first

  void start();  // starts the thread
  // Stops the thread. False: the queue has not completed all operations in time, so the device may
  // still access the staging buffer and the heap, which must stay allocated. It is the last call.
  bool stop() noexcept;

  // Makes progress, unless another thread does so. Never blocks. All waits of the PE call it.
  void try_progress() noexcept;

  // Slots out of use because the queue failed, or did not complete in time, while it used them.
  // They return when the queue has caught up. After a failure they never do, and the queue is not
  // used again.
  size_t quarantined_slot_count() const noexcept;

  // A PE on which an operation without a waiting caller has failed, or -1.
  pe_index failed_pe() const noexcept;

  struct state;
  state &impl() noexcept {
    return *state_;
  }

 private:
  explicit stager(std::unique_ptr<state> new_state);
  std::unique_ptr<state> state_;
};

// The operations of one context, with the ordering, completion, errors and thread safety of
// remote_context. Locations are device memory; local memory is in the device or the host. put,
// put_signal and non-fetching updates return when their source was copied, or read. Their `_nbi`
// forms do not wait for that: a source in the heap belongs to the operation until quiet.
class staged_context {
 public:
  explicit staged_context(stager &owner);
  ~staged_context();  // quiet has returned

  status put(pe_index pe, symmetric_address target, const void *source, size_t size);
  status put_nbi(pe_index pe, symmetric_address target, const void *source, size_t size);
  status get(pe_index pe, void *target, symmetric_address source, size_t size);
  status get_nbi(pe_index pe, void *target, symmetric_address source, size_t size);

  // Whether put_nbi returns before such a source has been read.
  bool may_read_in_place(const void *source, size_t size) const noexcept;

  using atomic = remote_context::atomic;
  using signal = remote_context::signal;
  status update(pe_index pe, symmetric_address target, const atomic &operation, void *result);
  status update_nbi(pe_index pe, symmetric_address target, const atomic &operation, void *result);
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

  // Active messages, carried out by the PE's active_message_server. As with puts, quiet waits for
  // them and returns failures. Without a fence in between they may be carried out in any order. A
  // fetch after puts by active messages therefore needs one.
  //
  // `fill` writes the request's `size` bytes, once, before the call returns. A request of up to
  // eager_size_max() travels in one message. The PE reads one of up to active_message_size_max()
  // from here. invalid beyond that.
  size_t eager_size_max() const noexcept;
  size_t active_message_size_max() const noexcept;
  status active_message(pe_index pe,
                        size_t size,
                        const std::function<void(std::span<std::byte>)> &fill);
  // Fetches the `size` bytes, up to active_message_size_max(), that the server returns for
  // `request`, of up to eager_size_max(). They are written to `sink` from `first` on. `sink` is in
  // use until quiet has returned.
  status fetch(pe_index pe,
               std::span<const std::byte> request,
               size_t size,
               fetch_sink &sink,
               uint64_t first);

  // Does not wait.
  void fence() noexcept {
    fence_count_.fetch_add(1, std::memory_order_relaxed);
  }
  status quiet();
  // For active messages and fetches, while no other thread is in a call. Nothing more is written to
  // the sinks of outstanding ones, and the next call returns timed_out.
  void abandon();
  // Waits until no operation is outstanding, and quiet() would not wait. False: at the deadline.
  bool wait_until(uint64_t deadline_ns);
  // Waits until an active message of `size` bytes, or a fetch of as many, could start without
  // waiting if no other thread starts one. False: at the deadline.
  bool wait_for_capacity(pe_index pe, size_t size, uint64_t deadline_ns);
  bool is_busy() const noexcept {
    return epochs_.has_outstanding() || failure_.load(std::memory_order_relaxed) != 0;
  }

 private:
  friend struct stager::state;

  status take_failure() noexcept;
  status post_update(pe_index pe,
                     symmetric_address target,
                     const atomic &operation,
                     void *result,
                     bool is_blocking);
  status put_by(
      pe_index pe, symmetric_address target, const void *source, size_t size, bool is_blocking);
  status put_signal_by(pe_index pe,
                       symmetric_address target,
                       const void *source,
                       size_t size,
                       const signal &signal_update,
                       bool is_blocking);

  stager &stager_;
  epochs epochs_;
  std::atomic<int32_t> failure_{0};  // a status
  std::atomic<uint32_t> fence_count_{0};

  // By PE: the last fence in its stream. Under the stager's mutex.
  std::vector<uint32_t> fences_sent_;
};

}  // namespace tanada::onesided
