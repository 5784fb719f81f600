#include "products/shmem/runtime.hpp"

#include "products/shmem/heap.hpp"

namespace tanada::shmem {

constinit runtime *current_runtime = nullptr;

runtime::runtime(parts made, const settings &chosen)
    : launcher{std::move(made.launcher)},
      device{std::move(made.device)},
      job{std::move(made.job)},
      initial{*job, made.endpoint, std::move(made.queue)},
      options{chosen},
      heap{std::make_unique<symmetric_heap>(job->heap(), job->heap_alignment())} {
  if (!device)
    return;
  device_heap = std::make_unique<symmetric_heap>(job->device_heap());
  looks = std::make_unique<pgas::context>(job->map(), nullptr, std::move(made.looks));
}

runtime::~runtime() = default;

}  // namespace tanada::shmem
