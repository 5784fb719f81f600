#include "shmem/runtime.hpp"

#include <cstring>

#include "shmem/fatal.hpp"
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

void require_equal(runtime &current, const char *call, const char *argument, uint64_t value) {
  if (current.job->count() == 1) return;
  static uint64_t number = 0;  // of calls: the same in all PEs, as they are collective
  std::string const key = "shmem-equal-" + std::to_string(number++);
  uint64_t const timeout_ns = current.options.job.timeout_ns;
  auto &launcher = *current.launcher;
  status code = launcher.publish(key, std::as_bytes(std::span{&value, 1}));
  if (code == status::ok) code = launcher.exchange(timeout_ns);
  if (code != status::ok) fatal(code, {call, nullptr, sizeof value, int(current.job->me())});
  for (pgas::pe_index pe = 0; pe < current.job->count(); pe++) {
    auto const theirs = launcher.lookup(pe, key);
    if (!theirs.ok()) fatal(theirs.error(), {call, nullptr, sizeof value, int(pe)});
    uint64_t other = 0;
    auto const bytes = result{theirs}.value();
    std::memcpy(&other, bytes.data(), std::min(bytes.size(), sizeof other));
    if (other != value) {
      fatal(call, "%s is %llu here and %llu in PE %d: it must be equal in all", argument,
            static_cast<unsigned long long>(value), static_cast<unsigned long long>(other), int(pe));
    }
  }
}

}  // namespace tanada::shmem
