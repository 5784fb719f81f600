// Copies of rows between host and device memory: tnd_gpu_queue::copy_rows.
#include <algorithm>
#include <cstring>
#include <memory>

#include "backends/cuda/device_memory.hpp"
#include "backends/cuda/device_queue.hpp"
#include "core/base/assert.hpp"

using tanada::backends::cuda::annex_size;
using tanada::backends::cuda::command_kind;
using tanada::backends::cuda::device_size_max;
using tanada::backends::cuda::is_device_memory;

namespace {

// Rows of at least this many bytes are copied one by one by copy engines.
constexpr size_t long_row_size = 4096;
static_assert(long_row_size <= annex_size);

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

// The number of rows from `first` on that an annex holds.
size_t annex_row_count(const tnd_gpu_rows &shape, size_t first) {
  size_t const rows_max = annex_size / shape.row_size;
  TND_ASSERT(rows_max != 0 && first < shape.count);
  return std::min(shape.count - first, rows_max);
}

tanada::backends::cuda::command rows_command(const tnd_gpu_rows &shape) {
  tanada::backends::cuda::command request{};
  request.kind = command_kind::rows;
  request.size = uint32_t(shape.row_size);
  return request;
}

struct rows_place {
  void *target;
  const void *source;
  tnd_gpu_rows shape;
};

// Uses copy engines where they accept the shape, otherwise a kernel.
cudaError_t copy_long_rows(cudaStream_t stream,
                           const rows_place &rows,
                           const tanada::backends::cuda::command &request) {
  auto const &shape = rows.shape;
  if (!is_plain(shape) || shape.row_size < long_row_size)
    return tanada::backends::cuda::launch_rows(stream, request);
  return cudaMemcpy2DAsync(rows.target,
                           size_t(shape.target_stride),
                           rows.source,
                           size_t(shape.source_stride),
                           shape.row_size,
                           shape.count,
                           cudaMemcpyDefault,
                           stream);
}

// Uses only copy engines, so that even a full GPU performs it.
cudaError_t bounce_rows(cudaStream_t stream, unsigned char *bounce, const rows_place &rows) {
  auto const &shape = rows.shape;
  cudaError_t error = cudaSuccess;
  if (is_plain(shape)) {
    error = cudaMemcpy2DAsync(bounce,
                              shape.row_size,
                              rows.source,
                              size_t(shape.source_stride),
                              shape.row_size,
                              shape.count,
                              cudaMemcpyDeviceToHost,
                              stream);
    if (error != cudaSuccess)
      return error;
    return cudaMemcpy2DAsync(rows.target,
                             size_t(shape.target_stride),
                             bounce,
                             shape.row_size,
                             shape.row_size,
                             shape.count,
                             cudaMemcpyHostToDevice,
                             stream);
  }
  for (size_t i = 0; i < shape.count && error == cudaSuccess; i++) {
    unsigned char *const packed = bounce + i * shape.row_size;
    error = cudaMemcpyAsync(packed,
                            row_of(rows.source, shape.source_stride, i),
                            shape.row_size,
                            cudaMemcpyDeviceToHost,
                            stream);
  }
  for (size_t i = 0; i < shape.count && error == cudaSuccess; i++) {
    unsigned char *const packed = bounce + i * shape.row_size;
    error = cudaMemcpyAsync(row_of(rows.target, shape.target_stride, i),
                            packed,
                            shape.row_size,
                            cudaMemcpyHostToDevice,
                            stream);
  }
  return error;
}

}  // namespace

tnd_status tnd_gpu_queue::rows_one_by_one(void *target,
                                          const void *source,
                                          const tnd_gpu_rows &shape) {
  for (size_t i = 0; i < shape.count; i++) {
    tnd_status const code = move({row_of(target, shape.target_stride, i),
                                  row_of(source, shape.source_stride, i),
                                  shape.row_size},
                                 finish::deferred);
    if (code != TND_OK)
      return code;
  }
  return TND_OK;
}

