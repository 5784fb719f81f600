#include "backends/cuda/queue.hpp"

#include <atomic>

#include "backends/cuda/device_queue.hpp"

namespace tanada::port::cuda {
namespace {

// Queues share so many kernels a device: more would take work queues of the device from the
// program's streams.
constexpr uint32_t service_count = 4;
std::atomic<uint32_t> queue_count{0};

}  // namespace

tnd_status queue_open(uint32_t device_index, uint64_t timeout_ns, tnd_gpu_queue **queue) {
  service *by = nullptr;
  uint32_t const index = queue_count.fetch_add(1, std::memory_order_relaxed) % service_count;
  if (tnd_status const code = service::get(device_index, index, by); code != TND_OK)
    return code;
  auto *const made = new tnd_gpu_queue{*by, timeout_ns};
  if (tnd_status const code = made->open(); code != TND_OK) {
    delete made;
    return code;
  }
  *queue = made;
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
tnd_status queue_copy_rows(tnd_gpu_queue *queue, void *target, const void *source,
                           const tnd_gpu_rows *shape) {
  return queue->copy_rows(target, source, *shape);
}
tnd_status queue_update(tnd_gpu_queue *queue, void *target, const tnd_gpu_update *what,
                        uint64_t *before) {
  return queue->update(target, *what, before);
}
tnd_status queue_order(tnd_gpu_queue *queue) {
  return queue->order();
}
tnd_status queue_wait(tnd_gpu_queue *queue, uint64_t deadline_ns) {
  return queue->wait(deadline_ns);
}

}  // namespace tanada::port::cuda
