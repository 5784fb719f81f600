/* shmem/begin.h: macros and visibility for the declarations of calls; end.h undoes them. Included
 * only by the parts of shmem.h. It has no include guard, because each of them includes it. */
#if defined(TND_SHMEM_WARN_DEPRECATED)
#  define SHMEM_OLD_ __attribute__((deprecated))
#else
#  define SHMEM_OLD_
#endif
#if defined(__cplusplus)
extern "C" {
#endif
#pragma GCC visibility push(default)
