/* shmem/wait.h: waiting for values in this PE's symmetric memory that other PEs change. C99 and
 * C++11. */
#ifndef TANADA_COMPAT_SHMEM_WAIT_H
#define TANADA_COMPAT_SHMEM_WAIT_H

#include "constants.h"
#include "types.h"

#include "begin.h"

/* wait_until blocks until `*ivar cmp cmp_value` holds; test returns whether it does. When it
 * holds, earlier puts of the writer are visible. Other threads run during a wait. In arrays,
 * elements with a nonzero `status` are excluded; if all are, _all is true, _any returns SIZE_MAX
 * and _some 0. _some fills `indices` and returns their number. _vector compares each element with
 * its own value. 9.11. */
#define SHMEM_DECLARE_WAIT_UNTIL_(NAME, TYPE, P)                          \
  void P##shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE cmp_value); \
  int P##shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE cmp_value);

#define SHMEM_DECLARE_OLD_WAIT_UNTIL_(NAME, TYPE, P)                                 \
  SHMEM_OLD_ void P##shmem_##NAME##_wait_until(TYPE *ivar, int cmp, TYPE cmp_value); \
  SHMEM_OLD_ int P##shmem_##NAME##_test(TYPE *ivar, int cmp, TYPE cmp_value);

#define SHMEM_DECLARE_WAIT_(NAME, TYPE, P) \
  SHMEM_DECLARE_WAIT_UNTIL_(NAME, TYPE, P) \
  SHMEM_DECLARE_WAIT_MANY_(NAME, TYPE, P)
#define SHMEM_DECLARE_WAIT_MANY_(NAME, TYPE, P)                                                 \
  void P##shmem_##NAME##_wait_until_all(                                                        \
      TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value);                  \
  void P##shmem_##NAME##_wait_until_all_vector(                                                 \
      TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);          \
  size_t P##shmem_##NAME##_wait_until_any(                                                      \
      TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value);                  \
  size_t P##shmem_##NAME##_wait_until_any_vector(                                               \
      TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);          \
  size_t P##shmem_##NAME##_wait_until_some(                                                     \
      TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value); \
  size_t P##shmem_##NAME##_wait_until_some_vector(TYPE *ivars,                                  \
                                                  size_t nelems,                                \
                                                  size_t *indices,                              \
                                                  const int *status,                            \
                                                  int cmp,                                      \
                                                  const TYPE *cmp_values);                      \
  int P##shmem_##NAME##_test_all(                                                               \
      TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value);                  \
  int P##shmem_##NAME##_test_all_vector(                                                        \
      TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);          \
  size_t P##shmem_##NAME##_test_any(                                                            \
      TYPE *ivars, size_t nelems, const int *status, int cmp, TYPE cmp_value);                  \
  size_t P##shmem_##NAME##_test_any_vector(                                                     \
      TYPE *ivars, size_t nelems, const int *status, int cmp, const TYPE *cmp_values);          \
  size_t P##shmem_##NAME##_test_some(                                                           \
      TYPE *ivars, size_t nelems, size_t *indices, const int *status, int cmp, TYPE cmp_value); \
  size_t P##shmem_##NAME##_test_some_vector(TYPE *ivars,                                        \
                                            size_t nelems,                                      \
                                            size_t *indices,                                    \
                                            const int *status,                                  \
                                            int cmp,                                            \
                                            const TYPE *cmp_values);

/* Deprecated: waits until the value differs from cmp_value. */
#define SHMEM_DECLARE_OLD_WAIT_(NAME, TYPE, P) \
  SHMEM_OLD_ void P##shmem_##NAME##_wait(TYPE *ivar, TYPE cmp_value);
#define SHMEM_DECLARE_OLD_WAITS_(P)                          \
  SHMEM_OLD_ void P##shmem_wait(long *ivar, long cmp_value); \
  SHMEM_OLD_ void P##shmem_wait_until(long *ivar, int cmp, long cmp_value);

SHMEM_TABLE_AMO(SHMEM_DECLARE_WAIT_, )
SHMEM_TABLE_AMO(SHMEM_DECLARE_WAIT_, p)
SHMEM_TABLE_OLD_WAIT_UNTIL(SHMEM_DECLARE_OLD_WAIT_UNTIL_, )
SHMEM_TABLE_OLD_WAIT_UNTIL(SHMEM_DECLARE_OLD_WAIT_UNTIL_, p)
/* The specification has no arrays of short and unsigned short, but other implementations do, and
 * programs use them. */
SHMEM_TABLE_OLD_WAIT_UNTIL(SHMEM_DECLARE_WAIT_MANY_, )
SHMEM_TABLE_OLD_WAIT_UNTIL(SHMEM_DECLARE_WAIT_MANY_, p)
SHMEM_TABLE_OLD_WAIT(SHMEM_DECLARE_OLD_WAIT_, )
SHMEM_TABLE_OLD_WAIT(SHMEM_DECLARE_OLD_WAIT_, p)
SHMEM_DECLARE_OLD_WAITS_()
SHMEM_DECLARE_OLD_WAITS_(p)

#include "end.h"

#endif
