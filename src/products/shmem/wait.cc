// Calls that wait for values or test them.
#include "products/shmem/wait.hpp"

#include <chrono>
#include <thread>

#include "products/shmem/access.hpp"
#include "seams/os/yield.hpp"

namespace tanada::shmem {

void after_failed_test(runtime &current) {
  current.job->progress();
  constexpr std::chrono::microseconds rest{20};
  if (current.job->is_oversubscribed() && !seams::thread_yield())
    std::this_thread::sleep_for(rest);
}

void require_symmetric(runtime &current, const char *call, const void *addr, size_t size) {
  auto const me = current.job->me();
  if (current.job->map().locate(addr, size, me).segment_ptr == nullptr)
    fatal(status::range, {call, addr, size, int(me)});
}

// The fence makes what the writer put before the value visible, as for a value in host memory.
void copy_words(const char *call, void *target, const void *source, size_t size) {
  auto &current = require_running(call);
  status const code = current.poll_context->get(target, source, size, current.job->me());
  if (code != status::ok)
    fatal(code, {call, source, size, int(current.job->me())});
  std::atomic_thread_fence(std::memory_order_acquire);
}

namespace {

template <class T>
inline void wait_until(const char *call, const T *word, int cmp, T expected) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  if (is_device_memory(current, word)) [[unlikely]] {
    return wait_for(current, call, word, sizeof(T), [=] {
      return holds(device_value_now(call, word), cmp, expected);
    });
  }
  wait_for(current, call, word, sizeof(T), [=] { return holds(value_now(word), cmp, expected); });
}

template <class T>
inline int test(const char *call, const T *word, int cmp, T expected) {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  if (holds(is_device_memory(current, word) ? device_value_now(call, word) : value_now(word),
            cmp,
            expected))
    return 1;
  after_failed_test(current);
  return 0;
}

template <class T>
inline void wait_until_all(const char *call, int cmp, const words<T> &array) {
  wait_words(call, cmp, array, [&] { return array.are_all_met(); });
}
template <class T>
inline size_t wait_until_any(const char *call, int cmp, const words<T> &array) {
  size_t index = SIZE_MAX;
  wait_words(call, cmp, array, [&] {
    index = array.find_any();
    return index != SIZE_MAX;
  });
  return index;
}
template <class T>
inline size_t wait_until_some(const char *call, int cmp, const words<T> &array, size_t *indices) {
  size_t met_count = 0;
  wait_words(call, cmp, array, [&] {
    met_count = array.find_met(indices);
    return met_count != 0;
  });
  return met_count;
}

}  // namespace
}  // namespace tanada::shmem

using namespace tanada::shmem;

#define TND_DEFINE_WAIT_UNTIL(NAME, TYPE, A)                                              \
  SHMEM_DEFINE(void, shmem_##NAME##_wait_until, (TYPE * ivar, int cmp, TYPE cmp_value), { \
    wait_until<TYPE>(call, ivar, cmp, cmp_value);                                         \
  })                                                                                      \
  SHMEM_DEFINE(int, shmem_##NAME##_test, (TYPE * ivar, int cmp, TYPE cmp_value), {        \
    return test<TYPE>(call, ivar, cmp, cmp_value);                                        \
  })

// The two calls of a family: with one value for all words, and with one for each.
#define TND_OF_MANY(RESULT, NAME, TYPE, OP, ...)                                                  \
  SHMEM_DEFINE(RESULT,                                                                            \
               shmem_##NAME##_##OP,                                                               \
               (TYPE * ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value),         \
               {                                                                                  \
                 words<TYPE> const array{call, ivars, nelems, status, cmp, &cmp_value, false};    \
                 return __VA_ARGS__;                                                              \
               })                                                                                 \
  SHMEM_DEFINE(RESULT,                                                                            \
               shmem_##NAME##_##OP##_vector,                                                      \
               (TYPE * ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values), \
               {                                                                                  \
                 words<TYPE> const array{call, ivars, nelems, status, cmp, cmp_values, true};     \
                 return __VA_ARGS__;                                                              \
               })
