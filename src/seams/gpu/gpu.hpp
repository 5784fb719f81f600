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

namespace tanada::port {

struct gpu_info {
  std::string name;  // "NVIDIA H200", "host executor"
  bool is_cuda;
  uint32_t multiprocessor_count;  // resident blocks at least; worker threads on the host executor
  uint64_t memory_size;           // bytes
  int numa_node = -1;             // of the processors near it; -1: unknown, or all are
  bool is_guarded = false;        // the host executor with TND_HOST_DEVICE=guarded
  // "0000:3b:00.0": equal for processes of a machine whose kernels take turns on the device.
  // Empty where they do not: the host executor, and a part of a GPU (MIG).
  std::string bus_id = {};
};

enum class host_access : uint8_t { read, write };

// Device memory that other processes of the machine map, too.
struct shared_block {
  void *addr = nullptr;
  size_t size = 0;      // bytes: what was asked for, rounded up to what the device shares
  int descriptor = -1;  // for their map_shared(); the caller's to close
};

class gpu {
 public:
  virtual ~gpu() = default;
  virtual const gpu_info &info() const noexcept = 0;

  // Device memory, aligned to 256 bytes, contents undefined. Released by free_device. no_memory if
  // there is not enough; the message says how much was asked for.
  virtual result<void *> allocate_device(size_t size) = 0;
  virtual void free_device(void *addr) noexcept = 0;

  // Aligned to 2 MiB, contents undefined. no_memory, not_supported, or what the driver said, with a
  // message.
  virtual result<shared_block> allocate_shared(size_t size) = 0;
  virtual void free_shared(void *addr, size_t size) noexcept = 0;  // `size`: the block's
  // Another process's block, for kernels and queues of this device, by a descriptor that stays the
  // caller's. not_supported where this device does not reach that memory: it is another kind of
  // device, or nothing joins them.
  virtual result<void *> map_shared(int descriptor, size_t size) = 0;
  virtual void unmap_shared(void *addr, size_t size) noexcept = 0;

  // Memory that processors do not reach by loads and stores. Cheap.
  virtual bool is_device_memory(const void *addr) const noexcept = 0;

  // `timeout_ns`: of each wait that a call of the queue takes, but wait()'s.
  virtual result<std::unique_ptr<device_queue>> queue_open(uint64_t timeout_ns) = 0;

  // Host memory that kernels reach at the same address (pinned and mapped), aligned to 4096 bytes,
  // zeroed.
  virtual result<void *> allocate_host(size_t size) = 0;
  virtual void free_host(void *addr) noexcept = 0;

  // Let kernels read memory of the process, or write it too, such as a mapped file, at the address
  // it has. `addr` is aligned to a page. It may take long: the pages are brought in and pinned, so
  // that they stay while somebody else cuts the file. Not where the memory is such that a kernel
  // could fault on it: not_supported.
  virtual status register_host(const void *addr, size_t size, host_access access) = 0;
  // No kernel may be reading it.
  virtual void unregister_host(const void *addr) noexcept = 0;

  // How a fabric is told of memory of this device, so that it reads and writes it without a
  // processor's copies: what kind it is, and where, which need not be `addr`. not_supported, with a
  // message: what a fabric writes there, kernels could never be sure to see.
  virtual result<fabric_memory> fabric_view(const void *addr, size_t size) const = 0;
  // What a fabric has written to device memory before the call is seen by kernels, queues and other
  // devices that look from now on. Costs nothing where the hardware sees to it.
  virtual status fabric_settle() = 0;

  // Write one word of device memory, whole, while kernels may be reading it.
  virtual status store_word(void *target, uint64_t value) = 0;

  // Who reads files into device memory; never null.
  virtual port::direct_files &direct_files() noexcept = 0;

  // Synchronous copies; either side may be host or device memory. Ordered with nothing: the caller
  // knows that no kernel uses the bytes.
  virtual status copy_to_device(void *target, const void *source, size_t size) = 0;
  virtual status copy_to_host(void *target, const void *source, size_t size) = 0;
  virtual status fill_device(void *target, uint8_t value, size_t size) = 0;

  // Wait for every kernel launched so far in this process on this device. timed_out at the deadline
  // (absolute, monotonic_clock); device_lost when a kernel trapped, with the driver's words as
  // message; invalid, once, when a simt::launch() before it was refused.
  virtual status synchronize(uint64_t deadline_ns) = 0;
};

enum class gpu_choice { automatic, host, cuda };

// The device to use. `automatic` takes CUDA when the plugin loads and finds a device, else the host
// executor, and logs at info level in one line why CUDA is not used. `cuda` fails with no_device or
// no_plugin and that same line as message.
result<std::unique_ptr<gpu>> gpu_open(gpu_choice choice, uint32_t device_index);

// TND_HOST_DEVICE=guarded: its shared memory is out of the reach of host code, as a GPU's is, so
// that tests see who loads from it; kernels cannot run on it then.
std::unique_ptr<gpu> host_gpu_open();

// The index of the device that is current in this thread, as CUDA's runtime has it: whoever made
// one current meant it. -1: none is, or there is no CUDA. Opens nothing.
int gpu_current() noexcept;
uint32_t gpu_count() noexcept;  // of CUDA's; 0 without

// Why CUDA cannot be used here, in one line; empty when it can.
std::string cuda_unavailable_reason();

}  // namespace tanada::port
