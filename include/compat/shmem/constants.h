/* shmem/constants.h: constants, handles and structures of OpenSHMEM 1.6, sections 6 and 9. C99 and
 * C++11. */
#ifndef TANADA_COMPAT_SHMEM_CONSTANTS_H
#define TANADA_COMPAT_SHMEM_CONSTANTS_H

#include <stddef.h>
#include <stdint.h>

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 6
#define SHMEM_MAX_NAME_LEN 64 /**< maximum size of SHMEM_VENDOR_STRING, with the final zero */
#define SHMEM_VENDOR_STRING "Tanada"

/** A context, whose operations are ordered and completed separately from others (section 9.5). A
 * team of PEs (section 9.4). */
typedef struct tnd_shmem_ctx *shmem_ctx_t;
typedef struct tnd_shmem_team *shmem_team_t;

#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2) /**< the PEs whose symmetric memory is mapped here */

/** For shmem_team_split_*: used if the mask has SHMEM_TEAM_NUM_CONTEXTS. */
typedef struct {
  int num_contexts; /**< maximum at the same time; 0 without the mask */
} shmem_team_config_t;
#define SHMEM_TEAM_NUM_CONTEXTS 1L

/** For shmem_ctx_session_start(): used if the mask has SHMEM_CTX_SESSION_TOTAL_OPS. */
typedef struct {
  size_t total_ops; /**< calls in the session; SIZE_MAX without the mask */
} shmem_ctx_session_config_t;
#define SHMEM_CTX_SESSION_TOTAL_OPS 1L
#define SHMEM_CTX_SESSION_BATCH 1L /**< option: latency does not matter */

/** Thread support, shmem_init_thread(): each level includes those before it. */
#define SHMEM_THREAD_SINGLE 0
#define SHMEM_THREAD_FUNNELED 1
#define SHMEM_THREAD_SERIALIZED 2
#define SHMEM_THREAD_MULTIPLE 3

/** Options of shmem_ctx_create(). */
#define SHMEM_CTX_SERIALIZED 1L /**< several threads, but only one at a time */
#define SHMEM_CTX_PRIVATE 2L    /**< only the thread that created it */
#define SHMEM_CTX_NOSTORE 4L    /**< fence and quiet need not order the program's own stores */

/** Hints of shmem_malloc_with_hints(). */
#define SHMEM_MALLOC_ATOMICS_REMOTE 1L
#define SHMEM_MALLOC_SIGNAL_REMOTE 2L

/** How a signal is changed: shmem_put_signal(). */
#define SHMEM_SIGNAL_SET 0
#define SHMEM_SIGNAL_ADD 1

/** How values are compared: shmem_wait_until(), shmem_test(). */
#define SHMEM_CMP_EQ 0
#define SHMEM_CMP_NE 1
#define SHMEM_CMP_GT 2
#define SHMEM_CMP_GE 3
#define SHMEM_CMP_LT 4
#define SHMEM_CMP_LE 5

/* Deprecated: work arrays of the collectives on active sets, counted in elements. */
#define SHMEM_SYNC_VALUE 0L
#define SHMEM_SYNC_SIZE 64
#define SHMEM_BCAST_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_BARRIER_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_COLLECT_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALL_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_SYNC_SIZE SHMEM_SYNC_SIZE
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 16

/* Deprecated: the names used before 1.3. */
#define _SHMEM_MAJOR_VERSION SHMEM_MAJOR_VERSION
#define _SHMEM_MINOR_VERSION SHMEM_MINOR_VERSION
#define _SHMEM_MAX_NAME_LEN SHMEM_MAX_NAME_LEN
#define _SHMEM_VENDOR_STRING SHMEM_VENDOR_STRING
#define _SHMEM_SYNC_VALUE SHMEM_SYNC_VALUE
#define _SHMEM_SYNC_SIZE SHMEM_SYNC_SIZE
#define _SHMEM_BCAST_SYNC_SIZE SHMEM_BCAST_SYNC_SIZE
#define _SHMEM_BARRIER_SYNC_SIZE SHMEM_BARRIER_SYNC_SIZE
#define _SHMEM_COLLECT_SYNC_SIZE SHMEM_COLLECT_SYNC_SIZE
#define _SHMEM_ALLTOALL_SYNC_SIZE SHMEM_ALLTOALL_SYNC_SIZE
#define _SHMEM_ALLTOALLS_SYNC_SIZE SHMEM_ALLTOALLS_SYNC_SIZE
#define _SHMEM_REDUCE_SYNC_SIZE SHMEM_REDUCE_SYNC_SIZE
#define _SHMEM_REDUCE_MIN_WRKDATA_SIZE SHMEM_REDUCE_MIN_WRKDATA_SIZE
#define _SHMEM_CMP_EQ SHMEM_CMP_EQ
#define _SHMEM_CMP_NE SHMEM_CMP_NE
#define _SHMEM_CMP_GT SHMEM_CMP_GT
#define _SHMEM_CMP_GE SHMEM_CMP_GE
#define _SHMEM_CMP_LT SHMEM_CMP_LT
#define _SHMEM_CMP_LE SHMEM_CMP_LE

#endif
