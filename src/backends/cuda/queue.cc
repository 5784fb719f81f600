// The plugin's queue functions, which forward to tnd_gpu_queue.
#include "backends/cuda/queue.hpp"

#include <atomic>

#include "backends/cuda/device_queue.hpp"
#include "core/base/assert.hpp"

namespace tanada::backends::cuda {
namespace {

// Service kernels of a device, shared by its queues. More kernels would take device work queues
// away from the program's streams.
constexpr uint32_t service_count = 4;
std::atomic<uint32_t> queue_count{0};

}  // namespace

tnd_status queue_open(uint32_t device_index, uint64_t timeout_ns, tnd_gpu_queue **queue) {
  TND_ASSERT(queue != nullptr);
  service *kernel_service = nullptr;
  uint32_t const index = queue_count.fetch_add(1, std::memory_order_relaxed) % service_count;
  if (tnd_status const code = service::get(device_index, index, kernel_service); code != TND_OK)
    return code;
  auto *const new_queue = new tnd_gpu_queue{*kernel_service, timeout_ns};
  if (tnd_status const code = new_queue->open(); code != TND_OK) {
    delete new_queue;
    return code;
  }
  *queue = new_queue;
  return TND_OK;
}

void queue_close(tnd_gpu_queue *queue) {
  delete queue;
}

tnd_status queue_put(tnd_gpu_queue *queue, void *target, const void *source, size_t size) {
  return queue->put(target, source, size);
}
tnd_status queue_get(tnd_gpu_queue *queue, void *target, const void *source, size_t size) {
  return queue->get(target, source, size);
}
tnd_status queue_copy(tnd_gpu_queue *queue, void *target, const void *source, size_t size) {
  return queue->copy(target, source, size);
}
tnd_status queue_copy_rows(tnd_gpu_queue *queue,
                           void *target,
                           const void *source,
                           const tnd_gpu_rows *shape) {
  return queue->copy_rows(target, source, *shape);
}
tnd_status queue_update(tnd_gpu_queue *queue,
                        void *target,
                        const tnd_gpu_update *request,
                        uint64_t *before) {
  return queue->update(target, *request, before);
}
tnd_status queue_order(tnd_gpu_queue *queue) {
  return queue->order();
}
tnd_status queue_wait(tnd_gpu_queue *queue, uint64_t deadline_ns) {
  return queue->wait(deadline_ns);
}

}  // namespace tanada::backends::cuda
