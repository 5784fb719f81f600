// backends/hostgpu/host_queue.hpp: the queue of the host executor: its device memory is memory, and
// processors do what is asked at once.
#pragma once

#include "backends/hostgpu/host_blocks.hpp"
#include "seams/gpu/device_queue.hpp"

namespace tanada::port {

class host_queue final : public device_queue {
 public:
  explicit host_queue(const host_blocks &blocks) : blocks_{blocks} {}  // which outlive it

  status put(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status get(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status copy(void *target, const void *source, size_t size) override {
    return move(target, source, size);
  }
  status copy_rows(void *target, const void *source, const row_shape &shape) override;
  status update(void *target, const word_update &what, uint64_t *before) override;
  status order() override;
  status wait(uint64_t deadline_ns) override;

 private:
  status move(void *target, const void *source, size_t size);

  const host_blocks &blocks_;
};

}  // namespace tanada::port
