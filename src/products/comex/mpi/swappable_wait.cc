// products/comex/mpi/swappable_wait.cc: polls MPI while this process's memory may be swapped out.
#include "products/comex/mpi/swappable_wait.hpp"

#include <algorithm>

#include "products/comex/mpi/mpi_buffer_loans.hpp"
#include "products/comex/mpi/backoff_wait.hpp"
#include "products/comex/process_swapper.hpp"

namespace tanada::comex {

status wait_swappable(const std::function<bool()> &is_over,
                      engine &self,
                      process_swapper &swapper) {
  constexpr uint64_t spin_ns = 30'000, sleep_ns_first = 20'000, sleep_ns_last = 1'000'000,
                     sleep_ns_swapped_out = 4'000'000;
  auto &time = self.job().time();
  if (swapper.is_own_thread() && swapper.is_running())
    TND_TRY(swapper.yield_if_requested());  // a program that finds its messages at once never waits
                                            // for long
  for (uint64_t const until_ns = time.now_ns() + spin_ns; time.now_ns() < until_ns;) {
    if (is_over())
      return status::ok;
  }
  swapper.begin_wait();
  for (uint64_t sleep_ns = sleep_ns_first; !is_over();) {
    self.job().progress();
    swapper.progress();
    if (swapper.failure() != nullptr)
      return swapper.failed();
    time.sleep_ns(sleep_ns);
    // Swapped-out processes have nothing to report, and there are many of them.
    sleep_ns = std::min(sleep_ns + sleep_ns / 2,
                        swapper.is_swapped_out() ? sleep_ns_swapped_out : sleep_ns_last);
  }
  return swapper.end_wait();
}

status wait_for_request(MPI_Request &request, MPI_Status *about, int &code, engine *self) {
  MPI_Request const before = request;
  auto const look = [&] {
    int is_done = 0;
    code = PMPI_Test(&request, &is_done, about);
    return is_done != 0 || code != MPI_SUCCESS;
  };
  auto const waited =
      self != nullptr && self->swapper() != nullptr
          ? wait_swappable(look, *self, *self->swapper())
          : wait_with_backoff(request, about, code, self == nullptr ? nullptr : &self->job());
  if (waited == status::ok && code == MPI_SUCCESS)
    request_ended(before);
  return waited;
}

}  // namespace tanada::comex
