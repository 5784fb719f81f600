// tanada/device/detail/shmem/calls/wait.hpp: waits for words of this PE, and ordering. Not for
// direct inclusion.
#pragma once

#include "atomics.hpp"

namespace tanada::shmem::device {

// Numbers of SHMEM_CMP_*.
template <class T>
TND_DEVICE inline bool holds(T value, int comparison, T operand) {
  switch (comparison) {
    case 0:
      return value == operand;
    case 1:
      return value != operand;
    case 2:
      return value > operand;
    case 3:
      return value >= operand;
    case 4:
      return value < operand;
    default:
      return value <= operand;
  }
}

// Limits the wait of one thread: until a PE fails or the timeout expires. Checked after a number of
// fruitless polls.
class wait_limit {
 public:
  static constexpr u32 polls_per_round = 64, polls_late = 2,
                       late_round = 64;  // late: after this many rounds, there is a pause before
                                         // each round

  // The number of polls until the next call of next().
  TND_DEVICE u32 poll_count() const {
    return TND_SIMT_CUDA != 0 && round_ >= late_round ? polls_late : polls_per_round;
  }

  // Call after that many polls. Stop waiting unless it returns ok.
  TND_DEVICE status next() {
    u32 const round = round_++;
    simt::pause_late(round * polls_per_round);
    if (round >= late_round && round % polls_per_round != 0)
      return status::ok;
    if (simt::system_atomic<u64>(job_view().live->failed_pe).load_relaxed() != 0)
      return status::peer_lost;
    u64 const timeout_ns = job_view().timeout_ns;
    if (timeout_ns == ~u64{0})
      return status::ok;
    if (deadline_ns_ == 0)
      deadline_ns_ = deadline_of(timeout_ns);
    return simt::now_ns() >= deadline_ns_ ? status::timed_out : status::ok;
  }

  // Call between two polls: the host executor's threads share processors.
  TND_DEVICE static void between_polls() {
    if constexpr (TND_SIMT_CUDA == 0)
      simt::pause();
  }

 private:
  u32 round_ = 0;
  u64 deadline_ns_ = 0;
};

template <class T>
TND_DEVICE inline T load_acquire(const T *addr) {
  using word = word_for<T>;
  return simt::from_word<T>(
      simt::system_atomic<word>(*reinterpret_cast<word *>(const_cast<T *>(addr))).load_acquire());
}

template <class T>
TND_DEVICE inline status check_wait(const T *addr, int comparison) {
  if (word_of(addr) % sizeof(T) != 0)
    return status::fault;
  if (u32(comparison) > 5)
    return status::invalid;
  return is_symmetric(addr, sizeof(T)) ? status::ok : status::range;
}

// Poll `poll_count` times at most. Returns false if the condition was not met, whatever `last` is.
// Each instruction of the loop, and after it, adds to the latency between a word's arrival and the
// kernel's next step.
template <class T>
TND_DEVICE inline bool poll_often(
    const T *addr, int comparison, T operand, u32 poll_count, T &last) {
  bool is_met = false;
  TND_NO_UNROLL
  do {
    last = simt::from_word<T>(simt::watch_global(reinterpret_cast<const word_for<T> *>(addr)));
    is_met = holds(last, comparison, operand);
    if (!is_met)
      wait_limit::between_polls();
  } while (!is_met & (--poll_count != 0));
  return poll_count != 0;
}

template <class T>
struct wait_result {
  status code;
  T last;
};

// The rest of a wait after the first fruitless polls, kept out of line. `last`: the last value
// seen.
template <class T>
TND_DEVICE_CALL inline wait_result<T> wait_long(const T *addr, int comparison, T operand, T last) {
  wait_result<T> result{status::ok, last};
  for (wait_limit limit; !holds(result.last, comparison, operand);) {
    result.code = limit.next();
    if (result.code != status::ok)
      break;
    (void)poll_often(addr, comparison, operand, limit.poll_count(), result.last);
  }
  return result;
}

// One thread. `fails` is called with the reason if the wait fails.
template <class T, class Fails>
TND_DEVICE inline status wait_by_one(
    const T *addr, int comparison, T operand, T &last, Fails fails) {
  status code = status::ok;
  if (!__builtin_expect(poll_often(addr, comparison, operand, wait_limit::polls_per_round, last),
                        1)) {
    wait_result<T> const result = wait_long(addr, comparison, operand, last);
    last = result.last;
    code = result.code;
    if (code != status::ok)
      fails(code);
  }
  simt::acquire_watched();
  return code;
}

// `last`: the value that met the condition, in all threads of the group.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *addr, int comparison, T operand, T &last) {
  status code = check_wait(addr, comparison);
  if (code != status::ok)
    return failed(group, code, site::wait, addr, job_view().me);
  if (group.rank() == 0)
    code = wait_by_one(addr, comparison, operand, last, [addr](status why) {
      record_fault(why, site::wait, addr, job_view().me);
    });
  code = status(int(group.broadcast(u32(int(code)))));
  last = group.broadcast(last);
  return code;
}

// As wait(), for callers that do not need the value.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *addr, int comparison, T operand) {
  status code = check_wait(addr, comparison);
  if (code != status::ok)
    return failed(group, code, site::wait, addr, job_view().me);
  T last;
  if (group.rank() == 0)
    code = wait_by_one(addr, comparison, operand, last, [addr](status why) {
      record_fault(why, site::wait, addr, job_view().me);
    });
  return status(int(group.broadcast(u32(int(code)))));
}

template <class Group, class T>
TND_DEVICE inline bool test(Group group, const T *addr, int comparison, T operand) {
  status const code = check_wait(addr, comparison);
  if (code != status::ok) {
    (void)failed(group, code, site::test, addr, job_view().me);
    return false;
  }
  bool is_met = false;
  if (group.rank() == 0)
    is_met = holds(load_acquire(addr), comparison, operand);
  return group.broadcast(u32(is_met)) != 0;
}

// ---- ordering. Context 0 is SHMEM_CTX_INVALID: the calls are no-ops.

template <class Group>
TND_DEVICE inline status fence(Group group, u64 context) {
  if (context == 0)
    return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    if (job_view().has_unmapped != 0)
      code = call_host({op::fence, 0, 0, {0, 0, 0, 0, 0}});
    if (code != status::ok)
      record_fault(code, site::fence, nullptr, job_view().me);
    simt::fence_stores();
  }
  group.sync();
  return job_view().has_unmapped == 0 ? status::ok : status(group.broadcast(int(code)));
}

// One thread, for the group's operations before a group.sync().
TND_DEVICE inline status quiet_by_one() {
  simt::fence_system();
  if (job_view().has_unmapped == 0)
    return status::ok;
  status const code = call_host({op::quiet, 0, 0, {0, 0, 0, 0, 0}});
  if (code != status::ok)
    record_fault(code, site::quiet, nullptr, job_view().me);
  return code;
}

template <class Group>
TND_DEVICE inline status quiet(Group group, u64 context) {
  if (context == 0)
    return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0)
    code = quiet_by_one();
  if (job_view().has_unmapped != 0)
    return status(int(group.broadcast(u32(int(code)))));
  group.sync();
  return status::ok;
}

}  // namespace tanada::shmem::device
