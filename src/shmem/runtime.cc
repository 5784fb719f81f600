#include "shmem/runtime.hpp"

#include "shmem/heap.hpp"

namespace tanada::shmem {

constinit runtime *current_runtime = nullptr;

runtime::runtime(std::unique_ptr<port::bootstrap> started_by, std::unique_ptr<pgas::job> started, pgas::lane *endpoint,
                 const settings &chosen)
    : launcher{std::move(started_by)},
      job{std::move(started)},
      initial{*job, endpoint},
      options{chosen},
      heap{std::make_unique<symmetric_heap>(job->heap())} {}

runtime::~runtime() = default;

}  // namespace tanada::shmem
