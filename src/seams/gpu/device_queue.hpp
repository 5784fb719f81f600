// seams/gpu/device_queue.hpp: one-sided operations that host code starts on device memory: that of
// the device, and others' that is mapped for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "seams/fabric/fabric.hpp"
#include <tanada/device/detail/base/status.hpp>

namespace tanada::port {

// What becomes of one word, u32 or u64, aligned to its size.
struct word_update {
  fabric_atomic kind;
  fabric_element element;
  uint64_t operand = 0, compare = 0;
};

// `count` rows of `row_size` bytes, whose beginnings are so many bytes apart.
struct row_shape {
  size_t row_size, count;
  ptrdiff_t target_stride, source_stride;
};

// The operations of one context. Targets and sources may be memory of a device or of this process;
// ranges do not overlap.
//
// Ordering: none, but what order() and wait() say. An update is performed at once for all others,
// of kernels or of queues.
//
// Returns, all: ok; timed_out; device_lost, with a message, after which the queue is of no more
// use; or what the driver said of this call, of which then nothing is under way. After timed_out it
// may still be: targets and sources are not the caller's before a wait() has returned ok; but what
// was there before an update is written by the call or never.
//
// Thread safety: any thread.
class device_queue {
 public:
  virtual ~device_queue() = default;  // wait() has returned

  // The source is the caller's again when it returns, which says nothing of the target.
  virtual status put(void *target, const void *source, size_t size) = 0;
  // The bytes are there when it returns.
  virtual status get(void *target, const void *source, size_t size) = 0;
  // Target and source belong to the copy until wait().
  virtual status copy(void *target, const void *source, size_t size) = 0;
  virtual status copy_rows(void *target, const void *source, const row_shape &shape) = 0;

  // `before`: what was there, in memory of this process, when it returns. Null: nobody asks (never
  // for fetch and compare_swap), and it does not wait.
  virtual status update(void *target, const word_update &what, uint64_t *before) = 0;

  // What was started before is performed before what is started after. As a rule it does not wait.
  virtual status order() = 0;

  // What was started before the call is performed: whoever looks from now on, kernels, copies and
  // processors, sees it. What others start meanwhile is not waited for. The deadline is
  // monotonic_clock's; when it has passed it looks once. All other calls end by the timeout that
  // the queue was opened with, for each wait that they take.
  virtual status wait(uint64_t deadline_ns) = 0;
};

}  // namespace tanada::port
