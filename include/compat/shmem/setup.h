/* shmem/setup.h: the calls without a type: setup, threads, memory, teams, contexts, ordering,
 * locks and profiling. C99 and C++11. */
#ifndef TANADA_COMPAT_SHMEM_SETUP_H
#define TANADA_COMPAT_SHMEM_SETUP_H

#include "constants.h"

#include "begin.h"

#define SHMEM_DECLARE_SETUP_(P)                                                             \
  /** Collective. Only the queries may be called before init. init may be called again; the \
   * last of as many finalizes ends the library and waits for all PEs. A program that exits \
   * without finalize does so at exit. 9.1, 9.2. */                                         \
  void P##shmem_init(void);                                                                 \
  int P##shmem_init_thread(int requested, int *provided);                                   \
  void P##shmem_finalize(void);                                                             \
  void P##shmem_query_initialized(int *initialized);                                        \
  void P##shmem_query_thread(int *provided);                                                \
  /** Ends all PEs with this status, from any PE, whatever they are doing. 9.1.7. */        \
  __attribute__((noreturn)) void P##shmem_global_exit(int status);                          \
  /** This PE's number, 0 to n_pes - 1, and the number of PEs. 9.1. */                      \
  int P##shmem_my_pe(void);                                                                 \
  int P##shmem_n_pes(void);                                                                 \
  void P##shmem_info_get_version(int *major, int *minor);                                   \
  void P##shmem_info_get_name(char *name);                                                  \
  /** 1 if the calls of this library can access the PE, or this memory of it; otherwise 0.  \
   * 9.1. */                                                                                \
  int P##shmem_pe_accessible(int pe);                                                       \
  int P##shmem_addr_accessible(const void *addr, int pe);                                   \
  /** The address of that PE's memory in this process, for loads and stores; NULL if it is  \
   * not mapped. 9.1.12. */                                                                 \
  void *P##shmem_ptr(const void *dest, int pe);                                             \
  SHMEM_OLD_ void P##start_pes(int npes);                                                   \
  SHMEM_OLD_ int P##_my_pe(void);                                                           \
  SHMEM_OLD_ int P##_num_pes(void);                                                         \
  void P##shmem_pcontrol(int level, ...);

#define SHMEM_DECLARE_MEMORY_(P)                                                            \
  /** Collective, with equal arguments in all PEs: allocates memory at equal offsets of all \
   * symmetric heaps. Returns NULL in all PEs for size 0 (without a barrier) or if the heap \
   * has no such block, and the heap is then unchanged. Freed memory may be in use by other \
   * PEs until all have called. 9.3. */                                                     \
  void *P##shmem_malloc(size_t size);                                                       \
  void *P##shmem_calloc(size_t count, size_t size);                                         \
  void *P##shmem_align(size_t alignment, size_t size);                                      \
  void *P##shmem_realloc(void *ptr, size_t size);                                           \
  void P##shmem_free(void *ptr);                                                            \
  void *P##shmem_malloc_with_hints(size_t size, long hints);                                \
  SHMEM_OLD_ void *P##shmalloc(size_t size);                                                \
  SHMEM_OLD_ void *P##shmemalign(size_t alignment, size_t size);                            \
  SHMEM_OLD_ void *P##shrealloc(void *ptr, size_t size);                                    \
  SHMEM_OLD_ void P##shfree(void *ptr);

#define SHMEM_DECLARE_TEAMS_(P)                                                                   \
  /** Teams: ordered subsets of PEs. Splitting is collective over the parent. Nonzero: no team    \
   * was created. 9.4. */                                                                         \
  int P##shmem_team_my_pe(shmem_team_t team);                                                     \
  int P##shmem_team_n_pes(shmem_team_t team);                                                     \
  int P##shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t *config); \
  int P##shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team);      \
  int P##shmem_team_split_strided(shmem_team_t parent_team,                                       \
                                  int start,                                                      \
                                  int stride,                                                     \
                                  int size,                                                       \
                                  const shmem_team_config_t *config,                              \
                                  long config_mask,                                               \
                                  shmem_team_t *new_team);                                        \
  int P##shmem_team_split_2d(shmem_team_t parent_team,                                            \
                             int xrange,                                                          \
                             const shmem_team_config_t *xaxis_config,                             \
                             long xaxis_mask,                                                     \
                             shmem_team_t *xaxis_team,                                            \
                             const shmem_team_config_t *yaxis_config,                             \
                             long yaxis_mask,                                                     \
                             shmem_team_t *yaxis_team);                                           \
  void P##shmem_team_destroy(shmem_team_t team);                                                  \
  void *P##shmem_team_ptr(shmem_team_t team, const void *dest, int pe);

#define SHMEM_DECLARE_CONTEXTS_(P)                                                                \
  /** Operations of a context take PE numbers of its team. Nonzero: no context was created, and   \
   * *ctx is SHMEM_CTX_INVALID. Destroying a context implies a quiet. A session is a hint         \
   * without an effect. 9.5. */                                                                   \
  int P##shmem_ctx_create(long options, shmem_ctx_t *ctx);                                        \
  int P##shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t *ctx);                \
  void P##shmem_ctx_destroy(shmem_ctx_t ctx);                                                     \
  int P##shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t *team);                                 \
  void P##shmem_ctx_session_start(                                                                \
      shmem_ctx_t ctx, long options, const shmem_ctx_session_config_t *config, long config_mask); \
  void P##shmem_ctx_session_stop(shmem_ctx_t ctx);                                                \
  /** fence: what the context puts, updates and signals at a PE afterwards becomes visible        \
   * there after its earlier operations. quiet: all operations are complete, and the results      \
   * of _nbi calls are available. pe_quiet: the same for these PEs. 9.12. */                      \
  void P##shmem_fence(void);                                                                      \
  void P##shmem_ctx_fence(shmem_ctx_t ctx);                                                       \
  void P##shmem_quiet(void);                                                                      \
  void P##shmem_ctx_quiet(shmem_ctx_t ctx);                                                       \
  void P##shmem_pe_quiet(const int *target_pes, size_t npes);                                     \
  void P##shmem_ctx_pe_quiet(shmem_ctx_t ctx, const int *target_pes, size_t npes);                \
  /** A lock of all PEs: a symmetric long, initially 0. Releasing it implies a quiet. test        \
   * returns 0 if this PE has acquired the lock. 9.13. */                                         \
  void P##shmem_set_lock(long *lock);                                                             \
  void P##shmem_clear_lock(long *lock);                                                           \
  int P##shmem_test_lock(long *lock);

SHMEM_DECLARE_SETUP_()
SHMEM_DECLARE_SETUP_(p)
SHMEM_DECLARE_MEMORY_()
SHMEM_DECLARE_MEMORY_(p)
SHMEM_DECLARE_TEAMS_()
SHMEM_DECLARE_TEAMS_(p)
SHMEM_DECLARE_CONTEXTS_()
SHMEM_DECLARE_CONTEXTS_(p)

#include "end.h"

#endif
