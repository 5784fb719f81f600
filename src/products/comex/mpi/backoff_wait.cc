// products/comex/mpi/backoff_wait.cc: polls MPI, then yields, then sleeps for longer and longer.
#include "products/comex/mpi/backoff_wait.hpp"

#include <algorithm>

#include "seams/os/yield.hpp"

namespace tanada::comex {
namespace {

constexpr uint32_t poll_count_idle = 2000, poll_count_busy = 20;
constexpr uint64_t yield_ns_idle = 2'000'000, yield_ns_busy = 100'000;
constexpr uint64_t sleep_ns_first = 20'000, sleep_ns_last = 1'000'000;
static_assert(sleep_ns_first <= sleep_ns_last && yield_ns_busy <= yield_ns_idle);

}  // namespace

status wait_with_backoff(MPI_Request &request,
                         MPI_Status *about,
                         int &code,
                         const onesided::job *job,
                         uint64_t deadline_ns) {
  auto &time = seams::monotonic_clock();
  // Before there is a job, the number of processes per processor is unknown: assume
  // oversubscription.
  bool const is_oversubscribed = job == nullptr || job->is_oversubscribed();
  uint32_t const poll_count = is_oversubscribed ? poll_count_busy : poll_count_idle;
  uint64_t since_ns = 0, sleep_ns = sleep_ns_first;
  for (uint32_t round = 0;; round++) {
    int is_done = 0;
    code = PMPI_Test(&request, &is_done, about);
    if (is_done != 0 || code != MPI_SUCCESS)
      return status::ok;
    if (job != nullptr)
      job->progress();
    if (round < poll_count)
      continue;
    uint64_t const now_ns = time.now_ns();
    if (now_ns >= deadline_ns)
      return status::timed_out;
    if (since_ns == 0)
      since_ns = now_ns;
    if (now_ns - since_ns < (is_oversubscribed ? yield_ns_busy : yield_ns_idle) &&
        seams::thread_yield())
      continue;
    time.sleep_ns(std::min(sleep_ns, deadline_ns - now_ns));
    sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_last);
  }
}

}  // namespace tanada::comex
