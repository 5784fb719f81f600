// seams/gpu/device_queue.hpp: one-sided operations that host code starts on device memory: that of
// the device, and that of others which is mapped for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "seams/fabric/fabric.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::seams {

// The update of one word, u32 or u64, aligned to its size.
struct word_update {
  fabric_atomic kind;
  fabric_element element;
  uint64_t operand = 0, compare = 0;
};

// `count` rows of `row_size` bytes, whose starts are `target_stride` and `source_stride` bytes
// apart.
struct row_shape {
  size_t row_size, count;
  ptrdiff_t target_stride, source_stride;
};

// The operations of one context. Targets and sources may be device memory or memory of this
// process. Ranges do not overlap.
//
// Ordering: none, except by order() and wait(). An update is atomic with all others, of kernels and
// of queues.
//
// Every call returns ok; timed_out; device_lost, with a message, after which the queue is unusable;
// or the driver's error for this call, of which nothing is then in flight. After timed_out it may
// still be: targets and sources are not the caller's before a wait() has returned ok. The previous
// value of an update is written by the call or never.
//
// Thread safety: any thread.
class device_queue {
 public:
  virtual ~device_queue() = default;  // after wait()

  // The caller may reuse the source when it returns, which implies nothing about the target.
  virtual status put(void *target, const void *source, size_t size) = 0;
  // The bytes are there when it returns.
  virtual status get(void *target, const void *source, size_t size) = 0;
  // Target and source belong to the copy until wait().
  virtual status copy(void *target, const void *source, size_t size) = 0;
  virtual status copy_rows(void *target, const void *source, const row_shape &shape) = 0;

  // `before` receives the previous value, in memory of this process, when the call returns. Null
  // (never for fetch and compare_swap): it is not needed, and the call does not wait.
  virtual status update(void *target, const word_update &operation, uint64_t *before) = 0;

  // Operations started before it are performed before those started after it. Usually does not
  // wait.
  virtual status order() = 0;

  // Waits until all operations started before the call are performed: kernels, copies and
  // processors then see them. It does not wait for operations that others start meanwhile. The
  // deadline is monotonic_clock's; when it has passed, the call polls once. All other calls end by
  // the timeout with which the queue was opened, for each wait that they take.
  virtual status wait(uint64_t deadline_ns) = 0;
};

}  // namespace tanada::seams
