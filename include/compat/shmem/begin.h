/* shmem/begin.h: how the calls are declared: end.h takes it back. Included by the parts of shmem.h
 * alone; no guard, as each of them includes it anew. */
#if defined(TND_SHMEM_WARN_DEPRECATED)
#  define SHMEM_OLD_ __attribute__((deprecated))
#else
#  define SHMEM_OLD_
#endif
#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)
