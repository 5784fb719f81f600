// backends/hostgpu/host_queue.hpp: the queue of the host executor. Its device memory is host
// memory, and processors carry out each request immediately.
#pragma once

#include "backends/hostgpu/host_blocks.hpp"
#include "seams/gpu/device_queue.hpp"

namespace tanada::backends {

class host_queue final : public seams::device_queue {
 public:
  explicit host_queue(const host_blocks &blocks) : blocks_{blocks} {}  // `blocks` outlive the queue

  status put(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status get(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status copy(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status copy_rows(void *target, const void *source, const seams::row_shape &shape) override;
  status update(void *target, const seams::word_update &request, uint64_t *before) override;
  status order() override;
  status wait(uint64_t deadline_ns) override;

 private:
  status move(void *target, const void *source, size_t size);

  const host_blocks &blocks_;
};

}  // namespace tanada::backends
