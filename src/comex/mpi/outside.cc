#include "comex/mpi/outside.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "base/log.hpp"

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
