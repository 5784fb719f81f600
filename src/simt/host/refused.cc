#include "simt/host/refused.hpp"

#include <mutex>
#include <utility>

namespace tanada::simt::host {
namespace {

struct refusal {
  std::mutex mutex;
  std::string why;  // guarded by mutex
};
refusal &first() {
  static refusal &instance = *new refusal;  // programs launch until they exit
  return instance;
}

}  // namespace

void refuse_launch(const char *why) noexcept {
  std::lock_guard const lock{first().mutex};
  if (first().why.empty()) first().why = why;
}

std::string take_refused_launch() {
  std::lock_guard const lock{first().mutex};
  return std::exchange(first().why, {});
}

}  // namespace tanada::simt::host
