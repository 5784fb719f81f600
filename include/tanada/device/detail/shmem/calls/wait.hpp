// tanada/device/detail/shmem/calls/wait.hpp: waiting for words of this PE, and ordering. Not for
// direct inclusion.
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

// How long one thread waits: until a PE is lost, or time is up. Asked after so many looks in vain.
class patience {
 public:
  static constexpr u32 looks = 64, looks_late = 2,
                       late = 64;  // late: after so many rounds; then with a pause before each

  // Until it is asked again.
  TND_DEVICE u32 look_count() const {
    return TND_SIMT_CUDA != 0 && round_ >= late ? looks_late : looks;
  }

  // After as many. Not ok: wait no longer.
  TND_DEVICE status next() {
    u32 const round = round_++;
    simt::pause_late(round * looks);
    if (round >= late && round % looks != 0)
      return status::ok;
    if (simt::system_atomic<u64>(here().live->lost).load_relaxed() != 0)
      return status::peer_lost;
    u64 const timeout_ns = here().timeout_ns;
    if (timeout_ns == ~u64{0})
      return status::ok;
    if (deadline_ns_ == 0)
      deadline_ns_ = deadline_of(timeout_ns);
    return simt::now_ns() >= deadline_ns_ ? status::timed_out : status::ok;
  }

  // Between two looks: the host executor's threads share processors.
  TND_DEVICE static void between_looks() {
    if constexpr (TND_SIMT_CUDA == 0)
      simt::pause();
  }

 private:
  u32 round_ = 0;
  u64 deadline_ns_ = 0;
};

template <class T>
TND_DEVICE inline T load_acquire(const T *at) {
  using word = word_for<T>;
  return simt::from_word<T>(
      simt::system_atomic<word>(*reinterpret_cast<word *>(const_cast<T *>(at))).load_acquire());
}

template <class T>
TND_DEVICE inline status check_wait(const T *at, int comparison) {
  if (word_of(at) % sizeof(T) != 0)
    return status::fault;
  if (u32(comparison) > 5)
    return status::invalid;
  return is_symmetric(at, sizeof(T)) ? status::ok : status::range;
}

// Looks until there are none left; false then, whatever `last` is. Each instruction of the loop,
// and behind it, comes between a word's arrival and what the kernel does then.
template <class T>
TND_DEVICE inline bool look_often(const T *at, int comparison, T with, u32 looks, T &last) {
  bool is_met = false;
  TND_NO_UNROLL
  do {
    last = simt::from_word<T>(simt::watch_global(reinterpret_cast<const word_for<T> *>(at)));
    is_met = holds(last, comparison, with);
    if (!is_met)
      patience::between_looks();
  } while (!is_met & (--looks != 0));
  return looks != 0;
}

template <class T>
struct waited {
  status code;
  T last;
};

// What is left of a wait whose first looks were in vain: out of the way of others. `last`: what was
// seen.
template <class T>
TND_DEVICE_CALL inline waited<T> wait_long(const T *at, int comparison, T with, T last) {
  waited<T> so_far{status::ok, last};
  for (patience left; !holds(so_far.last, comparison, with);) {
    so_far.code = left.next();
    if (so_far.code != status::ok)
      break;
    (void)look_often(at, comparison, with, left.look_count(), so_far.last);
  }
  return so_far;
}

// One thread. `fails`: called with why it has given up.
template <class T, class Fails>
TND_DEVICE inline status wait_alone(const T *at, int comparison, T with, T &last, Fails fails) {
  status code = status::ok;
  if (!__builtin_expect(look_often(at, comparison, with, patience::looks, last), 1)) {
    waited<T> const found = wait_long(at, comparison, with, last);
    last = found.last;
    code = found.code;
    if (code != status::ok)
      fails(code);
  }
  simt::acquire_watched();
  return code;
}

// `last`: the value that met the condition, in all threads of the group.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *at, int comparison, T with, T &last) {
  status code = check_wait(at, comparison);
  if (code != status::ok)
    return failed(group, code, site::wait, at, here().me);
  if (group.rank() == 0)
    code = wait_alone(at, comparison, with, last,
                      [at](status why) { record_fault(why, site::wait, at, here().me); });
  code = status(int(group.broadcast(u32(int(code)))));
  last = group.broadcast(last);
  return code;
}

// As wait(), where nobody asks for the value.
template <class Group, class T>
TND_DEVICE inline status wait(Group group, const T *at, int comparison, T with) {
  status code = check_wait(at, comparison);
  if (code != status::ok)
    return failed(group, code, site::wait, at, here().me);
  T last;
  if (group.rank() == 0)
    code = wait_alone(at, comparison, with, last,
                      [at](status why) { record_fault(why, site::wait, at, here().me); });
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
  if (group.rank() == 0)
    is_met = holds(load_acquire(at), comparison, with);
  return group.broadcast(u32(is_met)) != 0;
}

// ---- ordering. Context 0 is SHMEM_CTX_INVALID: nothing is done.

template <class Group>
TND_DEVICE inline status fence(Group group, u64 context) {
  if (context == 0)
    return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0) {
    if (here().has_far != 0)
      code = ask_host({op::fence, 0, 0, {0, 0, 0, 0, 0}});
    if (code != status::ok)
      record_fault(code, site::fence, nullptr, here().me);
    simt::fence_stores();
  }
  group.sync();
  return here().has_far == 0 ? status::ok : status(group.broadcast(int(code)));
}

// One thread, for what its group did before a group.sync().
TND_DEVICE inline status quiet_alone() {
  simt::fence_system();
  if (here().has_far == 0)
    return status::ok;
  status const code = ask_host({op::quiet, 0, 0, {0, 0, 0, 0, 0}});
  if (code != status::ok)
    record_fault(code, site::quiet, nullptr, here().me);
  return code;
}

template <class Group>
TND_DEVICE inline status quiet(Group group, u64 context) {
  if (context == 0)
    return status::ok;
  group.sync();
  status code = status::ok;
  if (group.rank() == 0)
    code = quiet_alone();
  if (here().has_far != 0)
    return status(int(group.broadcast(u32(int(code)))));
  group.sync();
  return status::ok;
}

}  // namespace tanada::shmem::device
