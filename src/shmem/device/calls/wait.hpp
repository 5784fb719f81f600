// shmem/device/calls/wait.hpp: waiting for words of this PE, and ordering. Not for direct inclusion.
#pragma once

#include "atomics.hpp"

namespace tanada::shmem::device {

// Numbers of SHMEM_CMP_*.
template <class T>
TND_DEVICE inline bool holds(T value, int comparison, T with) {
  switch (comparison) {
    case 0: return value == with;
    case 1: return value != with;
    case 2: return value > with;
    case 3: return value >= with;
    case 4: return value < with;
    default: return value <= with;
  }
}

// How long one thread waits: until a PE is lost, or time is up. Asked every so often: what it looks at is far from the loop.
class patience {
 public:
  static constexpr u32 rounds = 64;

  // After a round in vain, from 0. Not ok: wait no longer.
  TND_DEVICE status next() {
    u32 const round = round_++;
    simt::pause_late(round);
    if (round % rounds != rounds - 1) return status::ok;
    if (simt::system_atomic<u64>(here().live->lost).load_relaxed() != 0) return status::peer_lost;
    u64 const timeout_ns = here().timeout_ns;
    if (timeout_ns == ~u64{0}) return status::ok;
    if (deadline_ns_ == 0) deadline_ns_ = deadline_of(timeout_ns);
    return simt::now_ns() >= deadline_ns_ ? status::timed_out : status::ok;
  }

 private:
  u32 round_ = 0;
  u64 deadline_ns_ = 0;
};

template <class T>
TND_DEVICE inline T load_acquire(const T *at) {
  using word = word_for<T>;
  return simt::from_word<T>(simt::system_atomic<word>(*reinterpret_cast<word *>(const_cast<T *>(at))).load_acquire());
}

template <class T>
TND_DEVICE inline status check_wait(const T *at, int comparison) {
  if (word_of(at) % sizeof(T) != 0) return status::fault;
  if (u32(comparison) > 5) return status::invalid;
  return is_symmetric(at, sizeof(T)) ? status::ok : status::range;
}

// One thread.
template <class T>
TND_DEVICE inline status wait_alone(const T *at, int comparison, T with, T &last) {
  using word = word_for<T>;
  for (patience left;;) {
    last = simt::from_word<T>(simt::watch_global(reinterpret_cast<const word *>(at)));
    if (holds(last, comparison, with)) {
      simt::acquire_watched();
      return status::ok;
    }
    status const code = left.next();
    if (code != status::ok) return code;
  }
}

// `last`: the value that met the condition, in all threads of the group.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *at, int comparison, T with, T &last) {
  status code = check_wait(at, comparison);
  if (code != status::ok) return failed(group, code, site::wait, at, here().me);
  if (group.rank() == 0) {
    code = wait_alone(at, comparison, with, last);
    if (code != status::ok) record_fault(code, site::wait, at, here().me);
  }
  code = status(int(group.broadcast(u32(int(code)))));
  last = group.broadcast(last);
  return code;
}

// As wait(), where nobody asks for the value.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *at, int comparison, T with) {
  status code = check_wait(at, comparison);
  if (code != status::ok) return failed(group, code, site::wait, at, here().me);
  if (group.rank() == 0) {
    T last;
    code = wait_alone(at, comparison, with, last);
    if (code != status::ok) record_fault(code, site::wait, at, here().me);
  }
  return status(int(group.broadcast(u32(int(code)))));
}

template <class Group, class T>
TND_DEVICE inline bool test(Group group, const T *at, int comparison, T with) {
  status const code = check_wait(at, comparison);
  if (code != status::ok) {
    (void)failed(group, code, site::test, at, here().me);
    return false;
  }
  bool is_met = false;
  if (group.rank() == 0) is_met = holds(load_acquire(at), comparison, with);
  return group.broadcast(u32(is_met)) != 0;
}

// ---- ordering. Context 0 is SHMEM_CTX_INVALID: nothing is done.

template <class Group>
TND_DEVICE inline status fence(Group group, u64 context) {
  if (context == 0) return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    if (here().has_far != 0) code = ask_host({op::fence, 0, 0, {0, 0, 0, 0, 0}});
    if (code != status::ok) record_fault(code, site::fence, nullptr, here().me);
    simt::fence_stores();
  }
  group.sync();
  return here().has_far == 0 ? status::ok : status(group.broadcast(int(code)));
}

// One thread, for what its group did before a group.sync().
TND_DEVICE inline status quiet_alone() {
  simt::fence_system();
  if (here().has_far == 0) return status::ok;
  status const code = ask_host({op::quiet, 0, 0, {0, 0, 0, 0, 0}});
  if (code != status::ok) record_fault(code, site::quiet, nullptr, here().me);
  return code;
}

template <class Group>
TND_DEVICE inline status quiet(Group group, u64 context) {
  if (context == 0) return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) code = quiet_alone();
  if (here().has_far != 0) return status(int(group.broadcast(u32(int(code)))));
  group.sync();
  return status::ok;
}

}  // namespace tanada::shmem::device
