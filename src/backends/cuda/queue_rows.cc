// Copies of rows between host and device memory: tnd_gpu_queue::copy_rows.
#include <cstring>
#include <memory>

#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/device_queue.hpp"

using tanada::backends::cuda::annex_size;
using tanada::backends::cuda::command_kind;
using tanada::backends::cuda::device_size_max;
using tanada::backends::cuda::is_device_memory;

namespace {

// Rows of at least this many bytes are copied one by one by copy engines.
constexpr size_t long_row_size = 4096;

unsigned char *row_of(void *start, ptrdiff_t stride, size_t index) {
  return static_cast<unsigned char *>(start) + stride * ptrdiff_t(index);
}
const unsigned char *row_of(const void *start, ptrdiff_t stride, size_t index) {
  return static_cast<const unsigned char *>(start) + stride * ptrdiff_t(index);
}

// Returns true if cudaMemcpy2DAsync accepts the shape.
bool is_plain(const tnd_gpu_rows &shape) {
  return shape.target_stride >= ptrdiff_t(shape.row_size) &&
         shape.source_stride >= ptrdiff_t(shape.row_size);
}

struct rows_place {
  void *target;
  const void *source;
  tnd_gpu_rows shape;
};

// Uses only copy engines, so that even a full GPU performs it.
cudaError_t bounce_rows(cudaStream_t stream, unsigned char *bounce, const rows_place &rows) {
  auto const &shape = rows.shape;
  cudaError_t error = cudaSuccess;
  if (is_plain(shape)) {
    error = cudaMemcpy2DAsync(bounce, shape.row_size, rows.source, size_t(shape.source_stride),
                              shape.row_size, shape.count, cudaMemcpyDeviceToHost, stream);
    if (error != cudaSuccess)
      return error;
    return cudaMemcpy2DAsync(rows.target, size_t(shape.target_stride), bounce, shape.row_size,
                             shape.row_size, shape.count, cudaMemcpyHostToDevice, stream);
  }
  for (size_t i = 0; i < shape.count && error == cudaSuccess; i++) {
    unsigned char *const packed = bounce + i * shape.row_size;
    error = cudaMemcpyAsync(packed, row_of(rows.source, shape.source_stride, i), shape.row_size,
                            cudaMemcpyDeviceToHost, stream);
  }
  for (size_t i = 0; i < shape.count && error == cudaSuccess; i++) {
    unsigned char *const packed = bounce + i * shape.row_size;
    error = cudaMemcpyAsync(row_of(rows.target, shape.target_stride, i), packed, shape.row_size,
                            cudaMemcpyHostToDevice, stream);
  }
  return error;
}

}  // namespace

tnd_status tnd_gpu_queue::rows_one_by_one(void *target, const void *source,
                                          const tnd_gpu_rows &shape) {
  for (size_t i = 0; i < shape.count; i++) {
    tnd_status const code = move({row_of(target, shape.target_stride, i),
                                  row_of(source, shape.source_stride, i), shape.row_size},
                                 finish::deferred);
    if (code != TND_OK)
      return code;
  }
  return TND_OK;
}

tnd_status tnd_gpu_queue::rows_between_devices(void *target, const void *source,
                                               const tnd_gpu_rows &shape) {
  command wanted{};
  wanted.kind = command_kind::rows;
  wanted.size = uint32_t(shape.row_size);
  wanted.target = reinterpret_cast<uintptr_t>(target);
  wanted.rows = {reinterpret_cast<uintptr_t>(source), shape.target_stride, shape.source_stride,
                 shape.count};
  queue_lock lock{mutex_};
  service::posted outcome{.is_declined = true};
  if (shape.row_size * shape.count <= device_size_max) {
    outcome.is_declined = false;
    if (tnd_status const code = post(lock, wanted, {.may_decline = true}, outcome); code != TND_OK)
      return code;
  }
  if (!outcome.is_declined)
    return TND_OK;
  auto const bounced = [&](cudaStream_t stream, unsigned char *bounce) {
    return bounce_rows(stream, bounce, {target, source, shape});
  };
  bool const is_short = shape.row_size * shape.count <= device_size_max;
  return enqueue(
      lock,
      [&](cudaStream_t stream) {
        if (is_short)
          return service_.with_bounce(stream, bounced);
        if (!is_plain(shape) || shape.row_size < long_row_size)
          return tanada::backends::cuda::launch_rows(stream, wanted);
        return cudaMemcpy2DAsync(target, size_t(shape.target_stride), source,
                                 size_t(shape.source_stride), shape.row_size, shape.count,
                                 cudaMemcpyDefault, stream);
      },
      finish::deferred);
}

