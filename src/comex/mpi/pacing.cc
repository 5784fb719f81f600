#include "comex/mpi/pacing.hpp"

#include <sched.h>

#include <algorithm>

#include "base/log.hpp"
#include "comex/mpi/lent.hpp"
#include "comex/swapping.hpp"

namespace tanada::comex {
namespace {

constexpr uint32_t looks_roomy = 2000, looks_crowded = 20;
constexpr uint64_t yield_ns_roomy = 2'000'000, yield_ns_crowded = 100'000;
constexpr uint64_t sleep_ns_first = 20'000, sleep_ns_last = 1'000'000;

// A look of one wait at MPI: whether it is over.
struct look {
  MPI_Request &request;
  MPI_Status *about;
  int &code;

  bool operator()() const {
    MPI_Request const before = request;
    int is_done = 0;
    code = PMPI_Test(&request, &is_done, about);
    if (is_done != 0) request_ended(before);
    return is_done != 0 || code != MPI_SUCCESS;
  }
};

}  // namespace

status wait_away(const std::function<bool()> &is_over, engine &self, swapping &away) {
  constexpr uint64_t look_ns = 30'000;
  auto &time = self.job().time();
  for (uint64_t const until_ns = time.now_ns() + look_ns; time.now_ns() < until_ns;) {
    if (is_over()) return status::ok;
  }
  away.leave();
  for (uint64_t sleep_ns = sleep_ns_first; !is_over(); sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_last)) {
    self.job().attend();
    away.attend();
    if (away.failure() != nullptr) return away.failed();
    time.sleep_ns(sleep_ns);
  }
  return away.enter();
}

status wait_for(MPI_Request &request, MPI_Status *about, int &code, engine *self, uint64_t deadline_ns) {
  look const is_over{request, about, code};
  if (self != nullptr && self->away() != nullptr) return wait_away(is_over, *self, *self->away());
  const pgas::job *const job = self == nullptr ? nullptr : &self->job();
  auto &time = port::monotonic_clock();
  // Before there is a job nobody knows how many share the processors.
  bool const is_crowded = job == nullptr || job->is_crowded();
  uint32_t const looks = is_crowded ? looks_crowded : looks_roomy;
  uint64_t since_ns = 0, sleep_ns = sleep_ns_first;
  for (uint32_t round = 0;; round++) {
    if (is_over()) return status::ok;
    if (job != nullptr) job->attend();
    if (round < looks) continue;
    uint64_t const now_ns = time.now_ns();
    if (now_ns >= deadline_ns) return status::timed_out;
    if (since_ns == 0) since_ns = now_ns;
    if (now_ns - since_ns < (is_crowded ? yield_ns_crowded : yield_ns_roomy)) {
      sched_yield();
      continue;
    }
    time.sleep_ns(std::min(sleep_ns, deadline_ns - now_ns));
    sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_last);
  }
}

}  // namespace tanada::comex
