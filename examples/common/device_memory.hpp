// examples/common/device_memory.hpp: the differences between a GPU and the host executor for a
// program's host code: where kernels' memory is, and how work is best divided into threads. All
// other code of the examples is the same for both.
#pragma once

#include <tanada/device/gfile.cuh>
#include <tanada/gfile.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if TND_SIMT_CUDA
#  include <cuda_runtime.h>
#endif

namespace examples {

#if TND_SIMT_CUDA

inline constexpr bool on_gpu = true;

inline void cuda_check(cudaError_t code, const char *call) {
  if (code != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(code));
}
inline void *device_allocate(std::size_t size) {
  void *memory = nullptr;
  cuda_check(cudaMalloc(&memory, size), "cudaMalloc");
  return memory;
}
inline void device_free(void *memory) noexcept {
  (void)cudaFree(memory);
}
inline void device_clear(void *memory, std::size_t size) {
  cuda_check(cudaMemset(memory, 0, size), "cudaMemset");
}
inline void copy_to_device(void *target, const void *source, std::size_t size) {
  cuda_check(cudaMemcpy(target, source, size, cudaMemcpyHostToDevice), "cudaMemcpy to the device");
}
inline void copy_to_host(void *target, const void *source, std::size_t size) {
  cuda_check(cudaMemcpy(target, source, size, cudaMemcpyDeviceToHost), "cudaMemcpy to the host");
}
inline void device_wait() {
  cuda_check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}
/// The GPU on which kernels of this thread run.
inline std::string device_name() {
  int index = 0;
  cudaDeviceProp properties{};
  cuda_check(cudaGetDevice(&index), "cudaGetDevice");
  cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties.name;
}
/// Kernels of this thread run on the device of `memory`, whichever GPU that is.
inline tanada::u32 use_device_of(const void *memory) {
  cudaPointerAttributes about{};
  cuda_check(cudaPointerGetAttributes(&about, memory), "cudaPointerGetAttributes");
  if (about.type != cudaMemoryTypeDevice)
    throw std::runtime_error("symmetric memory of devices is in no GPU's memory");
  cuda_check(cudaSetDevice(about.device), "cudaSetDevice");
  return tanada::u32(about.device);
}

/// A point between kernels: reached when the kernels launched before record() have run. Any thread
/// may wait. Do not move it.
class moment {
 public:
  /// `is_near`: the waiter polls, and notices the end microseconds earlier.
  explicit moment(bool is_near = false) {
    cuda_check(
        cudaEventCreateWithFlags(&event_, is_near ? cudaEventDefault : cudaEventBlockingSync),
        "cudaEventCreate");
  }
  moment(const moment &) = delete;
  moment &operator=(const moment &) = delete;
  ~moment() {
    (void)cudaEventDestroy(event_);
  }
  void record() {
    cuda_check(cudaEventRecord(event_, nullptr), "cudaEventRecord");
  }
  /// Waits as long as the kernels run; returns immediately if nothing was recorded.
  void wait() const {
    cuda_check(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  /// Both must have passed.
  double seconds_since(const moment &earlier) const {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "cudaEventElapsedTime");
    return double(milliseconds) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A view of kernels' memory for a host thread, valid while later kernels run. For one thread.
class host_copy {
 public:
  explicit host_copy(std::size_t size) : size_(size) {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda_check(cudaMallocHost(&memory_, size), "cudaMallocHost");
  }
  host_copy(const host_copy &) = delete;
  host_copy &operator=(const host_copy &) = delete;
  ~host_copy() {
    (void)cudaFreeHost(memory_);
    (void)cudaStreamDestroy(stream_);
  }
  /// The bytes of `source`, valid until the next call.
  const void *of(const void *source) {
    cuda_check(cudaMemcpyAsync(memory_, source, size_, cudaMemcpyDeviceToHost, stream_),
               "cudaMemcpyAsync");
    cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    return memory_;
  }

 private:
  std::size_t size_;
  void *memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

#else

inline constexpr bool on_gpu = false;

inline void *device_allocate(std::size_t size) {
  return ::operator new(size, std::align_val_t{256});
}
inline void device_free(void *memory) noexcept {
  ::operator delete(memory, std::align_val_t{256});
}
inline void device_wait() {
  (void)tanada::simt::host::synchronize(TND_NO_DEADLINE);
}
/// A program has kernels of only one kind, so this also holds on a machine with GPUs.
inline std::string device_name() {
  return "host executor (this program is compiled for it; one for GPUs ends with _cuda)";
}
/// There is one host executor.
inline tanada::u32 use_device_of(const void *) {
  return 0;
}
// As on the GPU, a copy follows the kernels launched before it.
inline void device_clear(void *memory, std::size_t size) {
  device_wait();
  std::memset(memory, 0, size);
}
inline void copy_to_device(void *target, const void *source, std::size_t size) {
  device_wait();
  std::memcpy(target, source, size);
}
inline void copy_to_host(void *target, const void *source, std::size_t size) {
  device_wait();
  std::memcpy(target, source, size);
}

/// A point between kernels: reached when the kernels launched before record() have run. Any thread
/// may wait. Do not move it.
class moment {
 public:
  explicit moment(bool = false) {}
  moment(const moment &) = delete;
  moment &operator=(const moment &) = delete;
  void record() {
    auto const passing = std::make_shared<std::promise<clock::time_point>>();
    passed_ = passing->get_future().share();
    tanada::simt::host::launch({1}, {1}, [passing] { passing->set_value(clock::now()); });
  }
  /// Waits as long as the kernels run; returns immediately if nothing was recorded.
  void wait() const {
    if (passed_.valid())
      passed_.wait();
  }
  /// Both must have passed.
  double seconds_since(const moment &earlier) const {
    return std::chrono::duration<double>(passed_.get() - earlier.passed_.get()).count();
  }

 private:
  using clock = std::chrono::steady_clock;
  std::shared_future<clock::time_point> passed_;
};

/// A view of kernels' memory for a host thread, valid while later kernels run. For one thread.
class host_copy {
 public:
  explicit host_copy(std::size_t) {}
  /// The bytes of `source`, valid until the next call.
  const void *of(const void *source) const {
    return source;
  }
};

#endif

/// Prints a line on standard error, so that a program's output is the same on every device.
inline void print_device() {
  std::fprintf(stderr, "device: %s\n", device_name().c_str());
}

/// The device on which the instance of ginitialize() must run for the kernels of this program.
inline constexpr tanada::u32 gfile_device = on_gpu ? TND_GFILE_DEVICE_CUDA : TND_GFILE_DEVICE_HOST;

/// `count` zeroed elements that kernels access through data(). Move-only.
template <class T>
class device_array {
 public:
  device_array() = default;
  explicit device_array(std::size_t count)
      : data_(static_cast<T *>(device_allocate(count * sizeof(T)))), count_(count) {
    device_clear(data_, count * sizeof(T));
  }
  explicit device_array(const std::vector<T> &source) : device_array(source.size()) {
    copy_to_device(data_, source.data(), source.size() * sizeof(T));
  }
  device_array(device_array &&other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  device_array &operator=(device_array &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~device_array() {
    if (data_ != nullptr)
      device_free(data_);
  }

  T *data() const noexcept {
    return data_;
  }
  std::size_t count() const noexcept {
    return count_;
  }
  std::size_t size() const noexcept {
    return count_ * sizeof(T);
  }
  void clear() {
    device_clear(data_, size());
  }

  /// A copy in host memory, made after every kernel launched so far.
  std::vector<T> to_host() const {
    std::vector<T> copy(count_);
    copy_to_host(copy.data(), data_, size());
    return copy;
  }

 private:
  T *data_ = nullptr;
  std::size_t count_ = 0;
};

/// A grid of blocks for work on `row_count` rows of memory. Lanes of a GPU share a row, so that
/// loads coalesce. On the host executor there are few lanes, and each takes whole rows, which the
/// compiler vectorizes.
inline constexpr tanada::u32 lanes_a_row = on_gpu ? 32 : 1;

struct launch_shape {
  tanada::simt::dim3 grid, block;
};
inline launch_shape shape_for_rows(tanada::u64 row_count) {
  tanada::u64 const lane_count = row_count * lanes_a_row;
  tanada::u32 const block_size = on_gpu ? 256 : 8;
  tanada::u64 const block_count = on_gpu ? (lane_count + block_size - 1) / block_size : 8;
  return {{tanada::u32(block_count), 1, 1}, {block_size, 1, 1}};
}

/// Threads in each block, for blocks whose threads transfer together.
inline constexpr tanada::u32 io_block_size = on_gpu ? 256 : 16;

}  // namespace examples
