// products/shmem/wait.hpp: conditions on words of this PE's memory that others change, and waiting
// for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>

#include "products/shmem/collectives/kept.hpp"
#include "products/shmem/device_side.hpp"
#include "products/shmem/fatal.hpp"

namespace tanada::shmem {

// Values are read one at a time, each at once; what its writer put before is seen when its new
// value is.
template <class T>
inline T value_now(const T *at) noexcept {
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

// The same of memory of the device: copied by a queue, which is what a look costs.
[[gnu::cold]] void copy_words(const char *call, void *target, const void *at, size_t size);
template <class T>
inline T device_value_now(const char *call, const T *at) {
  T value;
  copy_words(call, &value, at, sizeof value);
  return value;
}

template <class T>
inline bool holds(T value, int cmp, T with) noexcept {
  switch (cmp) {
    case SHMEM_CMP_EQ: return value == with;
    case SHMEM_CMP_NE: return value != with;
    case SHMEM_CMP_GT: return value > with;
    case SHMEM_CMP_GE: return value >= with;
    case SHMEM_CMP_LT: return value < with;
    default: return value <= with;
  }
}

inline void check_cmp(const char *call, int cmp) {
  if (uint32_t(cmp) > SHMEM_CMP_LE) [[unlikely]]
    fatal(call, "cmp %d is none of SHMEM_CMP_*", cmp);
}

// Debug mode: others change symmetric memory only.
[[gnu::cold]] void require_symmetric(runtime &current, const char *call, const void *addr,
                                     size_t size);

// For ever, but for a PE that dies, or if all others have left the job, or wait as well after one
// has left. (Another thread of this PE may change what is waited for.)
template <class Ready>
inline void wait_for(runtime &current, const char *call, const void *addr, size_t size,
                     Ready &&ready) {
  if (current.options.is_debug) [[unlikely]]
    require_symmetric(current, call, addr, size);
  auto const looks = [&] {
    if (current.device) [[unlikely]]
      device_check(current, call);
    return ready();
  };
  bool const may_be_others = current.thread_level == SHMEM_THREAD_MULTIPLE || current.device;
  wait_guard *const guard = may_be_others ? nullptr : &current.coordination->teams.desertion(call);
  status const code =
      wait_guarded(*current.job, guard, looks, {static_cast<const std::byte *>(addr), size});
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, addr, size, int(current.job->lost())});
}

// A test that came out false may be part of a loop of the program's: what this PE owes is done, and
// others run where they must.
[[gnu::noinline]] void between_tests(runtime &current);

// An array of words of which some count, compared with one value or each with its own.
template <class T>
class words {
 public:
  // `call`: which one looks, for messages.
  words(const char *call, T *values, size_t count, const int *left_out, int cmp, const T *with,
        bool has_own)
      : values_{values},
        now_{values},
        left_out_{left_out},
        with_{with},
        call_{call},
        count_{count},
        cmp_{cmp},
        has_own_{has_own} {
    auto const *const current = running();
    if (current == nullptr || !is_device_memory(*current, values)) [[likely]]
      return;
    copy_.reset(new T[count]);
    now_ = copy_.get();
  }

  const T *values() const noexcept {
    return values_;
  }
  size_t count() const noexcept {
    return count_;
  }

  bool is_empty() const noexcept {
    for (size_t i = 0; i < count_; i++) {
      if (counts(i))
        return false;
    }
    return true;
  }
  bool all() const noexcept {
    look();
    for (size_t i = 0; i < count_; i++) {
      if (counts(i) && !is_met(i))
        return false;
    }
    return true;
  }
  // Looked at from another place each time, so that every word that is met is told in the end;
  // SIZE_MAX: none is.
  size_t any() const noexcept {
    look();
    static thread_local size_t turn = 0;
    for (size_t i = 0, at = count_ == 0 ? 0 : turn % count_; i < count_;
         i++, at = at + 1 == count_ ? 0 : at + 1) {
      if (!counts(at) || !is_met(at))
        continue;
      turn = at + 1;
      return at;
    }
    return SIZE_MAX;
  }
  size_t some(size_t *indices) const noexcept {
    look();
    size_t found = 0;
    for (size_t i = 0; i < count_; i++) {
      if (counts(i) && is_met(i))
        indices[found++] = i;
    }
    return found;
  }

 private:
  bool counts(size_t i) const noexcept {
    return left_out_ == nullptr || left_out_[i] == 0;
  }
  bool is_met(size_t i) const noexcept {
    return holds(value_now(now_ + i), cmp_, with_[has_own_ ? i : 0]);
  }

  void look() const noexcept {
    if (copy_) [[unlikely]]
      copy_words(call_, copy_.get(), values_, count_ * sizeof(T));
  }

  const T *values_;
  const T *now_;               // where they are looked at
  std::unique_ptr<T[]> copy_;  // of those in memory of the device
  const int *left_out_;
  const T *with_;
  const char *call_;
  size_t count_;
  int cmp_;
  bool has_own_;
};

// `ready` is not called when nothing counts.
template <class T, class Ready>
inline void wait_words(const char *call, int cmp, const words<T> &of, Ready &&ready) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  if (of.is_empty())
    return;
  wait_for(current, call, of.values(), of.count() * sizeof(T), ready);
}

template <class T, class Test>
inline auto test_words(const char *call, int cmp, Test &&test, decltype(test()) unmet) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  auto const answer = test();
  if (answer == unmet)
    between_tests(current);
  return answer;
}

}  // namespace tanada::shmem
