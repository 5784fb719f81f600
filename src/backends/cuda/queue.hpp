// backends/cuda/queue.hpp: queues of operations on device memory: functions of the plugin
// (seams/gpu/gpu_plugin.h).
#pragma once

#include "seams/gpu/gpu_plugin.h"

namespace tanada::backends::cuda {

tnd_status queue_open(uint32_t device_index, uint64_t timeout_ns, tnd_gpu_queue **queue);
void queue_close(tnd_gpu_queue *queue);
tnd_status queue_put(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
tnd_status queue_get(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
tnd_status queue_copy(tnd_gpu_queue *queue, void *target, const void *source, size_t size);
tnd_status queue_copy_rows(tnd_gpu_queue *queue,
                           void *target,
                           const void *source,
                           const tnd_gpu_rows *shape);
tnd_status queue_update(tnd_gpu_queue *queue,
                        void *target,
                        const tnd_gpu_update *request,
                        uint64_t *before);
tnd_status queue_order(tnd_gpu_queue *queue);
tnd_status queue_wait(tnd_gpu_queue *queue, uint64_t deadline_ns);

}  // namespace tanada::backends::cuda