#define TND_OF_SOME(NAME, TYPE, OP, ...)                                                          \
  SHMEM_DEFINE(                                                                                   \
      size_t,                                                                                     \
      shmem_##NAME##_##OP,                                                                        \
      (TYPE * ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value), \
      {                                                                                           \
        words<TYPE> const array{call, ivars, nelems, status, cmp, &cmp_value, false};             \
        return __VA_ARGS__;                                                                       \
      })                                                                                          \
  SHMEM_DEFINE(size_t,                                                                            \
               shmem_##NAME##_##OP##_vector,                                                      \
               (TYPE * ivars,                                                                     \
                size_t nelems,                                                                    \
                size_t *indices,                                                                  \
                const int *status,                                                                \
                int cmp,                                                                          \
                const TYPE *cmp_values),                                                          \
               {                                                                                  \
                 words<TYPE> const array{call, ivars, nelems, status, cmp, cmp_values, true};     \
                 return __VA_ARGS__;                                                              \
               })

#define TND_DEFINE_WAIT(NAME, TYPE, A) \
  TND_DEFINE_WAIT_UNTIL(NAME, TYPE, A) \
  TND_DEFINE_WAIT_MANY(NAME, TYPE, A)
#define TND_DEFINE_WAIT_MANY(NAME, TYPE, A)                                                \
  TND_OF_MANY(void, NAME, TYPE, wait_until_all, wait_until_all(call, cmp, array))          \
  TND_OF_MANY(size_t, NAME, TYPE, wait_until_any, wait_until_any(call, cmp, array))        \
  TND_OF_SOME(NAME, TYPE, wait_until_some, wait_until_some(call, cmp, array, indices))     \
  TND_OF_MANY(int,                                                                         \
              NAME,                                                                        \
              TYPE,                                                                        \
              test_all,                                                                    \
              test_words<TYPE>(call, cmp, [&] { return array.are_all_met() ? 1 : 0; }, 0)) \
  TND_OF_MANY(size_t,                                                                      \
              NAME,                                                                        \
              TYPE,                                                                        \
              test_any,                                                                    \
              test_words<TYPE>(call, cmp, [&] { return array.find_any(); }, SIZE_MAX))     \
  TND_OF_SOME(NAME,                                                                        \
              TYPE,                                                                        \
              test_some,                                                                   \
              test_words<TYPE>(call, cmp, [&] { return array.find_met(indices); }, 0))

SHMEM_TABLE_AMO(TND_DEFINE_WAIT, )
SHMEM_TABLE_OLD_WAIT_UNTIL(TND_DEFINE_WAIT, )

#define TND_DEFINE_OLD_WAIT(NAME, TYPE, A)                                 \
  SHMEM_DEFINE(void, shmem_##NAME##_wait, (TYPE * ivar, TYPE cmp_value), { \
    wait_until<TYPE>(call, ivar, SHMEM_CMP_NE, cmp_value);                 \
  })
SHMEM_TABLE_OLD_WAIT(TND_DEFINE_OLD_WAIT, )

SHMEM_DEFINE(void, shmem_wait, (long *ivar, long cmp_value), {
  wait_until<long>(call, ivar, SHMEM_CMP_NE, cmp_value);
})
SHMEM_DEFINE(void, shmem_wait_until, (long *ivar, int cmp, long cmp_value), {
  wait_until<long>(call, ivar, cmp, cmp_value);
})

SHMEM_DEFINE(uint64_t, shmem_signal_wait_until, (uint64_t *sig_addr, int cmp, uint64_t cmp_value), {
  auto &current = require_running(call);
  check_cmp(call, cmp);
  uint64_t observed = 0;
  if (is_device_memory(current, sig_addr)) [[unlikely]] {
    auto const is_met = [&] {
      observed = device_value_now(call, sig_addr);
      return holds(observed, cmp, cmp_value);
    };
    wait_for(current, call, sig_addr, sizeof *sig_addr, is_met);
    return observed;
  }
  wait_for(current, call, sig_addr, sizeof *sig_addr, [&] {
    observed = value_now(sig_addr);
    return holds(observed, cmp, cmp_value);
  });
  return observed;
})
