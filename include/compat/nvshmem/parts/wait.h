// parts/wait.h: waits and tests of kernels, for one word or an array of words. A wait also ends
// when a PE has died. Not for direct inclusion.
#pragma once

#include "rma.h"

namespace tanada::nvshmem {

// Words that a call waits for: those whose `status` is 0, or all without it. The values that they
// are compared with are one for all, or one for each.
template <class T>
struct word_array {
  const T *words;
  size_t count;
  const int *status;
  int comparison;
  T value;
  const T *values;

  TND_DEVICE bool is_excluded(size_t i) const {
    return status != nullptr && status[i] != 0;
  }
  TND_DEVICE T value_of(size_t i) const {
    return values != nullptr ? values[i] : value;
  }
  TND_DEVICE bool holds(size_t i) const {
    return bodies::test(this_thread{}, words + i, comparison, value_of(i));
  }
  TND_DEVICE size_t included_count() const {
    size_t included = 0;
    for (size_t i = 0; i < count; i++)
      included += is_excluded(i) ? 0 : 1;
    return included;
  }
};

template <class T>
TND_DEVICE inline void wait_for_all(const word_array<T> &array) {
  for (size_t i = 0; i < array.count; i++)
    if (!array.is_excluded(i))
      (void)bodies::wait(this_thread{}, array.words + i, array.comparison, array.value_of(i));
}
template <class T>
TND_DEVICE inline bool all_hold(const word_array<T> &array) {
  for (size_t i = 0; i < array.count; i++)
    if (!array.is_excluded(i) && !array.holds(i))
      return false;
  return true;
}
// The index of a word for which the comparison holds, or SIZE_MAX.
template <class T>
TND_DEVICE inline size_t any_that_holds(const word_array<T> &array) {
  for (size_t i = 0; i < array.count; i++)
    if (!array.is_excluded(i) && array.holds(i))
      return i;
  return SIZE_MAX;
}
// The number of such words, and their indices.
template <class T>
TND_DEVICE inline size_t those_that_hold(const word_array<T> &array, size_t *indices) {
  size_t held = 0;
  for (size_t i = 0; i < array.count; i++)
    if (!array.is_excluded(i) && array.holds(i))
      indices[held++] = i;
  return held;
}

// Repeats `poll` until it returns true, a PE has failed or the timeout is over.
template <class Poll>
TND_DEVICE inline void poll_until(Poll poll) {
  bodies::wait_limit limit;
  for (;;) {
    for (u32 i = limit.poll_count(); i != 0; i--) {
      if (poll())
        return;
      bodies::wait_limit::between_polls();
    }
    status const code = limit.next();
    if (code != status::ok)
      return bodies::record_fault(code, bodies::site::wait, nullptr, bodies::job_view().me);
  }
}
template <class T>
TND_DEVICE inline size_t wait_for_any(const word_array<T> &array) {
  size_t index = SIZE_MAX;
  if (array.included_count() != 0)
    poll_until([&] {
      index = any_that_holds(array);
      return index != SIZE_MAX;
    });
  return index;
}
template <class T>
TND_DEVICE inline size_t wait_for_some(const word_array<T> &array, size_t *indices) {
  size_t held = 0;
  if (array.included_count() != 0)
    poll_until([&] {
      held = those_that_hold(array, indices);
      return held != 0;
    });
  return held;
}

}  // namespace tanada::nvshmem

// V: the suffix of the forms with an array of values. ONE and MANY: the value or null, the array or
// null.
#define NVSHMEM_WAITS_(NAME, TYPE, V, PARAMETER, ONE, MANY)                                        \
  NVSHMEM_DEVICE_ void nvshmem_##NAME##_wait_until_all##V(                                         \
      TYPE *ivars, size_t nelems, const int *status, int cmp, PARAMETER) {                         \
    tanada::nvshmem::wait_for_all<TYPE>({ivars, nelems, status, cmp, ONE, MANY});                  \
  }                                                                                                \
  NVSHMEM_DEVICE_ size_t nvshmem_##NAME##_wait_until_any##V(                                       \
      TYPE *ivars, size_t nelems, const int *status, int cmp, PARAMETER) {                         \
    return tanada::nvshmem::wait_for_any<TYPE>({ivars, nelems, status, cmp, ONE, MANY});           \
  }                                                                                                \
  NVSHMEM_DEVICE_ size_t nvshmem_##NAME##_wait_until_some##V(                                      \
      TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, PARAMETER) {        \
    return tanada::nvshmem::wait_for_some<TYPE>({ivars, nelems, status, cmp, ONE, MANY}, indices); \
  }                                                                                                \
  NVSHMEM_DEVICE_ int nvshmem_##NAME##_test_all##V(                                                \
      TYPE *ivars, size_t nelems, const int *status, int cmp, PARAMETER) {                         \
    return tanada::nvshmem::all_hold<TYPE>({ivars, nelems, status, cmp, ONE, MANY}) ? 1 : 0;       \
  }                                                                                                \
  NVSHMEM_DEVICE_ size_t nvshmem_##NAME##_test_any##V(                                             \
      TYPE *ivars, size_t nelems, const int *status, int cmp, PARAMETER) {                         \
    return tanada::nvshmem::any_that_holds<TYPE>({ivars, nelems, status, cmp, ONE, MANY});         \
  }                                                                                                \
  NVSHMEM_DEVICE_ size_t nvshmem_##NAME##_test_some##V(                                            \
      TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, PARAMETER) {        \
    return tanada::nvshmem::those_that_hold<TYPE>({ivars, nelems, status, cmp, ONE, MANY},         \
                                                  indices);                                        \
  }

#define NVSHMEM_WAIT_(NAME, TYPE, A)                                                           \
  NVSHMEM_DEVICE_ void nvshmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE cmp_value) {      \
    (void)tanada::nvshmem::bodies::wait(tanada::this_thread{}, ivar, cmp, cmp_value);          \
  }                                                                                            \
  NVSHMEM_DEVICE_ int nvshmem_##NAME##_test(TYPE *ivar, int cmp, TYPE cmp_value) {             \
    return tanada::nvshmem::bodies::test(tanada::this_thread{}, ivar, cmp, cmp_value) ? 1 : 0; \
  }                                                                                            \
  NVSHMEM_WAITS_(NAME, TYPE, , TYPE cmp_value, cmp_value, nullptr)                             \
  NVSHMEM_WAITS_(NAME, TYPE, _vector, TYPE *cmp_values, static_cast<TYPE>(0), cmp_values)
NVSHMEM_TABLE_WAIT_(NVSHMEM_WAIT_, )

NVSHMEM_DEVICE_ uint64_t nvshmem_signal_wait_until(uint64_t *sig_addr, int cmp, uint64_t cmp_val) {
  return shmemg_signal_wait_until(sig_addr, cmp, cmp_val);
}

#undef NVSHMEM_WAITS_
#undef NVSHMEM_WAIT_
