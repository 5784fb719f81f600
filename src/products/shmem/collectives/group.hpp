// products/shmem/collectives/group.hpp: the members of a collective operation, and the channel by
// which they communicate.
#pragma once

#include <vector>

#include "core/base/assert.hpp"
#include "onesided/job/context.hpp"
#include "onesided/job/job.hpp"

namespace tanada::shmem {

// Checked periodically during a wait, which continues while nothing prevents it from ending.
class wait_guard {
 public:
  virtual ~wait_guard() = default;
  // Any status but ok ends the wait with that status, unless its condition has become true
  // meanwhile.
  virtual status check() = 0;
  // Called at the end of a wait for which check() was called.
  virtual void end() {}
};

// The contexts of one PE for collectives. Only collectives use them: no operation of the program is
// in them.
struct channel_ref {
  const onesided::job *job;
  onesided::context *context;
  // For signals for whose completion only the receiver waits: a context of the same lane that can
  // wait for its completions. It is a separate context only on an ordered fabric, where signals of
  // both contexts arrive in the order in which they were sent.
  onesided::context *signals = context;
  wait_guard *guard = nullptr;  // of waits for members; may be null

  bool is_flowing() const noexcept {
    return signals != context;
  }
};

inline constexpr uint64_t guard_period_first_ns = 20'000'000, guard_period_last_ns = 1'000'000'000;
static_assert(guard_period_first_ns <= guard_period_last_ns);

// Waits as job::wait does, with a guard. The first polls do not read the clock; each costs one call
// of `ready`.
template <class Ready>
status wait_guarded(const onesided::job &job,
                    wait_guard *guard,
                    Ready &&ready,
                    std::span<const std::byte> memory,
                    uint32_t quick_polls = 64) {
  if (guard == nullptr)
    return job.wait(ready, memory);
  for (uint32_t i = 0; i < quick_polls; i++) {
    if (ready())
      return status::ok;
  }
  status code = job.wait(ready, memory, job.time().now_ns() + guard_period_first_ns);
  if (code != status::timed_out)
    return code;
  for (uint64_t period_ns = guard_period_first_ns; code == status::timed_out;) {
    status const guard_status = guard->check();
    if (guard_status != status::ok) {
      code = ready() ? status::ok : guard_status;
      break;
    }
    period_ns = std::min(2 * period_ns, guard_period_last_ns);
    code = job.wait(ready, memory, job.time().now_ns() + period_ns);
  }
  guard->end();
  return code;
}

// PEs in the order of their member numbers.
struct group {
  std::vector<onesided::pe_index> pes;
  int32_t me = 0;  // this PE's member number

  int32_t count() const noexcept {
    return int32_t(pes.size());
  }
  onesided::pe_index pe(int32_t member) const noexcept {
    TND_ASSERT(size_t(member) < pes.size());
    return pes[size_t(member)];
  }
  // Returns the member `distance` after this one, wrapping around.
  int32_t next(int32_t distance) const noexcept {
    TND_ASSERT(uint32_t(distance) < uint32_t(count()));
    return me + distance < count() ? me + distance : me + distance - count();
  }
  int32_t prev(int32_t distance) const noexcept {
    TND_ASSERT(uint32_t(distance) < uint32_t(count()));
    return me >= distance ? me - distance : me - distance + count();
  }
};

// The elements that one of `count` members works on. Parts are multiples of `unit` elements, except
// the last, and differ by at most one unit.
struct part {
  size_t first, count;

  static part for_member(size_t elements, size_t unit, int32_t member, int32_t members) noexcept {
    TND_ASSERT(unit != 0 && uint32_t(member) < uint32_t(members));
    size_t const units = (elements + unit - 1) / unit;
    size_t const begin = std::min(elements, units * size_t(member) / size_t(members) * unit);
    size_t const end = std::min(elements, units * size_t(member + 1) / size_t(members) * unit);
    return {begin, end - begin};
  }
};

}  // namespace tanada::shmem
