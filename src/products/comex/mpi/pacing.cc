#include "products/comex/mpi/pacing.hpp"

#include <algorithm>

#include "seams/os/yield.hpp"

namespace tanada::comex {
namespace {

constexpr uint32_t looks_roomy = 2000, looks_crowded = 20;
constexpr uint64_t yield_ns_roomy = 2'000'000, yield_ns_crowded = 100'000;
constexpr uint64_t sleep_ns_first = 20'000, sleep_ns_last = 1'000'000;

}  // namespace

status wait_paced(MPI_Request &request, MPI_Status *about, int &code, const pgas::job *job,
                  uint64_t deadline_ns) {
  auto &time = port::monotonic_clock();
  // Before there is a job nobody knows how many share the processors.
  bool const is_crowded = job == nullptr || job->is_crowded();
  uint32_t const looks = is_crowded ? looks_crowded : looks_roomy;
  uint64_t since_ns = 0, sleep_ns = sleep_ns_first;
  for (uint32_t round = 0;; round++) {
    int is_done = 0;
    code = PMPI_Test(&request, &is_done, about);
    if (is_done != 0 || code != MPI_SUCCESS)
      return status::ok;
    if (job != nullptr)
      job->attend();
    if (round < looks)
      continue;
    uint64_t const now_ns = time.now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;
    if (since_ns == 0)
      since_ns = now_ns;
    if (now_ns - since_ns < (is_crowded ? yield_ns_crowded : yield_ns_roomy) &&
        port::thread_yield())
      continue;
    time.sleep_ns(std::min(sleep_ns, deadline_ns - now_ns));
    sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_last);
  }
}

}  // namespace tanada::comex
