// seams/gpu/gpu.hpp: the seam to the device that runs kernels. Implementations: the host executor
// (always there) and CUDA (a plugin, libtanada_cuda.so, found at run time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/result.hpp"
#include "seams/fabric/fabric.hpp"
#include "seams/gpu/device_queue.hpp"
#include "seams/gpu/direct_files.hpp"

namespace tanada::seams {

struct gpu_info {
  std::string name;  // "NVIDIA H200", "host executor"
  bool is_cuda;
  uint32_t multiprocessor_count;  // resident blocks at least; worker threads on the host executor
  uint64_t memory_size;           // bytes
  int numa_node = -1;             // of the processors local to it; -1: unknown, or all are
  bool is_guarded = false;        // the host executor with TND_HOST_DEVICE=guarded
  // "0000:3b:00.0": equal for processes of a node whose kernels take turns on the device. Empty
  // where they do not: the host executor, and a part of a GPU (MIG).
  std::string bus_id = {};
};

enum class host_access : uint8_t { read, write };

// Device memory that other processes of the node also map.
struct shared_block {
  void *addr = nullptr;
  size_t size = 0;      // bytes: the requested size, rounded up to what the device shares
  int descriptor = -1;  // for their map_shared(); the caller's to close
};

class gpu {
 public:
  virtual ~gpu() = default;
  virtual const gpu_info &info() const noexcept = 0;

  // Device memory, aligned to 256 bytes, contents undefined. Released by free_device. no_memory:
  // there is not enough, and the message has the requested size.
  virtual result<void *> allocate_device(size_t size) = 0;
  virtual void free_device(void *addr) noexcept = 0;

  // Aligned to 2 MiB, contents undefined. no_memory, not_supported, or the driver's error, with a
  // message.
  virtual result<shared_block> allocate_shared(size_t size) = 0;
  virtual void free_shared(void *addr, size_t size) noexcept = 0;  // `size`: that of the block
  // Maps another process's block for kernels and queues of this device, by a descriptor that stays
  // the caller's. not_supported: this device cannot reach that memory, as it is another kind of
  // device, or nothing connects them.
  virtual result<void *> map_shared(int descriptor, size_t size) = 0;
  virtual void unmap_shared(void *addr, size_t size) noexcept = 0;

  // Whether processors cannot reach the memory by loads and stores. Cheap.
  virtual bool is_device_memory(const void *addr) const noexcept = 0;

  // `timeout_ns`: of each wait that a call of the queue takes, except wait().
  virtual result<std::unique_ptr<device_queue>> queue_open(uint64_t timeout_ns) = 0;

  // Host memory that kernels reach at the same address (pinned and mapped), aligned to 4096 bytes,
  // zeroed.
  virtual result<void *> allocate_host(size_t size) = 0;
  virtual void free_host(void *addr) noexcept = 0;

  // Lets kernels read memory of the process, or also write it, such as a mapped file, at its
  // address. `addr` is aligned to a page. It may take long: the pages are brought in and pinned, so
  // they stay when another process truncates the file. not_supported: a kernel could fault on such
  // memory.
  virtual status register_host(const void *addr, size_t size, host_access access) = 0;
  // No kernel may still use it.
  virtual void unregister_host(const void *addr) noexcept = 0;

  // Describes memory of this device for a fabric, which then reads and writes it without copies by
  // a processor: its kind, and its address, which may differ from `addr`. not_supported, with a
  // message: kernels could never be sure to see what a fabric writes.
  virtual result<fabric_memory> fabric_view(const void *addr, size_t size) const = 0;
  // Makes earlier writes of a fabric to device memory visible to kernels, queues and other devices.
  // Costs nothing where the hardware ensures it.
  virtual status flush_fabric_writes() = 0;

  // Writes one word of device memory, whole, while kernels may be reading it.
  virtual status store_word(void *target, uint64_t value) = 0;

  // Reads files into device memory; never null.
  virtual seams::direct_files &direct_files() noexcept = 0;

  // Synchronous copies; either side may be host or device memory. Unordered: the caller ensures
  // that no kernel uses the bytes.
  virtual status copy_to_device(void *target, const void *source, size_t size) = 0;
  virtual status copy_to_host(void *target, const void *source, size_t size) = 0;
  virtual status fill_device(void *target, uint8_t value, size_t size) = 0;

  // Waits for every kernel launched so far in this process on this device. timed_out at the
  // deadline (absolute, monotonic_clock). device_lost when a kernel trapped, with the driver's text
  // as message. invalid, once, when an earlier simt::launch() was refused.
  virtual status synchronize(uint64_t deadline_ns) = 0;
};

enum class gpu_choice { automatic, host, cuda };

// The device to use. `automatic` takes CUDA when the plugin loads and finds a device. Otherwise it
// takes the host executor, and logs at info level in one line why CUDA is not used. `cuda` fails
// with no_device or no_plugin, with that line as message.
result<std::unique_ptr<gpu>> gpu_open(gpu_choice choice, uint32_t device_index);

// TND_HOST_DEVICE=guarded: host code cannot access its shared memory, as with a GPU, so that tests
// detect such loads. Kernels cannot run on it then.
std::unique_ptr<gpu> host_gpu_open();

// The index of the device that is current in this thread, by CUDA's runtime: the program has chosen
// it. -1: no device is current, or there is no CUDA. Opens nothing.
int gpu_current() noexcept;
uint32_t gpu_count() noexcept;  // of CUDA's devices; 0 without CUDA

// Why CUDA cannot be used here, in one line; empty when it can.
std::string cuda_unavailable_reason();

}  // namespace tanada::seams
