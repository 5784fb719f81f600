// products/shmem/wait.hpp: conditions on words of this PE's memory that other PEs change, and
// waiting for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <thread>

#include "products/shmem/collectives/collective_state.hpp"
#include "products/shmem/device_side.hpp"
#include "products/shmem/fatal.hpp"

namespace tanada::shmem {

// Reads one value atomically. What its writer put before the value is visible when the value is.
template <class T>
inline T value_now(const T *word) noexcept {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

// The same for device memory; each poll costs one copy by a device queue.
[[gnu::cold]] void copy_words(const char *call, void *target, const void *source, size_t size);
template <class T>
inline T device_value_now(const char *call, const T *word) {
  T value;
  copy_words(call, &value, word, sizeof value);
  return value;
}

static_assert(SHMEM_CMP_EQ == 0 && SHMEM_CMP_LE == 5, "check_cmp() accepts 0 to SHMEM_CMP_LE");

template <class T>
inline bool holds(T value, int cmp, T expected) noexcept {
  switch (cmp) {
    case SHMEM_CMP_EQ:
      return value == expected;
    case SHMEM_CMP_NE:
      return value != expected;
    case SHMEM_CMP_GT:
      return value > expected;
    case SHMEM_CMP_GE:
      return value >= expected;
    case SHMEM_CMP_LT:
      return value < expected;
    default:
      return value <= expected;
  }
}

inline void check_cmp(const char *call, int cmp) {
  if (uint32_t(cmp) > SHMEM_CMP_LE) [[unlikely]]
    fatal(call, "cmp {} is not one of SHMEM_CMP_*", cmp);
}

// Debug mode: requires that the memory is symmetric, since other PEs change no other.
[[gnu::cold]] void require_symmetric(runtime &current,
                                     const char *call,
                                     const void *addr,
                                     size_t size);

// Waits without a limit. It ends the job if a PE fails, if all other PEs have left the job, or if
// all wait after one has left. (With SHMEM_THREAD_MULTIPLE or a device, another thread or a kernel
// of this PE may change the word.)
template <class Ready>
inline void wait_for(
    runtime &current, const char *call, const void *addr, size_t size, Ready &&ready) {
  if (current.options.is_debug) [[unlikely]]
    require_symmetric(current, call, addr, size);
  auto const poll = [&] {
    if (current.device) [[unlikely]]
      device_check(current, call);
    return ready();
  };
  bool const may_be_others = current.thread_level == SHMEM_THREAD_MULTIPLE || current.device;
  wait_guard *const guard = may_be_others ? nullptr : &current.coordination->teams.guard_for(call);
  status const code =
      wait_guarded(*current.job, guard, poll, {static_cast<const std::byte *>(addr), size});
  if (code != status::ok) [[unlikely]]
    fatal(code, {call, addr, size, int(current.job->failed_pe())});
}

// A failed test may be part of a polling loop of the program. Makes progress, and yields the
// processor where the node is oversubscribed.
[[gnu::noinline]] void after_failed_test(runtime &current);

// An array of words, some of them excluded, compared with one common value or with a value for
// each.
template <class T>
class words {
 public:
  // `call`: the name of the waiting call, for messages.
  words(const char *call,
        T *values,
        size_t count,
        const int *excluded,
        int cmp,
        const T *expected,
        bool has_own)
      : values_{values},
        polled_{values},
        excluded_{excluded},
        expected_{expected},
        call_{call},
        count_{count},
        cmp_{cmp},
        has_own_{has_own} {
    auto const *const current = running();
    if (current == nullptr || !is_device_memory(*current, values)) [[likely]]
      return;
    copy_.reset(new T[count]);
    polled_ = copy_.get();
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
  bool are_all_met() const noexcept {
    update_copy();
    for (size_t i = 0; i < count_; i++) {
      if (counts(i) && !is_met(i))
        return false;
    }
    return true;
  }
  // Each call starts at a different index, so that every word that meets the condition is
  // eventually returned. Returns SIZE_MAX if no word meets it.
  size_t find_any() const noexcept {
    update_copy();
    static thread_local size_t turn = 0;
    for (size_t i = 0, index = count_ == 0 ? 0 : turn % count_; i < count_;
         i++, index = index + 1 == count_ ? 0 : index + 1) {
      if (!counts(index) || !is_met(index))
        continue;
      turn = index + 1;
      return index;
    }
    return SIZE_MAX;
  }
  size_t find_met(size_t *indices) const noexcept {
    update_copy();
    size_t met_count = 0;
    for (size_t i = 0; i < count_; i++) {
      if (counts(i) && is_met(i))
        indices[met_count++] = i;
    }
    return met_count;
  }

 private:
  bool counts(size_t i) const noexcept {
    return excluded_ == nullptr || excluded_[i] == 0;
  }
  bool is_met(size_t i) const noexcept {
    return holds(value_now(polled_ + i), cmp_, expected_[has_own_ ? i : 0]);
  }

  void update_copy() const noexcept {
    if (copy_) [[unlikely]]
      copy_words(call_, copy_.get(), values_, count_ * sizeof(T));
  }

  const T *values_;
  const T *polled_;            // the memory to poll
  std::unique_ptr<T[]> copy_;  // host copy of words in device memory
  const int *excluded_;
  const T *expected_;
  const char *call_;
  size_t count_;
  int cmp_;
  bool has_own_;
};

// `ready` is not called if all words are excluded.
template <class T, class Ready>
inline void wait_words(const char *call, int cmp, const words<T> &array, Ready &&ready) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  if (array.is_empty())
    return;
  wait_for(current, call, array.values(), array.count() * sizeof(T), ready);
}

template <class T, class Test>
inline auto test_words(const char *call, int cmp, Test &&test, decltype(test()) unmet) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  auto const answer = test();
  if (answer == unmet)
    after_failed_test(current);
  return answer;
}

}  // namespace tanada::shmem
