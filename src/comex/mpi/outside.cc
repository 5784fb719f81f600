#include "comex/mpi/outside.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/log.hpp"
#include "comex/mpi/pacing.hpp"

namespace tanada::comex {
namespace {

struct started_requests {
  std::mutex mutex;
  std::atomic<size_t> count{0};
  std::vector<MPI_Request> all;  // guarded by mutex
};

started_requests &started() {
  static auto &made = *new started_requests;  // programs may end requests while they exit
  return made;
}

bool is_any_swappable(const swapping &away, std::initializer_list<const void *> buffers) noexcept {
  return std::any_of(buffers.begin(), buffers.end(), [&](const void *each) { return away.is_swappable(each, 1); });
}

}  // namespace

void outside_wait::begin(swapping &away, std::initializer_list<const void *> buffers) noexcept {
  away_ = &away;
  is_holding_ = is_any_swappable(away, buffers);
  if (is_holding_) away.hold();
  has_left_ = away.is_own_thread();
  if (has_left_) away.leave_alone();
}

void outside_wait::end() noexcept {
  if (has_left_) must("MPI", away_->enter_again());
  if (is_holding_) away_->let_go();
}

void outside_wait::gather(MPI_Comm communicator) const noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  int is_over = PMPI_Ibarrier(communicator, &request) == MPI_SUCCESS ? 0 : 1;  // what is wrong the call itself says
  constexpr uint64_t sleep_ns_first = 10'000, sleep_ns_last = 1'000'000;
  for (uint64_t sleep_ns = sleep_ns_first; is_over == 0; sleep_ns = std::min(sleep_ns + sleep_ns / 2, sleep_ns_last)) {
    if (PMPI_Test(&request, &is_over, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
    if (is_over == 0) port::monotonic_clock().sleep_ns(sleep_ns);
  }
}

bool is_paced() noexcept {
  swapping *const away = current_swapping();
  return away != nullptr && away->is_own_thread();
}

void look_until(const std::function<bool()> &is_over, std::initializer_list<const void *> buffers) noexcept {
  auto &away = *current_swapping();
  bool const is_holding = is_any_swappable(away, buffers);
  if (is_holding) away.hold();
  must("MPI", wait_away(is_over, engine_of_swapping(), away));
  if (is_holding) away.let_go();
}

int start_and_wait(const std::function<int(MPI_Request *)> &start, MPI_Status *about, std::initializer_list<const void *> buffers) noexcept {
  MPI_Request request = MPI_REQUEST_NULL;
  int code = start(&request), is_over = 0;
  if (code != MPI_SUCCESS) return code;
  look_until([&] {
    code = PMPI_Test(&request, &is_over, about);
    return is_over != 0 || code != MPI_SUCCESS;
  }, buffers);
  return code;
}

bool sees_calls() noexcept {
  if (dlsym(RTLD_DEFAULT, "MPI_Barrier") == reinterpret_cast<void *>(&MPI_Barrier)) return true;
  (void)fail(status::not_supported,
             "with TND_COMEX_MEMORY libcomex has to see the program's calls of MPI: link -lcomex before MPI's libraries, or start it with "
             "LD_PRELOAD=libcomex.so");
  return false;
}

void make_way_for(swapping &away) noexcept {
  if (away.is_own_thread() && away.is_in()) must("MPI", away.offer());
}

void request_started(MPI_Request request, std::initializer_list<const void *> buffers) noexcept {
  swapping *const away = current_swapping();
  if (away == nullptr || request == MPI_REQUEST_NULL || !is_any_swappable(*away, buffers)) return;
  auto &known = started();
  std::lock_guard const lock{known.mutex};
  known.all.push_back(request);
  known.count = known.all.size();
  away->hold();
}

void request_ended(MPI_Request request) noexcept {
  auto &known = started();
  if (known.count == 0 || request == MPI_REQUEST_NULL) return;
  std::lock_guard const lock{known.mutex};
  auto const found = std::find(known.all.begin(), known.all.end(), request);
  if (found == known.all.end()) return;
  *found = known.all.back();
  known.all.pop_back();
  known.count = known.all.size();
  if (swapping *const away = current_swapping(); away != nullptr) away->let_go();
}

bool has_requests() noexcept { return started().count != 0; }

void memory_given(const void *memory) noexcept {
  if (swapping *const away = current_swapping(); away != nullptr && is_any_swappable(*away, {memory})) away->hold();
}

}  // namespace tanada::comex