// Packs as many rows at a time as an annex holds.
tnd_status tnd_gpu_queue::rows_from_host(void *target, const void *source,
                                         const tnd_gpu_rows &shape) {
  size_t const rows_max = annex_size / shape.row_size;
  auto const packed = std::make_unique_for_overwrite<unsigned char[]>(annex_size);
  for (size_t done = 0; done < shape.count;) {
    size_t const count = shape.count - done < rows_max ? shape.count - done : rows_max;
    for (size_t i = 0; i < count; i++)
      std::memcpy(packed.get() + i * shape.row_size, row_of(source, shape.source_stride, done + i),
                  shape.row_size);
    command wanted{};
    wanted.kind = command_kind::rows;
    wanted.size = uint32_t(shape.row_size);
    wanted.target = reinterpret_cast<uintptr_t>(row_of(target, shape.target_stride, done));
    wanted.rows = {0, shape.target_stride, ptrdiff_t(shape.row_size), count};
    {
      queue_lock lock{mutex_};
      service::posted outcome;
      tnd_status const code =
          post(lock, wanted,
               {.annex = packed.get(), .annex_size = count * shape.row_size, .may_decline = true},
               outcome);
      if (code != TND_OK)
        return code;
      if (!outcome.is_declined) {
        done += count;
        continue;
      }
    }
    return rows_one_by_one(
        row_of(target, shape.target_stride, done), row_of(source, shape.source_stride, done),
        {shape.row_size, shape.count - done, shape.target_stride, shape.source_stride});
  }
  return TND_OK;
}

tnd_status tnd_gpu_queue::rows_to_host(void *target, const void *source,
                                       const tnd_gpu_rows &shape) {
  size_t const rows_max = annex_size / shape.row_size;
  for (size_t done = 0; done < shape.count;) {
    size_t const count = shape.count - done < rows_max ? shape.count - done : rows_max;
    command wanted{};
    wanted.kind = command_kind::rows;
    wanted.size = uint32_t(shape.row_size);
    wanted.rows = {reinterpret_cast<uintptr_t>(row_of(source, shape.source_stride, done)),
                   ptrdiff_t(shape.row_size), shape.source_stride, count};
    service::posted outcome;
    {
      queue_lock lock{mutex_};
      tnd_status const code = post(
          lock, wanted, {.is_answered = true, .targets_annex = true, .may_decline = true}, outcome);
      if (code != TND_OK)
        return code;
    }
    if (outcome.is_declined) {
      return rows_one_by_one(
          row_of(target, shape.target_stride, done), row_of(source, shape.source_stride, done),
          {shape.row_size, shape.count - done, shape.target_stride, shape.source_stride});
    }
    tnd_status const code = service_.wait_done(outcome.sequence, call_deadline());
    unsigned char const *const packed = service_.annex(outcome.sequence);
    for (size_t i = 0; i < count && code == TND_OK; i++)
      std::memcpy(row_of(target, shape.target_stride, done + i), packed + i * shape.row_size,
                  shape.row_size);
    service_.release(outcome.sequence);
    if (code != TND_OK)
      return code;
    done += count;
  }
  return TND_OK;
}

tnd_status tnd_gpu_queue::copy_rows(void *target, const void *source, const tnd_gpu_rows &shape) {
  if (shape.row_size == 0 || shape.count == 0)
    return TND_OK;
  if (shape.count == 1)
    return move({target, source, shape.row_size}, finish::deferred);
  bool const is_to_device = is_device_memory(target) != 0,
             is_from_device = is_device_memory(source) != 0;
  if (shape.row_size > UINT32_MAX ||
      (is_to_device == is_from_device ? !is_to_device : shape.row_size > long_row_size))
    return rows_one_by_one(target, source, shape);
  if (is_to_device && is_from_device)
    return rows_between_devices(target, source, shape);
  return is_to_device ? rows_from_host(target, source, shape) : rows_to_host(target, source, shape);
}