tnd_status tnd_gpu_queue::rows_between_devices(void *target,
                                               const void *source,
                                               const tnd_gpu_rows &shape) {
  rows_place const rows{target, source, shape};
  command request = rows_command(shape);
  request.target = reinterpret_cast<uintptr_t>(target);
  request.rows = {
      reinterpret_cast<uintptr_t>(source), shape.target_stride, shape.source_stride, shape.count};
  queue_lock lock{mutex_};
  if (shape.row_size * shape.count > device_size_max)
    return enqueue(
        lock,
        [&](cudaStream_t stream) { return copy_long_rows(stream, rows, request); },
        finish::deferred);
  service::posted outcome;
  tnd_status const code = post(lock, request, {.may_decline = true}, outcome);
  if (code != TND_OK || !outcome.is_declined)
    return code;
  auto const bounced = [&](cudaStream_t stream, unsigned char *bounce) {
    return bounce_rows(stream, bounce, rows);
  };
  return enqueue(
      lock,
      [&](cudaStream_t stream) { return service_.with_bounce(stream, bounced); },
      finish::deferred);
}

// Copies the rows from `first` on, which the service kernel has declined.
tnd_status tnd_gpu_queue::remaining_rows(void *target,
                                         const void *source,
                                         const tnd_gpu_rows &shape,
                                         size_t first) {
  return rows_one_by_one(
      row_of(target, shape.target_stride, first),
      row_of(source, shape.source_stride, first),
      {shape.row_size, shape.count - first, shape.target_stride, shape.source_stride});
}

// Packs as many rows at a time as an annex holds.
tnd_status tnd_gpu_queue::rows_from_host(void *target,
                                         const void *source,
                                         const tnd_gpu_rows &shape) {
  auto const packed = std::make_unique_for_overwrite<unsigned char[]>(annex_size);
  for (size_t done = 0; done < shape.count;) {
    size_t const count = annex_row_count(shape, done);
    for (size_t i = 0; i < count; i++) {
      std::memcpy(packed.get() + i * shape.row_size,
                  row_of(source, shape.source_stride, done + i),
                  shape.row_size);
    }
    command request = rows_command(shape);
    request.target = reinterpret_cast<uintptr_t>(row_of(target, shape.target_stride, done));
    request.rows = {0, shape.target_stride, ptrdiff_t(shape.row_size), count};
    service::posted outcome;
    {
      queue_lock lock{mutex_};
      tnd_status const code =
          post(lock,
               request,
               {.annex = packed.get(), .annex_size = count * shape.row_size, .may_decline = true},
               outcome);
      if (code != TND_OK)
        return code;
    }
    if (outcome.is_declined)
      return remaining_rows(target, source, shape, done);
    done += count;
  }
  return TND_OK;
}

// Waits for the rows that the service kernel packs into the annex of a command, and stores them.
tnd_status tnd_gpu_queue::unpack_rows(uint32_t sequence,
                                      unsigned char *target,
                                      const tnd_gpu_rows &shape,
                                      size_t count) {
  tnd_status const code = service_.wait_done(sequence, call_deadline());
  unsigned char const *const packed = service_.annex(sequence);
  for (size_t i = 0; i < count && code == TND_OK; i++) {
    std::memcpy(
        row_of(target, shape.target_stride, i), packed + i * shape.row_size, shape.row_size);
  }
  service_.release(sequence);
  return code;
}

tnd_status tnd_gpu_queue::rows_to_host(void *target,
                                       const void *source,
                                       const tnd_gpu_rows &shape) {
  for (size_t done = 0; done < shape.count;) {
    size_t const count = annex_row_count(shape, done);
    command request = rows_command(shape);
    request.rows = {reinterpret_cast<uintptr_t>(row_of(source, shape.source_stride, done)),
                    ptrdiff_t(shape.row_size),
                    shape.source_stride,
                    count};
    service::posted outcome;
    {
      queue_lock lock{mutex_};
      tnd_status const code =
          post(lock,
               request,
               {.is_answered = true, .targets_annex = true, .may_decline = true},
               outcome);
      if (code != TND_OK)
        return code;
    }
    if (outcome.is_declined)
      return remaining_rows(target, source, shape, done);
    tnd_status const code =
        unpack_rows(outcome.sequence, row_of(target, shape.target_stride, done), shape, count);
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
