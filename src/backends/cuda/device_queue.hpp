// backends/cuda/device_queue.hpp: the operations of one context on a GPU
// (seams/gpu/device_queue.hpp), each by one of two ways:
//
//   the service kernel  up to 64 KiB between devices, 8 KiB from and 16 KiB to host memory: a round
//   trip across the bus copy engines        what is longer; and what the kernel has no room for,
//   while the program's blocks fill the GPU
//
// What needs neither - host memory on both sides - is done by the processor. Of a full GPU this
// remains: updates need a kernel, but a swap that nobody asks the value of, and so may copies of
// more than 64 KiB within one GPU; they are performed when it is full no more.
#pragma once

#include <mutex>
#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.hpp"
#include "backends/cuda/service.hpp"
#include "seams/gpu/gpu_plugin.h"

namespace tanada::port::cuda {

// Bytes that go by the service kernel at most, as measured on an H200: from there on copy engines
// are sooner.
inline constexpr size_t device_size_max = 65536, put_size_max = 8192;
static_assert(device_size_max <= bounce_size && put_size_max <= annex_size);

}  // namespace tanada::port::cuda

struct tnd_gpu_queue {
 public:
  // `timeout_ns`: of each wait of its calls but wait().
  tnd_gpu_queue(tanada::port::cuda::service &by, uint64_t timeout_ns)
      : service_{by}, timeout_ns_{timeout_ns} {}
  ~tnd_gpu_queue();
  tnd_gpu_queue(const tnd_gpu_queue &) = delete;

  // Makes what it needs: kernels that are at work later may wait for an operation.
  tnd_status open();

  tnd_status put(void *target, const void *source, size_t size);
  tnd_status get(void *target, const void *source, size_t size);
  tnd_status copy(void *target, const void *source, size_t size);
  tnd_status copy_rows(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status update(void *target, const tnd_gpu_update &what, uint64_t *before);
  tnd_status order();
  tnd_status wait(uint64_t deadline_ns);

 private:
  using command = tanada::port::cuda::command;
  using service = tanada::port::cuda::service;
  using held = std::unique_lock<std::timed_mutex>;
  enum class finish : uint8_t { later, now };

  struct place {
    void *target;
    const void *source;
    size_t size;  // bytes
  };
  tnd_status move(const place &what, finish when);
  tnd_status move_to_device(const place &what, finish when);
  tnd_status read(const place &what);
  tnd_status rows_from_host(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_to_host(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_between_devices(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status rows_one_by_one(void *target, const void *source, const tnd_gpu_rows &shape);
  tnd_status update_here(held &lock, void *target, const tnd_gpu_update &what, uint64_t *before);

  // These let go of the mutex while they wait.
  // By the kernel, or `elsewhere` if it must not or cannot.
  tnd_status post(held &lock, command &what, service::post_options options,
                  service::posted &outcome);
  // By the stream of copies.
  tnd_status enqueue(held &lock, const std::function<cudaError_t(cudaStream_t)> &call, finish when);
  tnd_status enqueue_copy(held &lock, const place &what, finish when);
  tnd_status enqueue_bounce(held &lock, const place &what, finish when);
  tnd_status follow(held &lock);
  tnd_status wait_copies(held &lock);
  tnd_status settle(held &lock);

  // The end of copies: recorded anew with each, but while somebody waits for it. So nobody waits
  // for copies that others enqueue after his call, and there are as many as have ever waited at
  // once, and one.
  struct mark {
    cudaEvent_t event = nullptr;
    std::atomic<uint32_t> waiters{0};  // counted up with mutex_ held
  };
  struct watched {
    mark *at = nullptr;  // null: there is nothing to wait for
    uint64_t copies = 0;
  };
  cudaError_t mark_copies();
  watched watch() noexcept;
  tnd_status wait_watched(const watched &what, uint64_t deadline_ns);  // mutex_ need not be held
  bool must_follow_copies();
  uint64_t limit() const;

  service &service_;
  uint64_t const timeout_ns_;
  std::atomic<uint64_t> copied_{0};  // so many copies are known to have ended
  std::timed_mutex mutex_;           // guards what follows
  bool has_posted_ = false;          // by the kernel
  uint32_t last_ = 0;                // sequence of its last command
  bool is_ordered_ = false;          // order() was called since
  bool must_follow_ = false;         // what comes is performed after `follows_`
  uint32_t follows_ = 0;             // sequence
  uint64_t copies_ = 0;              // so many enqueued
  uint64_t follows_copies_ = 0;      // what comes is performed after so many
  std::vector<std::unique_ptr<mark>> marks_;
  mark *last_mark_ = nullptr;  // behind the last copy
};
