// launch.h: streams, and launches of kernels on the host executor. All streams share its one
// queue, so the work of a process runs in the order of the calls.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_error.h"
#include "vector_types.h"

struct CUstream_st {
  unsigned flags;
};
typedef CUstream_st *cudaStream_t;

namespace tanada::cuda {

// What the threads of one launch share.
struct grid_state {
  size_t shared_size = 0;  // bytes of dynamic shared memory
  u32 arrived = 0;         // blocks at the grid's barrier
  u32 generation = 0;      // barriers that have ended
};

// One worker thread runs a block's lanes, so that they see the state of their launch.
inline thread_local grid_state *current_grid = nullptr;

struct launch_shape {
  dim3 grid, block;
  size_t shared_size = 0;
  cudaStream_t stream = nullptr;
  bool is_cooperative = false;
};

// Blocks of a GPU that run at the same time: kernels whose blocks wait for one another rely on it.
inline constexpr u32 resident_blocks_max = 256;

inline cudaError_t launch(const launch_shape &shape, std::function<void()> kernel) {
  u64 const blocks = u64(shape.grid.x) * shape.grid.y * shape.grid.z;
  if (shape.is_cooperative && blocks > resident_blocks_max)
    return result(cudaErrorCooperativeLaunchTooLarge);
  simt::host::launch_options options;
  options.resident_blocks =
      blocks == 0 ? 1 : u32(blocks < resident_blocks_max ? blocks : resident_blocks_max);
  auto state = std::make_shared<grid_state>();
  state->shared_size = shape.shared_size;
  bool const is_queued = simt::host::launch(
      shape.grid,
      shape.block,
      [state = std::move(state), kernel = std::move(kernel)] {
        current_grid = state.get();
        kernel();
      },
      options);
  return result(is_queued ? cudaSuccess : cudaErrorInvalidConfiguration);
}

// Host code in the order of a stream.
inline cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  launch_shape shape;
  shape.stream = stream;
  return launch(shape, std::move(work));
}

inline cudaError_t wait() {
  (void)simt::host::synchronize(~u64{0});
  return cudaSuccess;
}

// ---- kernels by address

using argument_call = void (*)(const void *kernel, void **arguments);

struct kernel_entry {
  std::function<std::function<void()>(void **)> bind;
};

struct kernel_table {
  std::mutex mutex;
  std::map<const void *, kernel_entry> entries;

  static kernel_table &instance() {
    static kernel_table &table = *new kernel_table;
    return table;
  }
};

template <class... Parameters, size_t... Index>
std::function<void()> bind_arguments(void (*kernel)(Parameters...),
                                     void **arguments,
                                     std::index_sequence<Index...>) {
  (void)arguments;
  std::tuple<std::remove_cv_t<Parameters>...> values{
      *static_cast<std::remove_cv_t<Parameters> *>(arguments[Index])...};
  return [kernel, values = std::move(values)] {
    std::apply(kernel, values);
  };
}

// Makes a kernel known by its address, and returns that.
template <class... Parameters>
const void *kernel_address(void (*kernel)(Parameters...)) {
  const void *const address = reinterpret_cast<const void *>(kernel);
  kernel_table &table = kernel_table::instance();
  std::lock_guard const lock{table.mutex};
  table.entries.try_emplace(address, kernel_entry{[kernel](void **arguments) {
                              return bind_arguments(
                                  kernel, arguments, std::index_sequence_for<Parameters...>{});
                            }});
  return address;
}

inline cudaError_t launch_address(const launch_shape &shape,
                                  const void *address,
                                  void **arguments) {
  std::function<void()> call;
  {
    kernel_table &table = kernel_table::instance();
    std::lock_guard const lock{table.mutex};
    auto const position = table.entries.find(address);
    if (position == table.entries.end())
      return result(cudaErrorInvalidDeviceFunction);
    call = position->second.bind(arguments);
  }
  return launch(shape, std::move(call));
}

// ---- kernel<<<grid, block, shared_size, stream>>>(arguments), as tanada-nvcc translates it

// Keeps a parameter from being deduced.
template <class T>
struct same_type {
  using type = T;
};
template <class T>
using same_type_t = typename same_type<T>::type;

struct configured_launch {
  launch_shape shape;

  configured_launch(dim3 grid, dim3 block, size_t shared_size = 0, cudaStream_t stream = nullptr)
      : shape{grid, block, shared_size, stream} {}

  // The arguments convert to the parameters' types as those of a call do.
  template <class... Parameters>
  void call(void (*kernel)(Parameters...), same_type_t<Parameters>... arguments) const {
    (void)launch(shape, [=] { kernel(arguments...); });
  }
  // `kernel` deduces a template's parameters from the arguments.
  template <class Kernel, class... Arguments>
  void call_deduced(Kernel kernel, Arguments... arguments) const {
    (void)launch(shape, [=] { kernel(arguments...); });
  }
};

// ---- inside kernels

inline void *dynamic_shared() {
  static char key;
  size_t const size = current_grid->shared_size;
  return simt::host::block_storage(&key, size == 0 ? 16 : size, 16);
}

// A step of a loop: other lanes and blocks run now and then, so that loops that poll memory end.
inline void loop_step() {
  static thread_local u32 steps = 0;
  if (simt::host::in_kernel() && ++steps % 64 == 0)
    simt::host::pause();
}

// Of a kernel, or of what stands for one as a pointer without a type.
template <class Kernel>
const void *address_of(Kernel *kernel) {
  if constexpr (std::is_function_v<Kernel>)
    return kernel_address(kernel);
  else
    return kernel;
}

}  // namespace tanada::cuda

template <class Kernel>
inline cudaError_t cudaLaunchKernel(Kernel *kernel,
                                    dim3 grid,
                                    dim3 block,
                                    void **arguments,
                                    size_t shared_size = 0,
                                    cudaStream_t stream = nullptr) {
  return ::tanada::cuda::launch_address(
      {grid, block, shared_size, stream}, ::tanada::cuda::address_of(kernel), arguments);
}
template <class Kernel>
inline cudaError_t cudaLaunchCooperativeKernel(Kernel *kernel,
                                               dim3 grid,
                                               dim3 block,
                                               void **arguments,
                                               size_t shared_size = 0,
                                               cudaStream_t stream = nullptr) {
  return ::tanada::cuda::launch_address(
      {grid, block, shared_size, stream, true}, ::tanada::cuda::address_of(kernel), arguments);
}

typedef void (*cudaHostFn_t)(void *data);
inline cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  return ::tanada::cuda::enqueue(stream, [=] { function(data); });
}
