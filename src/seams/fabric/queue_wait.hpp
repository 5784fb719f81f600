// seams/fabric/queue_wait.hpp: what our provider o2g offers for a completion queue beyond
// libfabric: waits with a resolution of nanoseconds, by fi_open_ops(&queue->fid, queue_wait_name,
// 0, &ops, nullptr). fi_cq_sread counts milliseconds. A descriptor costs two system calls for each
// completion, and two threads wake for the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

struct fid_cntr;
struct fid_cq;

namespace tanada::seams {

inline constexpr const char *queue_wait_name = "tanada_queue_wait";

struct queue_wait_ops {
  size_t size;  // of this structure
  // Waits until there is something to read or fi_cq_signal() is called: 0. -FI_EAGAIN at the
  // deadline (absolute, monotonic_clock).
  int (*wait)(fid_cq *queue, uint64_t deadline_ns);
  // The same, or until the counter, of an endpoint of this queue, exceeds `last_count`.
  int (*wait_for_count)(fid_cq *queue,
                        fid_cntr *counter,
                        uint64_t last_count,
                        uint64_t deadline_ns);
};
static_assert(offsetof(queue_wait_ops, size) == 0);

}  // namespace tanada::seams
