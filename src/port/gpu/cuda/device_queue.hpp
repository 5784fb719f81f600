// port/gpu/cuda/device_queue.hpp: the operations of one context on a GPU (port/gpu/device_queue.hpp), each by one of two ways:
//
//   the service kernel  up to 64 KiB between devices, 8 KiB from and 16 KiB to host memory: a round trip across the bus
//   copy engines        what is longer; and what the kernel has no room for, while the program's blocks fill the GPU
//
// What needs neither - host memory on both sides - is done by the processor. Of a full GPU this remains: updates need a kernel, but a swap
// that nobody asks the value of, and so may copies of more than 64 KiB within one GPU; they are performed when it is full no more.
#pragma once

#include <functional>
#include <mutex>

#include "port/gpu/cuda/service.hpp"
#include "port/gpu/plugin.h"

namespace tanada::port::cuda {

// Bytes that go by the service kernel at most, as measured on an H200: from there on copy engines are sooner.
inline constexpr size_t device_size_max = 65536, put_size_max = 8192;
static_assert(device_size_max <= bounce_size && put_size_max <= annex_size);

}  // namespace tanada::port::cuda

struct tnd_gpu_queue {
 public:
  explicit tnd_gpu_queue(tanada::port::cuda::service &by) : service_{by} {}
  ~tnd_gpu_queue();
  tnd_gpu_queue(const tnd_gpu_queue &) = delete;

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
  tnd_status update_here(void *target, const tnd_gpu_update &what, uint64_t *before);

  // By the kernel, or `elsewhere` if it must not or cannot.
  tnd_status post(command &what, service::post_options options, service::posted &outcome);
  // By the stream of copies.
  tnd_status enqueue(const std::function<cudaError_t(cudaStream_t)> &call, finish when);
  tnd_status enqueue_copy(const place &what, finish when);
  tnd_status enqueue_bounce(const place &what, finish when);
  tnd_status wait_copies(uint64_t deadline_ns);
  tnd_status settle();
  bool copies_are_done();

  service &service_;
  std::mutex mutex_;                  // guards what follows
  bool has_posted_ = false;           // by the kernel
  uint32_t last_ = 0;                 // sequence of its last command
  bool is_ordered_ = false;           // order() was called since
  bool must_follow_ = false;          // what comes is performed after `follows_`
  uint32_t follows_ = 0;              // sequence
  bool has_copies_ = false;           // that may be under way
  bool must_follow_copies_ = false;   // what comes is performed after them
  uint64_t copies_ = 0;               // so many enqueued
  cudaEvent_t copied_ = nullptr;      // the last of them
};
