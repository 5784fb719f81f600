// backends/cuda/device_queue.hpp: the operations of one context on a GPU
// (seams/gpu/device_queue.hpp). Each takes one of two paths:
//
//   service kernel  up to 64 KiB between devices, 8 KiB from host memory and 16 KiB to host memory:
//                   a round trip across the bus
//   copy engines    longer operations, and those for which the kernel has no space while the
//                   program's blocks fill the GPU
//
// If both sides are host memory, the processor copies. Some operations cannot proceed on a full
// GPU. Updates need a kernel, except a swap without a result. Copies of more than 64 KiB within one
// GPU may need one. They are performed when the GPU is no longer full.
#pragma once

#include <mutex>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/cuda/service.hpp"
#include "seams/gpu/gpu_plugin.h"

namespace tanada::backends::cuda {

// The largest operations of the service kernel, in bytes, as measured on an H200: above them copy
// engines are faster.
inline constexpr size_t device_size_max = 65536, put_size_max = 8192;
static_assert(device_size_max <= bounce_size && put_size_max <= annex_size);
static_assert(inline_size_max <= put_size_max && answer_size_max <= annex_size);

}  // namespace tanada::backends::cuda

struct tnd_gpu_queue {
 public:
  // `timeout_ns`: limit of each wait in its calls except wait().
  tnd_gpu_queue(tanada::backends::cuda::service &kernel_service, uint64_t timeout_ns)
      : service_{kernel_service}, timeout_ns_{timeout_ns} {}
  ~tnd_gpu_queue();
  tnd_gpu_queue(const tnd_gpu_queue &) = delete;

  // Creates what the queue needs. This cannot be deferred: kernels that run later may wait for an
  // operation.
  tnd_status open();

  tnd_status put(void *target, const void *source, size_t size);
  tnd_status get(void *target, const void *source, size_t size);
  tnd_status copy(void *target, const void *source, size_t size);
  tnd_status copy_rows(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status update(void *target, const tnd_gpu_update &request, uint64_t *before);
  tnd_status order();
  tnd_status wait(uint64_t deadline_ns);

 private:
  using command = tanada::backends::cuda::command;
  using service = tanada::backends::cuda::service;
  using queue_lock = std::unique_lock<std::timed_mutex>;
  enum class finish : uint8_t { deferred, immediate };

  struct transfer_args {
    void *target;
    const void *source;
    size_t size;  // bytes
  };
  tnd_status move(const transfer_args &transfer, finish when);
  tnd_status move_between_devices(const transfer_args &transfer, finish when);
  tnd_status move_from_host(const transfer_args &transfer, finish when);
  tnd_status read(const transfer_args &transfer);
  tnd_status rows_from_host(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_to_host(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_between_devices(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_one_by_one(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status remaining_rows(void *target,
                            const void *source,
                            const tnd_gpu_rows &shape,
                            size_t first);
  tnd_status unpack_rows(uint32_t sequence,
                         unsigned char *target,
                         const tnd_gpu_rows &shape,
                         size_t count);
  tnd_status update_host_word(queue_lock &lock,
                              void *target,
                              const tnd_gpu_update &request,
                              uint64_t *before);
  tnd_status update_silently(queue_lock &lock, command &wanted, const tnd_gpu_update &request);

  // These release the mutex while they wait. post() uses the service kernel, or declines if it may
  // and the kernel must not or cannot run.
  tnd_status post(queue_lock &lock,
                  command &request,
                  service::post_options options,
                  service::posted &outcome);
  // By the stream of copies.
  tnd_status enqueue(queue_lock &lock,
                     const std::function<cudaError_t(cudaStream_t)> &call,
                     finish when);
  tnd_status enqueue_copy(queue_lock &lock, const transfer_args &transfer, finish when);
  tnd_status enqueue_bounce(queue_lock &lock, const transfer_args &transfer, finish when);
  tnd_status await_commands(queue_lock &lock);
  tnd_status wait_copies(queue_lock &lock);
  tnd_status await_preceding(queue_lock &lock);

  // An event after the last copy. It is recorded again after each copy, unless some thread waits
  // for it. So no thread waits for copies enqueued after its call. There is at most one event more
  // than there have been simultaneous waits.
  struct copy_event {
    cudaEvent_t event = nullptr;
    std::atomic<uint32_t> waiters{0};  // incremented with mutex_ held
  };
  struct pending_copies {
    copy_event *event = nullptr;  // null: nothing to wait for
    uint64_t copies = 0;
  };
  cudaError_t mark_copies();
  pending_copies watch_copies() noexcept;
  tnd_status wait_pending(const pending_copies &pending,
                          uint64_t deadline_ns);  // does not need mutex_
  bool must_follow_copies();
  uint64_t call_deadline() const;

  service &service_;
  uint64_t const timeout_ns_;
  std::atomic<uint64_t> copied_{0};  // number of copies known to have ended
  std::timed_mutex mutex_;           // guards the members below
  bool has_posted_ = false;          // commands to the kernel
  uint32_t last_ = 0;                // sequence of its last command
  bool is_ordered_ = false;          // order() was called after it
  bool must_follow_ = false;         // new operations are performed after `follow_sequence_`
  uint32_t follow_sequence_ = 0;     // the sequence that new operations follow
  uint64_t copies_ = 0;              // number enqueued
  uint64_t follows_copies_ = 0;      // new operations are performed after this many copies
  std::vector<std::unique_ptr<copy_event>> events_;
  copy_event *last_event_ = nullptr;  // after the last copy
};
