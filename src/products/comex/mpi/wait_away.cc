#include "products/comex/mpi/wait_away.hpp"

#include <algorithm>

#include "products/comex/mpi/lent.hpp"
#include "products/comex/mpi/pacing.hpp"
#include "products/comex/swapping.hpp"

namespace tanada::comex {

status wait_away(const std::function<bool()> &is_over, engine &self, swapping &away) {
  constexpr uint64_t look_ns = 30'000, sleep_ns_first = 20'000, sleep_ns_last = 1'000'000,
                     sleep_ns_away = 4'000'000;
  auto &time = self.job().time();
  if (away.is_own_thread() && away.is_in())
    TND_TRY(away.offer());  // as messages that are there at once never wait for long
  for (uint64_t const until_ns = time.now_ns() + look_ns; time.now_ns() < until_ns;) {
    if (is_over())
      return status::ok;
  }
  away.leave();
  for (uint64_t sleep_ns = sleep_ns_first; !is_over();) {
    self.job().attend();
    away.attend();
    if (away.failure() != nullptr)
      return away.failed();
    time.sleep_ns(sleep_ns);
    // Who is away has nothing to tell, and there are many of them.
    sleep_ns = std::min(sleep_ns + sleep_ns / 2, away.is_away() ? sleep_ns_away : sleep_ns_last);
  }
  return away.enter();
}

status wait_for(MPI_Request &request, MPI_Status *about, int &code, engine *self) {
  MPI_Request const before = request;
  auto const look = [&] {
    int is_done = 0;
    code = PMPI_Test(&request, &is_done, about);
    return is_done != 0 || code != MPI_SUCCESS;
  };
  auto const waited =
      self != nullptr && self->away() != nullptr
          ? wait_away(look, *self, *self->away())
          : wait_paced(request, about, code, self == nullptr ? nullptr : &self->job());
  if (waited == status::ok && code == MPI_SUCCESS)
    request_ended(before);
  return waited;
}

}  // namespace tanada::comex
