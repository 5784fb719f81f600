// Construction of the runtime from the parts that init has opened.
#include "products/shmem/runtime.hpp"

#include "products/shmem/heap.hpp"

namespace tanada::shmem {

constinit runtime *current_runtime = nullptr;

runtime::runtime(parts components, const settings &chosen)
    : launcher{std::move(components.launcher)},
      device{std::move(components.device)},
      job{std::move(components.job)},
      default_context{*job, components.endpoint, std::move(components.queue)},
      options{chosen},
      heap{std::make_unique<symmetric_heap>(job->heap(), job->heap_alignment())} {
  TND_ASSERT(launcher != nullptr && device.get() == options.job.device);
  if (!device)
    return;
  device_heap = std::make_unique<symmetric_heap>(job->device_heap());
  poll_context =
      std::make_unique<onesided::context>(job->map(), nullptr, std::move(components.poll_queue));
}

runtime::~runtime() = default;

}  // namespace tanada::shmem
