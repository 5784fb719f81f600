// products/shmem/collectives/group.hpp: who takes part in a collective operation, and by what means
// they reach one another.
#pragma once

#include <vector>

#include "onesided/job/context.hpp"
#include "onesided/job/job.hpp"

namespace tanada::shmem {

// Looked at now and then by a wait, which goes on while nothing keeps it from ending.
class wait_guard {
 public:
  virtual ~wait_guard() = default;
  // Anything but ok ends the wait with that status, unless what it waits for has come meanwhile.
  virtual status check() = 0;
  // The wait is over, whose check() was called.
  virtual void end() {}
};

// Of one PE. The context's errors and completions are those of the collectives alone: no operation
// of the program is in it.
struct wires {
  const pgas::job *job;
  pgas::context *context;
  // For what nobody waits for but who is signalled: of the same lane, one that can wait for its
  // completions. There is one where the fabric is ordered, so that signals of both come in the
  // order in which they were sent.
  pgas::context *signals = context;
  wait_guard *guard = nullptr;  // of waits for members; null: none

  bool is_flowing() const noexcept {
    return signals != context;
  }
};

inline constexpr uint64_t guard_period_first_ns = 20'000'000, guard_period_last_ns = 1'000'000'000;

// job::wait with a guard. What comes soon is found without a look at the clock; each of these looks
// costs what `ready` does.
template <class Ready>
status wait_guarded(const pgas::job &job, wait_guard *guard, Ready &&ready,
                    std::span<const std::byte> on, uint32_t quick_looks = 64) {
  if (guard == nullptr)
    return job.wait(ready, on);
  for (uint32_t i = 0; i < quick_looks; i++) {
    if (ready())
      return status::ok;
  }
  status code = job.wait(ready, on, job.time().now_ns() + guard_period_first_ns);
  if (code != status::timed_out)
    return code;
  for (uint64_t period_ns = guard_period_first_ns; code == status::timed_out;) {
    status const verdict = guard->check();
    if (verdict != status::ok) {
      code = ready() ? status::ok : verdict;
      break;
    }
    period_ns = std::min(2 * period_ns, guard_period_last_ns);
    code = job.wait(ready, on, job.time().now_ns() + period_ns);
  }
  guard->end();
  return code;
}

// PEs in the order of their numbers in the group.
struct group {
  std::vector<pgas::pe_index> pes;
  int32_t me = 0;  // this PE's number in it

  int32_t count() const noexcept {
    return int32_t(pes.size());
  }
  pgas::pe_index pe(int32_t member) const noexcept {
    return pes[size_t(member)];
  }
  // `distance` members behind this one, around the end; distance < count().
  int32_t behind(int32_t distance) const noexcept {
    return me + distance < count() ? me + distance : me + distance - count();
  }
  int32_t before(int32_t distance) const noexcept {
    return me >= distance ? me - distance : me - distance + count();
  }
};

// Elements that one of `count` members works on. Parts differ by one unit at most, of `unit`
// elements but the last.
struct part {
  size_t first, count;

  static part of(size_t elements, size_t unit, int32_t member, int32_t members) noexcept {
    size_t const units = (elements + unit - 1) / unit;
    size_t const begin = std::min(elements, units * size_t(member) / size_t(members) * unit);
    size_t const end = std::min(elements, units * size_t(member + 1) / size_t(members) * unit);
    return {begin, end - begin};
  }
};

}  // namespace tanada::shmem
